"""`Request`: what a job asks for, by amounts; `Allocation`: what it was given, with ids."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn, TypeVar, overload

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import (
    CORES,
    GPUS,
    INDEXED,
    MEMORY,
    amount,
    check_grantable,
    checked_ids,
    checked_name,
)
from grainlike.resources._quantity import UNIT, Amount, number, plain, quantity
from grainlike.resources._show import as_code, as_text

if TYPE_CHECKING:
    from decimal import Decimal

_NO_IDS: Mapping[str, tuple[int, ...]] = MappingProxyType({})

R = TypeVar("R", bound="Request")


class Request:
    """Named amounts, exact and immutable: `Cores(4) & Memory("8Gi")`.

    Usually made by `Cores`, `GPUs`, `Memory`, `Resource`, `Node` and `parse`; the constructor takes a
    mapping of names to amounts. `a & b` asks for both, and refuses two of one kind; `a + b` and `a - b`
    count by value; `a <= b` tells whether a fits in b. Requests compare and hash by value, pickle, and
    read back from `str` (by `parse`) and from `repr` (by `eval`). Only the empty request is falsy.

    Attributes:
        units: amounts by name, sorted, in nano-units (1e-9): exact integers for the scheduler.
        ids: ids by name; always empty but in an `Allocation`.

    Example:
        >>> request = Cores(4) & Memory("8Gi")
        >>> request["memory"], request.N, str(request)
        (8589934592, 4, 'cores=4 memory=8589934592')
    """

    __slots__ = ("ids", "units")

    units: Mapping[str, int]
    ids: Mapping[str, tuple[int, ...]]

    def __init__(self, amounts: Mapping[str, Amount] = MappingProxyType({})) -> None:
        units = {checked_name(name): amount(name, value) for name, value in amounts.items()}
        for name, value in units.items():
            check_grantable(name, value)
        _fill(self, _sorted(units), _NO_IDS)

    # What is in it

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all kinds, sorted."""
        return tuple(self.units)

    @property
    def N(self) -> int:  # noqa: N802 -- the public name
        """The number of cores; 0 without any."""
        return self.units.get(CORES, 0) // UNIT

    @property
    def c(self) -> int:
        """The number of cores, by its short name."""
        return self.N

    def __getitem__(self, name: str) -> "int | Decimal":
        """Give the amount called `name`: an int where it is whole, else a Decimal; KeyError without it."""
        return number(self.units[name])

    def __contains__(self, name: object) -> bool:
        return name in self.units

    def __iter__(self) -> Iterator[str]:
        return iter(self.units)

    def __bool__(self) -> bool:
        return bool(self.units)

    # Whether it fits

    def fits(self, limit: "Mapping[str, Amount] | Request") -> bool:
        """Tell whether every amount is at most what `limit` has; a name that `limit` lacks counts as 0.

        `limit` is an offer, another request, or a plain mapping of names to amounts (not nano-units).
        """
        return self.excess(limit) is None

    def excess(self, limit: "Mapping[str, Amount] | Request") -> str | None:
        """Give the first name, in order, of which this has more than `limit`; None where it fits."""
        units = limit.units if isinstance(limit, Request) else {n: quantity(v) for n, v in limit.items()}
        return next((name for name, value in self.units.items() if value > units.get(name, 0)), None)

    def fits_units(self, limit: Mapping[str, int]) -> bool:
        """As `fits`, on nano-units: what a scheduler's inner loop compares."""
        for name, value in self.units.items():  # a generator in all() takes twice the time
            if value > limit.get(name, 0):
                return False
        return True

    def __le__(self, other: "Request") -> bool:
        return self.fits_units(other.units) if isinstance(other, Request) else NotImplemented

    def __lt__(self, other: "Request") -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self.fits_units(other.units) and self.units != other.units

    # What it makes with others

    @overload
    def __and__(self, other: "Allocation") -> "Allocation": ...
    @overload
    def __and__(self, other: "Request") -> "Request": ...
    def __and__(self, other: "Request") -> "Request":
        """Ask for both. ResourceSpecError where both have the same kind."""
        if not isinstance(other, Request):
            return NotImplemented
        twice = next((name for name in self.units if name in other.units), None)
        if twice is not None:
            mine, theirs = plain(self.units[twice]), plain(other.units[twice])
            raise ResourceSpecError(f"{twice} is there twice, as {twice}={mine} and {twice}={theirs}; write it once")
        kind = Allocation if isinstance(self, Allocation) or isinstance(other, Allocation) else Request
        return build(kind, _sorted({**self.units, **other.units}), _sorted({**self.ids, **other.ids}))

    def __add__(self, other: "Request") -> "Request":
        """Count both together. The sum of allocations is a request: it has amounts, no ids."""
        if not isinstance(other, Request):
            return NotImplemented
        total = dict(self.units)
        for name, value in other.units.items():
            total[name] = total.get(name, 0) + value
        return build(Request, _sorted(total))

    def __sub__(self, other: "Request") -> "Request":
        """Take `other` away; a kind that reaches zero is dropped. ResourceSpecError below zero."""
        if not isinstance(other, Request):
            return NotImplemented
        rest = dict(self.units)
        for name, value in other.units.items():
            rest[name] = rest.get(name, 0) - value
            if rest[name] < 0:
                raise ResourceSpecError(f"{name}={plain(rest[name])}: an amount cannot go below zero")
        return build(Request, {name: value for name, value in rest.items() if value})

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse: a call binds tighter than `@`, so this is a slip of the pen that deserves a hint."""
        code = repr(self)
        whole = code if len(self.units) == 1 else f"({code})"
        raise TypeError(f"`fn @ {whole}(...)` calls {whole}; write `(fn @ {whole})(...)`")

    # As a value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self.units == other.units and self.ids == other.ids

    def __hash__(self) -> int:
        return hash((tuple(self.units.items()), tuple(self.ids.items())))

    def __str__(self) -> str:
        return as_text(self.units, self.ids)

    def __repr__(self) -> str:
        return as_code(self.units, self.ids)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[object, ...]:
        return build, (type(self), dict(self.units), dict(self.ids))


class Allocation(Request):
    """What a job was given, or what a worker offers: amounts, and ids for cores and devices.

    Made by `Cores([6, 7]) & Memory("8Gi")`, by a `Ledger`, or by `offer_of`. All that is true of requests
    is true of allocations, but a request that says which ids it wants is no request: see `as_request`.

    Args:
        amounts: amounts by name. For a kind with ids it may be left out, or be the share of one device.
        ids: distinct ids by name, for `cores` and `gpus`.

    Example:
        >>> given = Cores([6, 7, 9]) & Memory("8Gi")
        >>> given.cores, given.N, given.memory
        ((6, 7, 9), 3, 8589934592)
    """

    __slots__ = ()

    def __init__(
        self,
        amounts: Mapping[str, Amount] = MappingProxyType({}),
        ids: Mapping[str, Iterable[int]] = MappingProxyType({}),
    ) -> None:
        units = {checked_name(name): amount(name, value) for name, value in amounts.items()}
        found = {name: checked_ids(name, values) for name, values in ids.items()}
        for name, values in found.items():
            _check_share(name, units.setdefault(name, len(values) * UNIT), len(values))
        _fill(self, _sorted(units), _sorted(found))

    @property
    def cores(self) -> tuple[int, ...]:
        """The ids of the cores, ascending; `()` without any."""
        return self.ids.get(CORES, ())

    @property
    def gpus(self) -> tuple[int, ...]:
        """The ids of the devices, ascending; `()` without any. A share of a device shows that device."""
        return self.ids.get(GPUS, ())

    @property
    def memory(self) -> int:
        """Bytes of memory; 0 where none was asked for."""
        return self.units.get(MEMORY, 0) // UNIT

    @property
    def walltime(self) -> float | None:
        """Seconds that the job may run; None where nothing limits it."""
        return None

    @property
    def request(self) -> Request:
        """The request for the same amounts."""
        return build(Request, self.units)

    def __and__(self, other: Request) -> "Allocation":
        if not isinstance(other, Request):
            return NotImplemented
        return as_allocation(Request.__and__(self, other))


def build(kind: type[R], units: Mapping[str, int], ids: Mapping[str, tuple[int, ...]] = _NO_IDS) -> R:
    """Make a request or an allocation of parts that are known to be right and sorted, without checking."""
    made = kind.__new__(kind)
    _fill(made, units, ids)
    return made


def as_allocation(what: Request) -> Allocation:
    """Give `what` as an allocation; kinds without ids stay amounts."""
    return what if isinstance(what, Allocation) else build(Allocation, what.units, what.ids)


def as_request(what: object) -> Request:
    """Give `what` back if a job may ask for it.

    Raises:
        ResourceSpecError: it is no request, it says which ids it wants, or no job can be given so much.
    """
    if not isinstance(what, Request):
        raise ResourceSpecError(f"{what!r} is not a request: write one as Cores(4), or parse('cores=4')")
    if what.ids:
        raise ResourceSpecError(f"{what!r}: a request names amounts, ids belong to offers")
    for name, units in what.units.items():
        check_grantable(name, units)
    return what.request if isinstance(what, Allocation) else what


def _fill(made: Request, units: Mapping[str, int], ids: Mapping[str, tuple[int, ...]]) -> None:
    object.__setattr__(made, "units", units if isinstance(units, MappingProxyType) else MappingProxyType(units))
    object.__setattr__(made, "ids", ids if isinstance(ids, MappingProxyType) else MappingProxyType(ids))


V = TypeVar("V")


def _sorted(values: Mapping[str, V]) -> dict[str, V]:
    return {name: values[name] for name in sorted(values)}


def _check_share(name: str, units: int, count: int) -> None:
    if name not in INDEXED:
        raise ResourceSpecError(f"{name}: only cores and gpus have ids")
    if units != count * UNIT and not (name == GPUS and count == 1 and units < UNIT):
        raise ResourceSpecError(f"{name}={plain(units)} with {count} ids: only one device can be shared")


EMPTY = Request()
NO_ALLOCATION = Allocation()

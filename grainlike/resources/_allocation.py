"""`Allocation`: what a job was given, or what a worker offers, with ids."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NoReturn

from grainlike.errors import ResourceSpecError
from grainlike.resources._kinds import CORES, GPUS, KINDS, MEMORY, check_grantable, checked_ids, indexed, is_indexed
from grainlike.resources._mapping import split
from grainlike.resources._quantity import UNIT, Amount, plain
from grainlike.resources._request import Request, build, by_name, fill, join
from grainlike.resources._terms import kept, settled


class Allocation(Request):
    """Resources that a job was given, or that a worker offers: amounts, and ids for cores and devices.

    Made by `Cores([6, 7]) & Memory("8Gi")`, by a `Ledger`, or by `offer_of`. All that is true of requests
    is true of allocations, but a request that says which ids it wants is no request: see `as_request`. Of
    the terms it has the time and the tokens: those a worker has left and carries, or a job asked for.

    Args:
        amounts: amounts by name. For a kind with ids it may be left out, or be the share of one device.
        ids: distinct ids by name, for kinds whose pieces have ids: `cores` and `gpus`.

    Example:
        >>> given = Cores([6, 7, 9]) & Memory("8Gi")
        >>> given.cores, given.N, given.memory
        ((6, 7, 9), 3, 8589934592)
    """

    __slots__ = ()

    def __init__(
        self,
        amounts: "Mapping[str, Amount | Iterable[str]]" = MappingProxyType({}),
        ids: Mapping[str, Iterable[int]] = MappingProxyType({}),
    ) -> None:
        units, terms = split(amounts)
        found = {name: checked_ids(name, values) for name, values in ids.items()}
        for name, values in found.items():
            _check_share(name, units.setdefault(name, len(values) * UNIT), len(values))
        fill(self, by_name(units), by_name(found), settled(terms))

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
    def request(self) -> Request:
        """The request for the same amounts, time and tokens."""
        return build(Request, self.units, terms=self.terms)

    def lasting(self, seconds: float) -> "Allocation":
        """Return this allocation for so many whole seconds, if it lasts longer.

        Example:
            >>> str(Allocation({"cores": 2}).lasting(90))
            'cores=2 walltime=0:01:30'
        """
        time = int(seconds) * UNIT
        if self.terms.walltime is not None and self.terms.walltime <= time:
            return self
        return build(Allocation, self.units, self.ids, self.terms._replace(walltime=time))

    def __and__(self, other: Request) -> "Allocation":  # type: ignore[override]  # also beside a plain request
        # A request with several options refuses an allocation itself, in its `__rand__`.
        return as_allocation(join(self, other)) if type(other) in (Request, Allocation) else NotImplemented

    def __rand__(self, other: Request) -> "Allocation":
        return as_allocation(join(other, self)) if type(other) is Request else NotImplemented

    def __or__(self, other: Request) -> NoReturn:
        raise ResourceSpecError(f"{self!r} | ...: a choice is for requests, and ids belong to offers")

    __ror__ = __or__


def as_allocation(what: Request) -> Allocation:
    """Give `what` as an allocation; kinds without ids stay amounts.

    Raises:
        ResourceSpecError: it has parts that no worker can offer, such as a limit, or several options.
    """
    if isinstance(what, Allocation):
        return what
    if len(what.options) > 1:
        raise ResourceSpecError(f"{what} is no offer: it leaves a choice")
    if kept(what.terms) != what.terms:
        raise ResourceSpecError(f"{what} is no offer: beside amounts it has tokens and a time at most")
    return build(Allocation, what.units, what.ids, what.terms)


def as_request(what: object) -> Request:
    """Give `what` back if a job may ask for it.

    Raises:
        ResourceSpecError: it is no request, it says which ids it wants, or no job can be given so much.
    """
    if not isinstance(what, Request):
        raise ResourceSpecError(f"{what!r} is not a request: write one as Cores(4), or parse('cores=4')")
    for option in what.options:
        if option.ids:
            raise ResourceSpecError(f"{what!r}: a request names amounts, ids belong to offers")
        for name, units in option.units.items():
            check_grantable(name, units)
    return what.request if isinstance(what, Allocation) else what


def _check_share(name: str, units: int, count: int) -> None:
    if not is_indexed(name):
        raise ResourceSpecError(f"{name}: only {' and '.join(indexed())} have ids")
    if units != count * UNIT and not (KINDS[name].shared and count == 1 and units < UNIT):
        raise ResourceSpecError(f"{name}={plain(units)} with {count} ids: only one device can be shared")


NO_ALLOCATION = Allocation()

"""`Request`: what a job asks for, by amounts and by terms such as tokens and times; `a | b` is a choice of requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar

from grainlike.errors import ResourceSpecError
from grainlike.resources._fit import capacity_of, excess, time_fits, tokens_fit
from grainlike.resources._kinds import CORES, check_grantable
from grainlike.resources._mapping import split
from grainlike.resources._quantity import UNIT, Amount, number, plain
from grainlike.resources._show import as_code, as_text
from grainlike.resources._terms import NO_TERMS, Pack, Terms, grown, joined, settled

if TYPE_CHECKING:
    from decimal import Decimal


Ids = Mapping[str, tuple[int, ...]]

NO_IDS: Ids = MappingProxyType({})

R = TypeVar("R", bound="Request")


class Request:
    """Resources that a job asks for, exact and immutable: `Cores(4) & Memory("8Gi") & Token("big")`.

    Usually made by `Cores`, `GPUs`, `Memory`, `Resource`, `Node`, `WallTime`, `Token`, `Limit`, `Rate`, `Nodes` and
    `parse`; the constructor takes a mapping of names to amounts, in which `walltime` and `token` have their meaning.
    `a & b` asks for both, and refuses two of one kind; `a | b` for either, the left one preferred, and `&` distributes
    over it. `a + b` and `a - b` count amounts by value; `a <= b` tells whether a fits in b. Requests compare and hash
    by value, pickle, and read back from `str` (by `parse`) and from `repr` (by `eval`). Only the empty one is falsy.

    A request with several options (`a | b`) has none of the attributes below but `options` and `parts`: they belong
    to each option, and asking for them raises an `AttributeError` that says so.

    Attributes:
        units: amounts by name, sorted, in nano-units (1e-9): exact integers for the scheduler; of each node in a gang.
        ids: ids by name; always empty but in an `Allocation`.
        terms: all that is no amount; the properties below read it.

    Example:
        >>> request = Cores(4) & Memory("8Gi")
        >>> request["memory"], request.N, str(request)
        (8589934592, 4, 'cores=4 memory=8589934592')
    """

    __slots__ = ("_hash", "_text", "ids", "terms", "units")
    _several: ClassVar[bool] = False  # whether there is more than one option

    units: Mapping[str, int]
    ids: Ids
    terms: Terms
    _hash: int | None
    _text: str | None

    def __init__(self, amounts: Mapping[str, Amount | Iterable[str]] = MappingProxyType({})) -> None:
        units, terms = split(amounts)
        for name, value in units.items():
            check_grantable(name, value)
        fill(self, by_name(units), NO_IDS, settled(terms))

    # What is in it

    @property
    def options(self) -> tuple[Request, ...]:
        """Return the requests that it may be granted as, in order of preference: `(self,)`, or the sides of `a | b`."""
        return (self,)

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all that it says, sorted: `cores`, `limit:db`, `token`."""
        return tuple(sorted((*self.units, *self.terms.keys())))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all amounts, sorted."""
        return tuple(self.units)

    @property
    def N(self) -> int:  # noqa: N802 -- the public name
        """The number of cores (of each node, in a gang); 0 without any."""
        return self.units.get(CORES, 0) // UNIT

    @property
    def c(self) -> int:
        """The number of cores, by its short name."""
        return self.N

    @property
    def walltime(self) -> float | None:
        """Seconds that the job may run; None where nothing limits it."""
        units = self.terms.walltime
        return None if units is None else units / UNIT

    @property
    def walltime_soft(self) -> float | None:
        """Seconds that must be left where the job starts: `soft=`, else `walltime`."""
        units = self.terms.soft
        return self.walltime if units is None else units / UNIT

    @property
    def walltime_group(self) -> str | None:
        """The group of jobs from which its times are learned; None where they are not."""
        return self.terms.group

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tags that a worker must carry, sorted; for an offer, those that it carries."""
        return self.terms.tokens

    @property
    def limits(self) -> Mapping[str, int]:
        """Return the amount of each cluster-wide counter that it holds, by name, in nano-units."""
        return MappingProxyType(dict(self.terms.limits))

    @property
    def rates(self) -> Mapping[str, int]:
        """The rates that its launches count against, by name, in launches per second times 1e9."""
        return MappingProxyType(dict(self.terms.rates))

    @property
    def nodes(self) -> int:
        """Return the number of nodes at the same time; 1 if it is no gang."""
        return self.terms.nodes

    @property
    def each(self) -> Request:
        """Return the request for each node of a gang; the request itself if it is no gang."""
        if self.terms.nodes == 1:
            return self
        return build(Request, self.units, NO_IDS, settled(self.terms._replace(nodes=1)))

    @property
    def pack(self) -> Pack | None:
        """Return where its cores lie: `numa` within one NUMA node, `spread` over all, None compactly where it can be
        had.
        """
        return self.terms.pack

    def grown(self) -> Request | None:
        """Give what to ask for after the memory was too small, by `Memory(..., grow=, max=)`; None if it cannot grow.

        Example:
            >>> Memory("4G", grow=2, max="6G").grown()
            Memory("6G", grow=2, max="6G")
        """
        more = grown(self.units.get("memory", 0), self.terms.growth)
        return None if more is None else build(Request, {**self.units, "memory": more}, NO_IDS, self.terms)

    def __getitem__(self, name: str) -> int | Decimal:
        """Give the amount called `name`: an int where it is whole, else a Decimal; KeyError without it."""
        return number(self.units[name])

    def __contains__(self, name: object) -> bool:
        return name in self.units

    def __iter__(self) -> Iterator[str]:
        return iter(self.units)

    def __bool__(self) -> bool:
        return bool(self.units) or self.terms is not NO_TERMS

    # Whether it fits

    def fits(self, limit: Mapping[str, Amount | Iterable[str]] | Request) -> bool:
        """Tell whether it could be met within `limit`: an offer, another request, or a plain mapping.

        A mapping says amounts (not nano-units) by name, and `walltime` and `token` too. A name that `limit` lacks
        counts as 0, a token as not carried; but no time, limit or rate there means that none is set. Of a request
        with several options, one must fit; in a limit with several options, it must fit whichever is given.
        """
        return self.excess(limit) is None

    def excess(self, limit: Mapping[str, Amount | Iterable[str]] | Request) -> str | None:
        """Give the first name, in order, of which this has more than `limit`; None where it fits."""
        return excess(self.options, limit.options if isinstance(limit, Request) else (capacity_of(limit),))

    def fits_units(self, limit: Mapping[str, int]) -> bool:
        """Tell whether it fits by its amounts alone, in nano-units: what a scheduler's inner loop compares."""
        for name, value in self.units.items():  # a generator in all() takes twice the time
            if value > limit.get(name, 0):
                return False
        return True

    def suits(self, offer: Request) -> bool:
        """Tell whether an offer carries its tokens and has its time left, whatever the amounts."""
        mine = self.terms
        return mine is NO_TERMS or (tokens_fit(mine, offer.terms) and time_fits(mine, offer.terms))

    def __le__(self, other: Request) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        if not self._several and not other._several and self.terms is other.terms is NO_TERMS:
            return self.fits_units(other.units)
        return self.excess(other) is None

    def __lt__(self, other: Request) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self.excess(other) is None and other.excess(self) is not None

    # What it makes with others

    def __and__(self, other: R) -> R:
        """Ask for both; the answer is an allocation beside one. ResourceSpecError where both have the same kind."""
        # Allocations, and requests with several options, have a say of their own in `__rand__`.
        return join(self, other) if type(other) is Request else NotImplemented  # type: ignore[return-value]

    def __or__(self, other: Request) -> Request:
        """Ask for either, this one preferred. ResourceSpecError where one has ids, or is empty."""
        if not isinstance(other, Request):
            return NotImplemented
        return either((*self.options, *other.options))

    def __add__(self, other: Request) -> Request:
        """Count both together. The sum of allocations is a request: it has amounts, no ids."""
        if not isinstance(other, Request):
            return NotImplemented
        total = dict(_amounts(self))
        for name, value in _amounts(other).items():
            total[name] = total.get(name, 0) + value
        return build(Request, by_name(total))

    def __sub__(self, other: Request) -> Request:
        """Take `other` away; a kind that reaches zero is dropped. ResourceSpecError below zero."""
        if not isinstance(other, Request):
            return NotImplemented
        rest = dict(_amounts(self))
        for name, value in _amounts(other).items():
            rest[name] = rest.get(name, 0) - value
            if rest[name] < 0:
                raise ResourceSpecError(f"{name}={plain(rest[name])}: an amount cannot go below zero")
        return build(Request, {name: value for name, value in rest.items() if value})

    if not TYPE_CHECKING:  # a type checker refuses both by itself, and would take the rest for unreachable

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            """Refuse: a call binds tighter than `@`, so this is a slip of the pen that deserves a hint."""
            inside = self._operand()
            raise TypeError(f"`fn @ {inside}(...)` calls {inside}; write `(fn @ {inside})(...)`")

        def __rmatmul__(self, other: object) -> NoReturn:
            """Refuse: what is on the left is no delayed function."""
            whole = self._operand()
            if not callable(other):
                raise TypeError(
                    f"`fn @ {whole}` takes a delayed function, not {type(other).__name__}; `await` and calls bind "
                    f"tighter than `@`: write `(fn @ {whole})(x)`, and await that"
                )
            name = getattr(other, "__name__", "")
            name = name if name.isidentifier() else "fn"
            raise TypeError(f"{name} is not delayed: write `@delayed` above it, or `delayed({name}) @ {whole}`")

    def _operand(self) -> str:
        """Return this request as code that may stand beside any operator."""
        code = repr(self)
        return f"({code})" if any(symbol in code for symbol in (" & ", " | ", " + ")) else code

    # As a value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self.units == other.units and self.ids == other.ids and self.terms == other.terms

    def __hash__(self) -> int:
        known = self._hash
        if known is None:
            known = hash((tuple(self.units.items()), tuple(self.ids.items()), self.terms))
            _set_hash(self, known)
        return known

    def __str__(self) -> str:
        known = self._text
        if known is None:
            known = as_text(self.units, self.ids, self.terms)
            _set_text(self, known)
        return known

    def __repr__(self) -> str:
        return as_code(self.units, self.ids, self.terms)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[object, ...]:
        said = () if self.terms is NO_TERMS else (self.terms,)
        return build, (type(self), dict(self.units), dict(self.ids), *said)


def build(kind: type[R], units: Mapping[str, int], ids: Ids = NO_IDS, terms: Terms = NO_TERMS) -> R:
    """Make a request or an allocation of parts that are known to be right and sorted, without checking."""
    made = kind.__new__(kind)
    fill(made, units, ids, terms)
    return made


def join(a: Request, b: Request) -> Request:
    """Give `a & b` as a request, whatever they are; ResourceSpecError where both have the same kind."""
    if a.terms is not NO_TERMS or b.terms is not NO_TERMS:
        _check_gang(a, b)
    twice = next((name for name in a.units if name in b.units), None)
    if twice is not None:
        mine, theirs = plain(a.units[twice]), plain(b.units[twice])
        raise ResourceSpecError(f"{twice} is there twice, as {twice}={mine} and {twice}={theirs}; write it once")
    ids = by_name({**a.ids, **b.ids}) if a.ids or b.ids else NO_IDS
    return build(Request, by_name({**a.units, **b.units}), ids, joined(a.terms, b.terms))


def _check_gang(a: Request, b: Request) -> None:
    """Beside a gang there may be no amounts: would they be for each node, or for all of them together?"""
    if a.terms.nodes > 1 and b.terms.nodes > 1:
        raise ResourceSpecError("nodes is there twice; write it once")
    for gang, other in ((a, b), (b, a)):
        if gang.terms.nodes > 1 and other.units:
            names = ", ".join(other.units)
            raise ResourceSpecError(f"nodes={gang.terms.nodes} beside {names}: write what each node has into each=")


def _amounts(request: Request) -> Mapping[str, int]:
    if request._several or request.terms is not NO_TERMS:
        raise ResourceSpecError(f"{request} does not add: only amounts count by value")
    return request.units


def fill(made: Request, units: Mapping[str, int], ids: Ids, terms: Terms) -> None:
    """Set all there is in a new request; the mappings become read-only."""
    _set_units(made, units if isinstance(units, MappingProxyType) else MappingProxyType(units))
    _set_ids(made, ids if isinstance(ids, MappingProxyType) else MappingProxyType(ids))
    _set_terms(made, terms)
    _set_hash(made, None)
    _set_text(made, None)


V = TypeVar("V")


def by_name(values: Mapping[str, V]) -> dict[str, V]:
    """Give the same, sorted by name."""
    return {name: values[name] for name in sorted(values)}


# Requests are immutable to everybody else, and `object.__setattr__` is slower than the slots' own setters.
_set_units = Request.__dict__["units"].__set__
_set_ids = Request.__dict__["ids"].__set__
_set_terms = Request.__dict__["terms"].__set__
_set_hash = Request.__dict__["_hash"].__set__
_set_text = Request.__dict__["_text"].__set__

EMPTY = Request()


class Either(Request):
    """A request with at least two different options, each a simple request; made by `either` alone."""

    __slots__ = ("_options",)
    _several: ClassVar[bool] = True

    _options: tuple[Request, ...]

    @property
    def options(self) -> tuple[Request, ...]:
        return self._options

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(sorted({part for option in self._options for part in option.parts}))

    def grown(self) -> Request | None:
        """Let every option grow that can; None if none can."""
        grown = [option.grown() for option in self._options]
        if not any(grown):
            return None
        return either(tuple(more or option for more, option in zip(grown, self._options, strict=True)))

    def __and__(self, other: Request) -> Request:  # type: ignore[override]  # never an allocation: that is refused
        if not isinstance(other, Request):
            return NotImplemented
        return either(tuple(mine & theirs for mine in self._options for theirs in other.options))

    def __rand__(self, other: Request) -> Request:
        return either(tuple(other & mine for mine in self._options))

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._options == other.options

    def __hash__(self) -> int:
        return hash(self._options)

    def __str__(self) -> str:
        return " | ".join(map(str, self._options))

    def __repr__(self) -> str:
        return " | ".join(map(repr, self._options))

    def __getattr__(self, name: str) -> NoReturn:
        """Everything that belongs to each option: the slots of `Request` stay unset here."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"{self} has several options: ask each of its .options for {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        return either, (self._options,)


MOST_OPTIONS = 64  # each of them is looked at whenever something is free

_set_options = Either.__dict__["_options"].__set__


def either(options: tuple[Request, ...]) -> Request:
    """Give a request for any of the options, in this order; the same one twice counts once."""
    distinct = tuple(dict.fromkeys(options))
    if len(distinct) > MOST_OPTIONS:
        raise ResourceSpecError(f"a request with {len(distinct)} options is no request: there may be {MOST_OPTIONS}")
    for option in distinct:
        if type(option) is not Request:
            raise ResourceSpecError(f"{option!r}: a choice is for requests, and ids belong to offers")
        if not option:
            raise ResourceSpecError("a | b: an empty request is no choice, for it always fits")
    if len(distinct) == 1:
        return distinct[0]
    made = Either.__new__(Either)
    _set_options(made, distinct)
    return made

"""Comparison of a request with a limit, by its amounts and by its terms; and of bytes with the tiers of a store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from grainlike.resources._mapping import TIME, TOKEN, tags
from grainlike.resources._quantity import Amount, quantity
from grainlike.resources._terms import NO_TERMS, Pairs, Terms
from grainlike.resources._time import duration

SUMS_MOST = 4096
"""Most ways to fill a tier that are tried; with more ways than that, the values count as fitting."""


class Quantified(Protocol):
    """Interface of what is compared: a request without a choice, an offer, or a `Capacity`."""

    @property
    def units(self) -> Mapping[str, int]: ...
    @property
    def terms(self) -> Terms: ...


class Capacity(NamedTuple):
    """Resources that a request is compared with."""

    units: Mapping[str, int]
    terms: Terms


def excess(asked: Sequence[Quantified], given: Sequence[Quantified]) -> str | None:
    """Give the first name, in order, of which the options `asked` have more than `given`; None where they fit.

    Whichever option of `given` there is, one of those asked for must fit; else the name is of the preferred one.
    """
    for room in given:
        over = [_over(option, room) for option in asked]
        if None not in over:
            return over[0]
    return None


def capacity_of(limit: "Mapping[str, Amount | Iterable[str]]") -> Capacity:
    """Read a mapping of names to amounts, in which `walltime` and `token` have their meaning."""
    units = {name: quantity(_amount(value)) for name, value in limit.items() if name not in (TIME, TOKEN)}
    time = limit.get(TIME)
    left = None if time is None else duration(time) if isinstance(time, str) else quantity(_amount(time))
    return Capacity(units, Terms(walltime=left, tokens=tags(limit.get(TOKEN, ()))))


def _amount(value: "Amount | Iterable[str]") -> Amount:
    return value  # type: ignore[return-value]  # what is no amount is refused by `quantity`


def _over(asked: Quantified, room: Quantified) -> str | None:
    over = [name for name, value in asked.units.items() if value > room.units.get(name, 0)]
    if asked.terms is not NO_TERMS:
        over += _terms_over(asked.terms, room.terms)
    return min(over, default=None)


def _terms_over(asked: Terms, given: Terms) -> Iterator[str]:
    yield from (f"limit:{name}" for name in _pairs_over(asked.limits, given.limits))
    if asked.nodes > given.nodes:
        yield "nodes"
    yield from (f"rate:{name}" for name in _pairs_over(asked.rates, given.rates))
    if not tokens_fit(asked, given):
        yield TOKEN
    if not time_fits(asked, given):
        yield TIME


def _pairs_over(asked: Pairs, given: Pairs) -> Iterator[str]:
    most = dict(given)
    return (name for name, value in asked if value > most.get(name, value))


def tokens_fit(asked: Terms, given: Terms) -> bool:
    """Tell whether all tokens that are asked for are carried."""
    return all(token in given.tokens for token in asked.tokens)


def time_fits(asked: Terms, given: Terms) -> bool:
    """Tell whether there is time enough to start; without a time on either side there is."""
    time = asked.walltime if asked.soft is None else asked.soft
    return time is None or given.walltime is None or time <= given.walltime


def fits_tiers(sizes: Iterable[int], memory: int, scratch: int) -> bool:
    """Return True if values of these sizes fit into two tiers together, each value whole in one tier.

    Example::

        fits_tiers([6, 6], 10, 10)       # True
        fits_tiers([6, 6, 6], 10, 10)    # False
    """
    found = sorted(sizes, reverse=True)
    least = sum(found) - scratch
    sums = {0}
    for size in found:
        if max(sums) >= least or len(sums) > SUMS_MOST:
            break
        sums |= {one + size for one in sums if one + size <= memory}
    return least <= memory and (max(sums) >= least or len(sums) > SUMS_MOST)

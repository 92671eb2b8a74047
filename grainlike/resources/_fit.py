"""Comparison of a request with a limit, by its amounts and by its terms."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from grainlike.resources._mapping import TIME, TOKEN, tags
from grainlike.resources._quantity import Amount, quantity
from grainlike.resources._terms import NO_TERMS, Pairs, Terms
from grainlike.resources._time import duration

if TYPE_CHECKING:
    from grainlike.resources._request import Request


class Capacity(NamedTuple):
    """Resources that a request is compared with."""

    units: Mapping[str, int]
    terms: Terms


def excess(request: "Request", limit: "Mapping[str, Amount | Iterable[str]] | Request") -> str | None:
    """Give the first name, in order, of which `request` has more than `limit`; None where it fits.

    Whichever option of the limit is given, one of the request must fit; else the name is of the preferred one.
    """
    for room in _rooms(limit):
        over = [_over(option, room) for option in request.options]
        if None not in over:
            return over[0]
    return None


def _rooms(limit: "Mapping[str, Amount | Iterable[str]] | Request") -> list[Capacity]:
    if not isinstance(limit, Mapping):
        return [Capacity(option.units, option.terms) for option in limit.options]
    units = {name: quantity(_amount(value)) for name, value in limit.items() if name not in (TIME, TOKEN)}
    time = limit.get(TIME)
    left = None if time is None else duration(time) if isinstance(time, str) else quantity(_amount(time))
    return [Capacity(units, Terms(walltime=left, tokens=tags(limit.get(TOKEN, ()))))]


def _amount(value: "Amount | Iterable[str]") -> Amount:
    return value  # type: ignore[return-value]  # what is no amount is refused by `quantity`


def _over(request: "Request", room: Capacity) -> str | None:
    over = [name for name, value in request.units.items() if value > room.units.get(name, 0)]
    if request.terms is not NO_TERMS:
        over += _terms_over(request.terms, room.terms)
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

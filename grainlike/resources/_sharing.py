"""Sharing of slots: one request for several jobs that run one after another on the same slots."""

from collections.abc import Iterable

from grainlike.resources._request import EMPTY, NO_IDS, Request, build, by_name
from grainlike.resources._terms import Terms, settled

__all__ = ["shareable", "widest"]


def shareable(request: Request) -> bool:
    """Return True if slots may serve other jobs too: the request has amounts and tokens, and nothing else.

    A choice, a gang, a time, a limit or a rate is for one job: for several together it would mean something else.
    """
    return len(request.options) == 1 and settled(request.terms._replace(tokens=())) == Terms()


def widest(requests: Iterable[Request]) -> Request:
    """Return the element-wise maximum of shareable requests, with the tokens of all.

    >>> from grainlike import Cores, Memory
    >>> str(widest([Cores(2) & Memory(100), Cores(1) & Memory(300)]))
    'cores=2 memory=300'
    """
    units: dict[str, int] = {}
    tokens: set[str] = set()
    for request in requests:
        tokens.update(request.tokens)
        for name, amount in request.units.items():
            units[name] = max(amount, units.get(name, 0))
    if not units and not tokens:
        return EMPTY
    return build(Request, by_name(units), NO_IDS, settled(Terms(tokens=tuple(sorted(tokens)))))

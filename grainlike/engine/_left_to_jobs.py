"""Operators on values that stay at workers, where jobs need them: which are left to these, and parts of values.

The part of a value, of a call with `nout=`, is taken by a job of its own: so it is a value of its own, which stays,
moves, is counted and dropped by itself.
"""

from __future__ import annotations

from functools import lru_cache

from grainlike.graph import PICK, Function, Node, Options, RemoteValue, RunsIn
from grainlike.resources import Cores, Request

__all__ = ["becomes_job", "is_for_jobs", "is_for_one_job", "least_request"]


def is_for_jobs(node: Node) -> bool:
    """Return True if a call with resources needs an operator, itself or as the one that needs another operator."""
    return any(dependent.place is RunsIn.REMOTE or is_for_one_job(dependent) for dependent in node.dependents or ())


def is_for_one_job(node: Node) -> bool:
    """Return True if one call with resources is all that needs an operator, itself or by way of others."""
    while node.interest == 1 and node.dependents is not None and len(node.dependents) == 1:
        node = node.dependents[0]
        if node.place is not RunsIn.INLINE:
            return node.place is RunsIn.REMOTE and node.function.options.cache is None
    return False


def becomes_job(node: Node) -> bool:
    """Have the part of a value that stays at a worker taken by a job near it; return False, and change nothing, for
    whatever else a node does.
    """
    if node.function is not PICK:
        return False
    whole = node.given[0][0]
    if not isinstance(whole, Node) or type(whole.reference) is not RemoteValue:
        return False
    options = whole.function.options
    node.function = _taking(options.priority, options.level)
    node.place, node.request = RunsIn.REMOTE, least_request(whole.request)
    return True


def least_request(made: Request | None) -> Request:
    """Return what a job asks for that only handles a value: as little as a worker that made it by `made` may offer.

    >>> least_request(Cores(8)), least_request(None)
    (Cores(1), Cores(1))
    """
    return Cores(1) if made is None or all(option.N for option in made.options) else made


@lru_cache(maxsize=256)
def _taking(priority: int, level: int) -> Function:
    return Function(PICK.callable, Options(priority=priority, level=level), name="part", internal=True)

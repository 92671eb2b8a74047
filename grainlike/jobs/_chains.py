"""Chains: calls of which each needs the value of the one before, and that are measured to be quick, are sent
together.

A round trip for each of them would cost a hundred times what they do. So a call that is ready to be sent takes along
the call that waits for it alone, and so on, as far as all of them ask for the same and are measured to be tiny: one
job to the schedulers, which the worker's `_chain` takes apart. A chain grows only while that delays no other call:
the value of each link is reported when the chain has ended, after `CHAIN_S` of expected work at most.

Values of links travel, so functions that have given large values are in no chain: those values stay at workers.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache

from grainlike.graph import UNFETCHED, Function, Node, Retry, RunsIn
from grainlike.payload import PREVIOUS, Payload, dump_arguments_before, load_value
from grainlike.resources import Request

__all__ = ["CHAIN_MOST", "CHAIN_S", "Chained", "LinkOutcome", "chained_after", "follower_of", "outcomes_of"]

CHAIN_S = 0.002
"""The most expected work in one chain."""

CHAIN_MOST = 256
"""Number of calls that one may take along."""

_ONCE = Retry(0)
"""The default: no retries."""

_REMOTE = RunsIn.REMOTE

Chained = tuple[Node, int, bytes]
"""A call that goes along: its node, the number of its function, and the bytes of its arguments."""

LinkOutcome = tuple[bool, bytes, tuple[bytes, ...], float, float, float]
"""Outcome of one link: as of `grainlike_worker.runner.common._chain`."""


def chained_after(
    node: Node,
    follower: Node | None,
    pace: Callable[[int], float | None],
    number: Callable[[Function], int],
    fn: int,
    large: Container[int],
) -> list[Chained]:
    """Return the calls that may be sent with `node`, which is ready: in order, each waiting for the one before alone.

    `follower` is the first that may (`follower_of`), `fn` the number of the node's function, and `large` has the
    functions whose values stay at workers.
    """
    behind: list[Chained] = []
    seconds = pace(fn) if _may_chain(node) else None
    work = 0.0
    while seconds is not None and follower is not None and len(behind) < CHAIN_MOST:
        work += seconds
        same = follower.function is node.function
        # What may chain is asked of the first of those that are alike.
        if work > CHAIN_S or not ((same and follower.request is node.request) or _alike(node, follower)):
            break
        link = _link(node, follower, fn if same else None, number)
        if link is None or link[1] in large:
            break
        behind.append(link)
        if link[1] != fn:
            fn = link[1]
            seconds = pace(fn)
        node, follower = follower, follower_of(follower)
    return behind


def outcomes_of(parcel: Payload) -> list[LinkOutcome]:
    """Return the outcomes of a chain's links, in order; those that are missing were not run."""
    outcomes: list[LinkOutcome] = load_value(parcel)
    return outcomes


def _link(node: Node, follower: Node, fn: int | None, number: Callable[[Function], int]) -> Chained | None:
    """Return the follower as a link; None where it had better go alone, if only to fail there with the right words.
    `fn` is the number of its function, where that is known.
    """
    arguments = follower.arguments_before(node, PREVIOUS)
    if arguments is None:
        return None
    args, kwargs = arguments
    # One alone is the value that is to come.
    if len(args) + len(kwargs) > 1 and not UNFETCHED.isdisjoint(map(type, (*args, *kwargs.values()))):
        return None  # references are for jobs alone
    try:
        if fn is None:
            fn = number(follower.function)
        data = dump_arguments_before(*arguments, what=follower.function.name)
    except Exception:  # noqa: BLE001 - whatever the user's objects raise, they raise it again when it goes alone
        return None
    return None if data is None else (follower, fn, data)


def follower_of(node: Node) -> Node | None:
    """The one call with resources that waits for this node, and for nothing else; None where there are several."""
    found: Node | None = None
    for dependent in node.dependents or ():
        if dependent.place is _REMOTE and not dependent.finished:
            if found is not None:
                return None
            found = dependent
    return found if found is not None and found.missing == 1 else None


def _alike(node: Node, follower: Node) -> bool:
    ours, theirs = node.function, follower.function
    return (
        follower.request == node.request
        and ours.is_async == theirs.is_async
        and ours.options.priority == theirs.options.priority
        and _may_chain(follower)
    )


def _may_chain(node: Node) -> bool:
    options = node.function.options
    plain = options.timeout is None and options.retry == _ONCE and options.cache is None
    plain = plain and not (options.isolate or options.keep)
    plain = plain and not (node.function.is_stream or node.function.alone)
    return plain and node.request is not None and _is_simple(node.request)


@lru_cache(maxsize=256)
def _is_simple(request: Request) -> bool:
    """Return True if a request has no term that holds for each call by itself, as a limit or a walltime does."""
    if len(request.options) > 1 or request.nodes > 1 or "gpus" in request:
        return False
    timed = request.walltime is not None or request.walltime_group is not None
    return not (timed or request.limits or request.rates or request.grown() is not None)

"""Many calls in one step: those that are taken to be sent, and those whose values came together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import islice
from typing import Any

from grainlike.graph import Node
from grainlike.resources import Request

__all__ = ["settle", "taken"]

_REQUESTS = 32
"""Most different requests that they have: each is a decision of the scheduler, of some 0.1 ms."""


def taken(calls: deque[Node], most: int, requests: set[Request | None]) -> list[Node]:
    """Remove the first calls, at most so many, and return those that have not finished. `requests` are of all that this
    step took.
    """
    count = 0
    last: Request | None = None
    for node in islice(calls, most):
        request = node.request
        # As that of most is that come together: to hash one for each call is dear.
        if request is not last and not node.finished:
            if request not in requests:
                if len(requests) >= _REQUESTS:
                    break
                requests.add(request)
            last = request
        count += 1
    taken = [node for node in islice(calls, count) if not node.finished]
    if count == len(calls):
        calls.clear()
    else:
        for _ in range(count):
            calls.popleft()
    return taken


def settle(
    batch: Iterable[tuple[Node, Any]],
    wanted: MutableMapping[Node, Any],
    now_ready: Callable[[Node], object],
    finish: Callable[..., object],
) -> int:
    """Finish calls with their values, one after another; return how many there were.

    Those whose values are kept in a cache go through `finish`, and dependents whose last input came to `now_ready`.
    """
    # Calls that one `gather` waits for have the same dependents, which are told of all of them at once.
    dependents: Sequence[Node] | None = None
    seen = count = age = 0
    for node, value in batch:
        seen += 1
        if node.function.options.cache is not None:
            finish(node, good=True, outcome=value)
        elif node.succeed(value):
            if node in wanted:
                del wanted[node]
            if node.dependents is not None:
                if node.dependents is not dependents:
                    if dependents is not None:
                        _came(dependents, count, age, now_ready)
                    dependents, count, age = node.dependents, 0, 0
                node.dependents = None
                count += 1
                if node.age and (node.age < age or not age):
                    age = node.age
            if node.waiters is not None:
                if dependents is not None:
                    _came(dependents, count, age, now_ready)
                    dependents = None
                waiters, node.waiters = node.waiters, None
                for waiter in waiters:
                    waiter()
    if dependents is not None:
        _came(dependents, count, age, now_ready)
    return seen


def _came(dependents: Sequence[Node], count: int, age: int, now_ready: Callable[[Node], object]) -> None:
    """Tell nodes that so many of their inputs have come, of which the oldest job has the number `age`."""
    for dependent in dependents:
        if age and (age < dependent.age or not dependent.age):
            dependent.age = age
        dependent.missing -= count
        if not dependent.missing and not dependent.finished:
            now_ready(dependent)

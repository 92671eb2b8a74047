"""`as_completed`: placeholders in the order in which they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, overload

import anyio

from grainlike.engine import BaseResolver
from grainlike.executor import find
from grainlike.graph import Delayed, Node, node_of
from grainlike.maps._amap import OnlyAsync
from grainlike.maps._wait import listed

__all__ = ["as_completed"]

T = TypeVar("T")


@overload
def as_completed(*placeholders: Delayed[T]) -> AsyncIterator[Delayed[T]]: ...
@overload
def as_completed(placeholders: Iterable[Delayed[T]], /) -> AsyncIterator[Delayed[T]]: ...
def as_completed(*placeholders: Any) -> AsyncIterator[Delayed[Any]]:
    """Yield placeholders, given as arguments or as one iterable, as they finish, whatever their outcome: await each to
    get its value or its error.

    All are started at the first step. Leaving the loop early lets the others run, as with `asyncio.as_completed`.
    Cancelling the loop cancels the calls that nothing else awaits.

    Raises:
        TypeError: an item is not a placeholder.

    Example::

        async for r_ in as_completed([(fit @ Cores(1))(x) for x in data]):
            print(await r_)
    """
    items = list(placeholders)
    if len(items) == 1 and not isinstance(items[0], Delayed):
        items = listed(items[0], "as_completed")
    return _Arrivals(items)


class _Arrivals(OnlyAsync, AsyncIterator[Delayed[T]], Generic[T]):
    made_by = "as_completed"

    def __init__(self, placeholders: list[Delayed[T]]) -> None:
        self._placeholders: dict[Node, list[Delayed[T]]] = {}
        for placeholder in placeholders:
            self._placeholders.setdefault(node_of(placeholder), []).append(placeholder)
        self._finished: deque[Delayed[T]] = deque()
        self._wanted: set[Node] = set()
        self._executor: BaseResolver | None = None
        self._arrived: anyio.Event | None = None
        self._begun = False

    async def __anext__(self) -> Delayed[T]:
        if not self._begun:
            self._begin()
        while not self._finished:
            if not self._wanted or self._executor is None:
                raise StopAsyncIteration
            self._arrived = anyio.Event()
            await self._executor.pause(self._arrived, lambda: self._wanted, self._release)
        return self._finished.popleft()

    def _release(self) -> None:
        """Release the placeholders that are left, as the loop was cancelled: those that nothing else awaits are
        cancelled.
        """
        if self._executor is not None:
            self._executor.release(list(self._wanted))
        self._wanted.clear()

    def _begin(self) -> None:
        self._begun = True
        unfinished = [node for node in self._placeholders if not node.finished]
        self._wanted.update(unfinished)
        for node in self._placeholders:
            if node.finished:
                self._finished.extend(self._placeholders[node])
        if unfinished:
            self._executor = find()
            for node in unfinished:
                self._executor.watch(node, partial(self.arrive, node))
            self._executor.start(unfinished)

    def arrive(self, node: Node) -> None:
        """Record that a node has finished, and wake the reader."""
        self._wanted.discard(node)
        self._finished.extend(self._placeholders[node])
        if self._arrived is not None:
            self._arrived.set()

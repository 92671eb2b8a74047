"""Reading a stream: the iterator behind `async for item in (fn @ Cores(1))(x)`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from grainlike.engine._stream_buffer import Bell, inlet_of
from grainlike.graph import State, StreamNode

if TYPE_CHECKING:
    from grainlike.engine._resolver import Resolving

__all__ = ["Reading"]


class Reading(AsyncIterator[Any]):
    """The one reader of a stream. It starts the work at the first step, and ends it when it goes away before the end.

    Being cancelled in a step ends the stream too, as with any generator. `aclose` ends it and does not wait for it.
    """

    def __init__(self, executor: Resolving, node: StreamNode) -> None:
        self._executor = executor
        self._node = node
        self._inlet = inlet_of(node)
        self._bell = Bell()
        self._begun = False
        self._over = False

    async def __anext__(self) -> Any:
        if self._bell.awaited:
            raise RuntimeError(f"another task waits for the next item of {self._node.function.name}")
        if not self._over and not self._begun:
            self._begin()
        while not self._over:
            if self._inlet and self._node.state is not State.CANCELLED:
                return self._take()
            if self._node.finished:
                self._over = True
                self._inlet.clear()
                self._node.result()
            else:
                await self._next_ring()
        raise StopAsyncIteration

    def _begin(self) -> None:
        self._begun = True
        if not self._node.finished:
            self._inlet.bell = self._bell.set
            self._executor.start([self._node])
            self._executor.watch(self._node, self._bell)

    def _take(self) -> Any:
        try:
            return self._inlet.take()
        except BaseException:
            self._end()
            raise

    async def _next_ring(self) -> None:
        try:
            await self._bell.wait()
        except BaseException:
            self._end()
            raise

    async def aclose(self) -> None:
        """End the stream, if it has not ended. Its `finally` runs where it is; `aclose` does not wait for that."""
        self._end()

    def _end(self) -> None:
        if not self._over:
            self._over = True
            self._inlet.clear()
            self._executor.end([self._node])

    def __del__(self) -> None:
        if not self._over:
            self._executor.drop(self._node)

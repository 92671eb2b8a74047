"""Reading a stream: the iterator behind `async for item in (fn @ Cores(1))(x)`.

Buffer of a stream's items until they are read.

Streams without resources: generators that run in the caller's process, a window ahead of their readers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Protocol

import anyio

from grainlike._tracebacks import fold
from grainlike.graph import Node, State, StreamNode
from grainlike.payload import Payload, load_value
from grainlike.wire import Buffer, Debt, Items, Window, unpack_parcels

__all__ = ["ReaderWakeup", "StreamBuffer", "StreamReader", "buffer_of", "stream_here"]


class StreamBuffer:
    """Items of one stream that were received and not taken, oldest first; at most a window of them.

    The producer passes `begin` a function that gives credit when items are taken. The reader's `bell` is set when
    items arrive.
    """

    __slots__ = ("_credit", "_debt", "_items", "bell")

    def __init__(self) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._debt = Debt()
        self._credit: Callable[[int, int], object] | None = None
        self.bell: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def begun(self) -> bool:
        """True if an attempt has brought items: no other attempt may."""
        return self._credit is not None

    def begin(self, credit: Callable[[int, int], object]) -> None:
        """Items will come. `credit(items, size)` is called when so many, of so many bytes, were taken."""
        self._credit = credit

    def put(self, item: Any, size: int) -> None:
        """Bring one item, or its `Payload`, which is unpacked when it is taken."""
        self._items.append((item, size))
        if self.bell is not None:
            self.bell()

    def put_all(self, message: Items, buffers: Sequence[Buffer]) -> None:
        """Bring the items of a message, packed."""
        for data, outband in unpack_parcels(message.data, message.counts, buffers):
            payload = Payload(data, tuple(outband))
            self.put(payload, payload.nbytes)

    def take(self) -> Any:
        """Return the oldest item. Raises what unpacking it raises."""
        item, size = self._items.popleft()
        due = self._debt.took(size)
        if due is not None and self._credit is not None:
            self._credit(*due)
        return load_value(item, what="an item of the stream") if isinstance(item, Payload) else item

    def clear(self) -> None:
        """Drop all items: no reader takes them."""
        self._items.clear()


def buffer_of(node: StreamNode) -> StreamBuffer:
    """Return the inlet of a stream; made at the first question."""
    if node.buffer is None:
        node.buffer = StreamBuffer()
    buffer: StreamBuffer = node.buffer
    return buffer


class ReaderWakeup:
    """Wake-up of a reader. It does not refer to the reader, so that a dropped reader is collected."""

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung: anyio.Event | None = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        self._rung = anyio.Event()
        try:
            await self._rung.wait()
        finally:
            self._rung = None

    @property
    def awaited(self) -> bool:
        """True if a reader waits."""
        return self._rung is not None

    def set(self) -> None:
        """Ring."""
        if self._rung is not None:
            self._rung.set()


class _StreamOwner(Protocol):
    """Interface of the resolver of a stream, as far as its reader uses it; see `BaseResolver`."""

    def start(self, nodes: Sequence[Node]) -> None: ...

    def watch(self, node: Node, waiter: Callable[[], object]) -> None: ...

    def end(self, nodes: Iterable[Node]) -> None: ...

    def drop(self, node: Node) -> None: ...


class StreamReader(AsyncIterator[Any]):
    """The one reader of a stream. It starts the work at the first step, and ends it when it goes away before the end.

    Being cancelled in a step ends the stream too, as with any generator. `aclose` ends it and does not wait for it.
    """

    def __init__(self, executor: _StreamOwner, node: StreamNode) -> None:
        self._executor = executor
        self._node = node
        self._buffer = buffer_of(node)
        self._bell = ReaderWakeup()
        self._begun = False
        self._over = False

    async def __anext__(self) -> Any:
        if self._bell.awaited:
            raise RuntimeError(f"another task waits for the next item of {self._node.function.name}")
        if not self._over and not self._begun:
            self._begin()
        while not self._over:
            if self._buffer and self._node.state is not State.CANCELLED:
                return self._take()
            if self._node.finished:
                self._over = True
                self._buffer.clear()
                try:
                    self._node.result()
                except BaseException as error:  # noqa: BLE001 - it is raised
                    raise fold(error)
            else:
                await self._next_ring()
        raise StopAsyncIteration

    def _begin(self) -> None:
        self._begun = True
        if not self._node.finished:
            self._buffer.bell = self._bell.set
            self._executor.start([self._node])
            self._executor.watch(self._node, self._bell.set)

    def _take(self) -> Any:
        try:
            return self._buffer.take()
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
            self._buffer.clear()
            self._executor.end([self._node])

    def __del__(self) -> None:
        if not self._over:
            self._executor.drop(self._node)


async def stream_here(node: Node) -> None:
    """Drive the generator of `node`, a stream's, until it ends or raises; then its `finally` is done."""
    from grainlike.eventloop import advance  # programs without streams do without

    assert isinstance(node, StreamNode)
    node.state = State.RUNNING
    args, kwargs = node.arguments()
    buffer, window = buffer_of(node), Window()
    room = anyio.Event()

    def credit(items: int, size: int) -> None:
        window.credited(items, size)
        room.set()

    async def has_room() -> bool:
        nonlocal room
        while not window.open:
            room = anyio.Event()
            await room.wait()
        return True

    def give(item: Any) -> None:
        if not buffer.begun:
            buffer.begin(credit)
        window.sent(0)
        buffer.put(item, 0)

    await advance(node.function.callable(*args, **kwargs), has_room, give, lambda: node.finished)

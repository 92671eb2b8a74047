"""A network of one process in virtual time: byte streams that are late, reset or silent when the test says so."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

from grainlike.net import Link, parse_address
from grainlike.net._stream import StreamLink

__all__ = ["Net"]


class Net:
    """Connects whoever dials with the one who listens, and does to all of their streams what networks do.

    Attributes:
        delay_s: the longest that a piece may be on its way; each takes a random part of that, and none overtakes.
        refuses: whether nobody gets through who dials.
        silent_until: nothing arrives before that moment of the virtual clock.
    """

    def __init__(self, seed: int) -> None:
        self.delay_s = 0.0
        self.refuses = False
        self.silent_until = 0.0
        self.address = parse_address("tcp://127.0.0.1:1")
        self._closed = False
        self._chance = random.Random(seed)
        self._pairs: list[tuple[_End, _End]] = []
        self._arrivals, self._acceptor = anyio.create_memory_object_stream[StreamLink](1000)

    async def dial(self) -> StreamLink:
        """A link to the listener; raises `ConnectionRefusedError` while the network refuses."""
        await anyio.lowlevel.checkpoint()
        if self.refuses or self._closed:
            raise ConnectionRefusedError("nobody answers")
        near, far = _End(self), _End(self)
        near.far, far.far = far, near
        self._pairs = [(one, other) for one, other in self._pairs if not one.over]
        self._pairs.append((near, far))
        self._arrivals.send_nowait(StreamLink(far, "a worker"))
        link = StreamLink(near, "the head")
        link.trust()  # as whoever dials does, once the other end has proved who it is
        return link

    async def serve(self, handler: Any) -> None:
        """What a listener does: a task for each that comes."""
        async with self._acceptor, anyio.create_task_group() as tasks:
            async for link in self._acceptor:
                tasks.start_soon(_attend, handler, link)

    def close(self) -> None:
        """Let nobody in any more."""
        self._closed = True
        self._arrivals.close()

    def reset(self) -> int:
        """Break a random half of all connections, at least one; return how many."""
        pairs = [pair for pair in self._pairs if not pair[0].over]
        chosen = self._chance.sample(pairs, (len(pairs) + 1) // 2)
        for pair in chosen:
            for end in pair:
                end.broken = True
                end.notice()
        return len(chosen)

    def arrival(self) -> float:
        """When something that is sent now arrives."""
        return max(anyio.current_time() + self._chance.uniform(0.0, self.delay_s), self.silent_until)


async def _attend(handler: Any, link: Link) -> None:
    try:
        await handler(link)
    finally:
        await link.aclose()


class _End(ByteStream):
    """One end of a connection. Pieces wait at the end to which they go, until they have arrived."""

    def __init__(self, net: Net) -> None:
        self.far = self
        self.broken = False
        self.over = False
        self._net = net
        self._inbox: deque[tuple[float, bytes]] = deque()
        self._last = 0.0
        self._noticed = anyio.Event()

    @property
    def extra_attributes(self) -> Mapping[Any, Any]:
        return {}

    def notice(self) -> None:
        """Something has changed for whoever reads here."""
        self._noticed.set()

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.broken:
            raise anyio.BrokenResourceError("connection reset")
        if self.over:
            raise anyio.ClosedResourceError
        self.far._take(bytes(item))

    def _take(self, piece: bytes) -> None:
        self._last = max(self._last, self._net.arrival())
        self._inbox.append((self._last, piece))
        self.notice()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        while True:
            await anyio.lowlevel.checkpoint()
            if self.broken:
                raise anyio.BrokenResourceError("connection reset")
            if self.over:
                raise anyio.ClosedResourceError
            if self._inbox and self._inbox[0][0] <= anyio.current_time():
                return self._cut(max_bytes)
            self._noticed = anyio.Event()
            if self._inbox:
                with anyio.move_on_after(self._inbox[0][0] - anyio.current_time()):
                    await self._noticed.wait()
            elif self.far.over:
                raise anyio.EndOfStream
            else:
                await self._noticed.wait()

    def _cut(self, most: int) -> bytes:
        at, piece = self._inbox.popleft()
        if len(piece) > most:
            self._inbox.appendleft((at, piece[most:]))
        return piece[:most]

    async def send_eof(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        self.over = True
        self.notice()
        self.far.notice()
        await anyio.lowlevel.checkpoint()

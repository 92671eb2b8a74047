"""Two ends of a link in one process: the embedded executor's way to its worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio.lowlevel

from grainlike.eventloop import Wakeup, new_wakeup
from grainlike.net._link import Link, OnFrames
from grainlike.wire import Buffer, Frame, Message

__all__ = ["memory_pair"]


def memory_pair() -> tuple[Link, Link]:
    """Return the two ends of a link that encodes nothing; what is posted at one arrives at the other.

    It arrives through the event loop, in a later turn, never inside `post`: code that works here has seen the order of
    events that a socket gives. Both ends must run in the same loop.
    """
    one, other = _MemoryLink(), _MemoryLink()
    one.connect(other)
    other.connect(one)
    return one, other


class _MemoryLink(Link):
    def __init__(self) -> None:
        super().__init__("memory")
        self._far = self
        self._inbox: list[Frame] = []
        self._bells: Callable[[], Wakeup]
        self._arrived: Wakeup | None = None

    def connect(self, far: _MemoryLink) -> None:
        self._far = far

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        far = self._far
        if self.reason is None and far.reason is None:
            far._inbox.append(Frame(message, buffers))
            far._notice()

    async def run(self, on_frames: OnFrames) -> None:
        self._begin()
        self._bells = new_wakeup()
        try:
            while self.reason is None:
                await self._something()
                frames, self._inbox = self._inbox, []
                if frames:
                    on_frames(frames)
                elif self._far.closed:
                    self._end("closed by the peer")
        finally:
            self.close()

    async def aclose(self) -> None:
        self.close()

    async def _something(self) -> None:
        if self._inbox or self._far.reason is not None or self.reason is not None:
            await anyio.lowlevel.checkpoint()
            return
        self._arrived = self._bells()
        await self._arrived.wait()

    def _notice(self) -> None:
        if self._arrived is not None:
            self._arrived.set()
            self._arrived = None

    def _has_unsent(self) -> bool:
        return False

    def _drop(self) -> None:
        self._inbox.clear()
        self._notice()
        self._far._notice()

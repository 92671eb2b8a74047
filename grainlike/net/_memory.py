"""Two ends of a link in one process: the embedded executor's way to its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from functools import partial

import anyio

from grainlike.eventloop import Wakeup, new_wakeup, on_asyncio
from grainlike.net._link import Link, OnFrames
from grainlike.wire import Buffer, Frame, Message, new_frame

__all__ = ["memory_pair"]


def memory_pair() -> tuple[Link, Link]:
    """Return the two ends of a link that encodes nothing; what is posted at one arrives at the other.

    It arrives through the event loop, in a later turn, never inside `post`: code that works here has seen the order of
    events that a socket gives. Only what is enqueued arrives inside `flush`. Both ends must run in the same loop.
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
        self._on_frames: OnFrames | None = None
        self._scheduled = False
        """True if what waits in the inbox is passed on in a later turn."""
        self._soon: Callable[[], object]
        self._context: Context | None = None
        """Context in which what comes is passed on, while no task does that."""
        self._passes_on = False
        self._gone: Wakeup | None = None

    def connect(self, far: _MemoryLink) -> None:
        self._far = far

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        far = self._far
        if self.reason is None and far.reason is None:
            far._inbox.append(new_frame((message, buffers)))
            if not far._scheduled:
                far._notice()

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if self.reason is None and self._far.reason is None:
            self._far._inbox.append(new_frame((message, buffers)))

    def flush(self) -> None:
        far = self._far
        if not far._inbox:
            return
        if far._context is None or far._passes_on:
            far._notice()
        else:
            far._context.run(far._pass_on)

    async def run(self, on_frames: OnFrames) -> None:
        self._begin()
        self._on_frames = on_frames
        self._gone = new_wakeup()()
        try:
            if on_asyncio():
                # Without a task: to wake one takes a future, and two turns of the loop for each read.
                soon = asyncio.get_running_loop().call_soon
                self._context = copy_context()
                self._soon = partial(soon, self._pass_on, context=self._context)
                self._notice()
                await self._gone.wait()
            else:
                await self._follow()
        finally:
            self.close()
            self._on_frames = self._context = None
        if self._failure is not None:
            raise self._failure

    async def _follow(self) -> None:
        """Pass on what comes, in this task."""
        arrived = anyio.Event()
        self._soon = arrived.set
        self._notice()
        while self.reason is None:
            await arrived.wait()
            arrived = anyio.Event()
            self._soon = arrived.set
            self._pass_on()

    async def aclose(self) -> None:
        self.close()

    def _notice(self) -> None:
        """Have what came, or the end of the link, passed on in the next turn."""
        if self._on_frames is not None and not self._scheduled:
            self._scheduled = True
            self._soon()

    def _pass_on(self) -> None:
        try:
            self._scheduled = False
            self._passes_on = True
            frames, self._inbox = self._inbox, []
            if self._on_frames is not None and self.reason is None and frames:
                self._on_frames(frames)
                if self._far.reason is not None:
                    self._notice()
            elif self._far.reason is not None:
                self._end("closed by the peer")
        except BaseException as error:  # noqa: BLE001 - `run` raises it: Ctrl-C too, which costs frames of this read
            self._end(f"failed here: {error!r}", error)
        finally:
            self._passes_on = False
        if self.reason is not None and self._gone is not None:
            self._gone.set()

    def _has_unsent(self) -> bool:
        return False

    def _drop(self) -> None:
        self._inbox.clear()
        self._notice()
        self._far._notice()

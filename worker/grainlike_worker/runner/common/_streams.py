"""The streams of a runner: generators that are advanced while their readers have room for more."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from grainlike.context import JobInfo
from grainlike.payload import Payload, dump_value
from grainlike.wire import Buffer, Credit, Items, Window, pack_parcels

__all__ = ["StreamSenders"]

_LONG_S = 0.001
"""Seconds that a step may take without a turn of the event loop: one after each step would slow down quick streams."""

Post = Callable[[Items, Sequence[Buffer]], object]


class StreamSenders:
    """Driver of the generators of one runner. `post` sends items towards their readers, and does not wait for them.

    Example::

        outlets = Outlets(link.post)
        await outlets.drive(generator, job_info, "the value of frames")    # meanwhile: outlets.credit(...)
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._open: dict[int, _StreamSender] = {}

    async def drive(self, generator: AsyncGenerator[Any, Any], info: JobInfo, what: str) -> None:
        """Send what `generator` yields until it ends or raises; it is closed when this returns, its `finally` done.

        It takes a step only when its reader has room for another item. After a long one the event loop has its turn:
        so a generator that computes, and never waits, is cancelled at its next `yield`. What a scope of its own raises
        meanwhile is raised there, too. `what` names an item in errors.
        """
        sender = self._open[info.id] = _StreamSender()
        try:
            took_long = False
            while True:
                thrown: BaseException | None = None
                try:
                    if took_long:  # it may have computed all the while
                        await anyio.lowlevel.checkpoint()
                    if not await sender.has_room():
                        return
                except BaseException as error:
                    # Scopes that the generator has open round its `yield` are of this task: theirs to catch.
                    if sender.stopped or isinstance(error, GeneratorExit):
                        raise
                    thrown = error
                since = time.monotonic()
                try:
                    item = await (anext(generator) if thrown is None else generator.athrow(thrown))
                except StopAsyncIteration:
                    return
                payload = dump_value(item, what=what).detached()
                del item  # it may be large, and the generator may take its time for the next one
                sender.window.sent(payload.nbytes)
                self._send(info, payload)
                took_long = time.monotonic() - since > _LONG_S
        finally:
            del self._open[info.id]
            # On trio, and in any scope of anyio's, each `await` of its `finally` would be cancelled again.
            with anyio.CancelScope(shield=True):
                await generator.aclose()

    def _send(self, info: JobInfo, payload: Payload) -> None:
        data, counts, buffers = pack_parcels([(bytes(payload.data), payload.buffers)])
        self._post(Items(info.id, info.attempt, data, counts), buffers)

    def credit(self, message: Credit) -> None:
        """A reader took items. One whose stream has ended is not heard any more."""
        sender = self._open.get(message.job)
        if sender is not None:
            sender.window.credited(message.items, message.size)
            sender.wake()

    def stop(self, jobs: Iterable[int]) -> None:
        """These are being cancelled: a generator that goes on all the same is closed at its next `yield`."""
        for job in jobs:
            sender = self._open.get(job)
            if sender is not None:
                sender.stopped = True


class _StreamSender:
    """Stream on the sender's side."""

    __slots__ = ("_changed", "stopped", "window")

    def __init__(self) -> None:
        self.window = Window()
        self.stopped = False
        self._changed: anyio.Event | None = None

    async def has_room(self) -> bool:
        """Wait until another item may be made; False when none shall be."""
        while not self.stopped and not self.window.open:
            self._changed = anyio.Event()
            await self._changed.wait()
        return not self.stopped

    def wake(self) -> None:
        if self._changed is not None:
            self._changed.set()

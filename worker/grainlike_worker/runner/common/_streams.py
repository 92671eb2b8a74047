"""The streams of a runner: generators that are advanced while their readers have room for more."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any

import anyio

from grainlike.context import JobInfo
from grainlike.payload import Payload, dump_value
from grainlike.wire import Buffer, Credit, Items, Window, pack_parcels

__all__ = ["StreamSenders"]

Post = Callable[[Items, Sequence[Buffer]], object]


class StreamSenders:
    """Driver of the generators of one runner. `post` sends items towards their readers, and does not wait for them.

    Example::

        senders = StreamSenders(link.post)
        await senders.drive(generator, job_info, "the value of frames")    # meanwhile: senders.credit(...)
    """

    def __init__(self, post: Post) -> None:
        self._post = post
        self._open: dict[int, _StreamSender] = {}

    async def drive(self, generator: AsyncGenerator[Any, Any], info: JobInfo, what: str) -> None:
        """Send what `generator` yields until it ends or raises; it is closed when this returns, its `finally` done.

        It takes a step only when its reader has room for another item. `what` names an item in errors.
        """
        from grainlike.eventloop import advance  # workers without streams do without

        sender = self._open[info.id] = _StreamSender()

        def send(item: Any) -> None:
            payload = dump_value(item, what=what).detached()
            sender.window.sent(payload.nbytes)
            self._send(info, payload)

        try:
            await advance(generator, sender.has_room, send, lambda: sender.stopped)
        finally:
            del self._open[info.id]

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

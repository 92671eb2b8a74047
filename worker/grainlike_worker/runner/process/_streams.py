"""Streams in a process of their own: while a generator runs, the process listens for its reader's credit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from grainlike.context import JobInfo
from grainlike.wire import Buffer, Credit, Frame, Items
from grainlike_worker.runner.common._streams import StreamSenders
from grainlike_worker.runner.process._pipe import LinkEndedError, Pipe
from grainlike_worker.runner.process._signals import RunnerSignals

__all__ = ["ProcessStreams"]


class ProcessStreams:
    """Drives generators on the loop of a runner that reads its `pipe` only between jobs; `handle` takes what comes."""

    def __init__(self, pipe: Pipe, interrupts: RunnerSignals, handle: Callable[[Sequence[Frame]], None]) -> None:
        self._pipe = pipe
        self._interrupts = interrupts
        self._handle = handle
        self._senders = StreamSenders(self._send)

    def credit(self, message: Credit) -> None:
        """A reader took items."""
        self._senders.credit(message)

    async def drive(self, generator: AsyncGenerator[Any, Any], info: JobInfo, what: str) -> None:
        """Send what `generator` yields until it has ended."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def read() -> None:
            try:
                self._handle(self._pipe.receive())
            except LinkEndedError:  # there is no reader any more
                loop.remove_reader(self._pipe.fd)
                task.cancel()

        loop.add_reader(self._pipe.fd, read)
        try:
            await self._senders.drive(generator, info, what)
        finally:
            loop.remove_reader(self._pipe.fd)

    def _send(self, message: Items, buffers: Sequence[Buffer]) -> None:
        """Send a whole frame: a signal that asks for outcomes must not put its own into the middle of this one."""
        self._interrupts.exposed = False
        try:
            self._pipe.send(message, buffers)
        finally:
            self._interrupts.exposed = True

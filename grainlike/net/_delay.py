"""A call that may wait a moment for company."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from grainlike.net._loop import on_asyncio

__all__ = ["Delay"]


class Delay:
    """Calls `call` so many seconds after `set`; until then, further `set` do nothing. Belongs to the running loop.

    On asyncio it costs a timer of the loop's, elsewhere a task of `tasks`.

    Example::

        delay = Delay(flush, 0.001, tasks)
        delay.set()
    """

    __slots__ = ("_call", "_due", "_loop", "_seconds", "_tasks")

    def __init__(self, call: Callable[[], object], seconds: float, tasks: TaskGroup) -> None:
        self._call = call
        self._seconds = seconds
        self._tasks = tasks
        self._due = False
        self._loop = asyncio.get_running_loop() if on_asyncio() else None

    def set(self) -> None:
        """See that `call` is called."""
        if self._due:
            return
        self._due = True
        if self._loop is not None:
            self._loop.call_later(self._seconds, self._ring)
        else:
            self._tasks.start_soon(self._wait)

    async def _wait(self) -> None:
        await anyio.sleep(self._seconds)
        self._ring()

    def _ring(self) -> None:
        self._due = False
        self._call()

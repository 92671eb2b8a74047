"""Wake-up event for one waiter, at a third of the calls of anyio's: one is awaited with every message.

Alarm of a scheduler: the scheduler sets the time, and a single task waits for it.

Detection and choice of the event loop.

Polling of an event loop with an answer due within microseconds (`_rhythm`).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import anyio
import anyio.lowlevel

from grainlike.eventloop._rhythm import Rhythm

__all__ = [
    "Alarm",
    "BriefPolling",
    "LoopRhythm",
    "Wakeup",
    "loop_options",
    "new_wakeup",
    "on_asyncio",
    "polling_of",
]


def on_asyncio() -> bool:
    """Return True if the running task is asyncio's own; with trio in guest mode in an asyncio loop it is not."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


def loop_options(backend: str = "asyncio") -> dict[str, Any]:
    """`backend_options` for `anyio.run`: on asyncio uvloop, where it is installed.

    Example::

        anyio.run(main, backend_options=loop_options())
    """
    if backend != "asyncio":
        return {}
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return {}
    return {"use_uvloop": True}


class Wakeup(Protocol):
    """Wake-up event for a single waiter; to set it again, or without a waiter, is no error."""

    def set(self) -> object:
        """Wake the waiter."""

    def wait(self) -> Awaitable[object]:
        """Wait; if it is set already, that may take no turn of the loop."""
        ...


def new_wakeup() -> Callable[[], Wakeup]:
    """Return the factory of one-shot events for the running loop.

    Example::

        arrived = new_wakeup()()
        node.waiters = [arrived.set]
        await arrived.wait()
    """
    # With the loop's own factory: see `BriefPolling`.
    return partial(_Future, asyncio.get_running_loop().create_future) if on_asyncio() else anyio.Event


class _Future:
    """Wake-up event on asyncio: a bare future."""

    __slots__ = ("_future",)

    def __init__(self, create: Callable[[], asyncio.Future[Any]]) -> None:
        # An event of anyio's takes some 25 Python calls to make, set and wait for; this takes a third.
        self._future: asyncio.Future[None] = create()

    def set(self) -> None:
        if not self._future.done():  # one that was cancelled is done, too
            self._future.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        return self._future


_HELD_UP_S = 0.005
"""Least seconds of delay by which an alarm shows that its loop was held up."""

_TURNS = 20
"""After how many turns of a loop that was held up what was ready then has run."""


class Alarm:
    """Calls `ring` at the earliest moment asked for since the last ring; a loop that was held up hears first what has
    come meanwhile, which may be that a job has ended in time.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._at: float | None = None
        self._changed: anyio.Event | None = None

    def set(self, at: float) -> None:
        """Ring at `at` (monotonic), or earlier if that was asked for before."""
        if self._at is None or at < self._at:
            self._at = at
            if self._changed is not None:
                self._changed.set()

    async def run(self) -> None:
        """Wait and ring, until cancelled."""
        while True:
            self._changed = anyio.Event()
            if self._at is None:
                await self._changed.wait()
                continue
            with anyio.move_on_after(self._at - time.monotonic()):
                await self._changed.wait()
                continue
            if time.monotonic() - self._at > _HELD_UP_S:
                for _ in range(_TURNS):
                    await anyio.lowlevel.checkpoint()
            self._at = None
            self._ring()


class BriefPolling:
    """Turns of one event loop that do not sleep, while one of its links has an answer due."""

    __slots__ = ("_polls", "_until")

    def __init__(self) -> None:
        # Without its loop, which `_polling` would keep for ever then.
        self._polls = False
        self._until = 0.0

    def poll(self, until: float) -> None:
        """Do not sleep until this moment (monotonic), if none is given later."""
        self._until = until
        if not self._polls:
            self._polls = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._turn, loop)

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop comes along: to ask which one runs is a system call before Python 3.12.
        self._polls = time.monotonic() < self._until
        if self._polls:
            os.sched_yield()  # others with work for this processor go first: it may be the one that is waited for
            loop.call_soon(self._turn, loop)


class LoopRhythm(Rhythm):
    """Rhythm of a link in an event loop, with the polling of that loop."""

    __slots__ = ("polling",)

    def __init__(self, brief_s: float, polling: BriefPolling) -> None:
        super().__init__(brief_s)
        self.polling: BriefPolling = polling


_polling: WeakKeyDictionary[asyncio.AbstractEventLoop, BriefPolling] = WeakKeyDictionary()


def polling_of(loop: asyncio.AbstractEventLoop) -> BriefPolling:
    """Return the polling of a loop, which all its links share."""
    found = _polling.get(loop)
    if found is None:
        found = _polling[loop] = BriefPolling()
    return found

"""Idle timer of a worker that ends when it has had no jobs for a while."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

__all__ = ["IdleTimer"]


class IdleTimer:
    """Calls `expired` once the worker has been idle for `seconds` without a break, from the moment that `run` begins.

    Example::

        timer = IdleTimer(300.0, stop.set)
        tasks.start_soon(timer.run)
        timer.look(idle=False)      # a job has come: the time begins anew when the last one has ended
    """

    def __init__(self, seconds: float, expired: Callable[[], object]) -> None:
        self._seconds = seconds
        self._expired = expired
        self._idle = True
        self._changed = anyio.Event()

    def look(self, *, idle: bool) -> None:
        """Note whether there are jobs now."""
        if idle is not self._idle:
            self._idle = idle
            self._changed.set()

    async def run(self) -> None:
        """Wait until the time is over; cancelled, it is over never."""
        while True:
            self._changed = anyio.Event()
            with anyio.move_on_after(self._seconds if self._idle else math.inf) as waited:
                await self._changed.wait()
            if waited.cancelled_caught:
                break
        self._expired()

"""Alarm of a scheduler: the scheduler sets the time, and a single task waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

__all__ = ["Alarm"]


class Alarm:
    """Calls `ring` at the earliest moment asked for since the last ring."""

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
            self._at = None
            self._ring()

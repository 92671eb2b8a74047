"""Clock that resumes from its last reading when a program that died is restarted."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["PersistentClock"]


class PersistentClock:
    """Seconds that never go back, not even over a restart of the machine, when `monotonic` restarts.

    Example::

        clock = LastingClock()
        clock.has_been(last_moment_on_record)
        clock()        # that moment, or later
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._monotonic() + self._ahead

    def has_been(self, moment: float) -> None:
        """Record an earlier reading: the clock never shows less."""
        self._ahead = max(self._ahead, moment - self._monotonic())

    def here(self, moment: float) -> float:
        """Return the same moment on `monotonic`."""
        return moment - self._ahead

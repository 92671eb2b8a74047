"""Brief polling: who has something due within microseconds looks for it again and again, and does not sleep.

A process that sleeps is woken by the process that writes to it. Where its processor has gone to sleep, too, that takes
both sides some 20 µs: of a round trip between three processes a quarter of the time.
"""

from __future__ import annotations

import time

__all__ = ["LOOP_POLL_S", "RUNNER_POLL_S", "Rhythm"]

LOOP_POLL_S = 0.0002
"""Longest wait, in seconds, through which an event loop polls for what comes next on one of its links: a job that does
nothing is a wait of 100 µs to its daemon, and of 150 to its program.
"""

RUNNER_POLL_S = 0.00015
"""The same for a runner and its next lease. With 250 µs, leases that follow each other went a fifth slower on two
cores: what hands them out needs a core, too.
"""

_LONG_S = 0.0012
"""Longer waits count as this one: after a pause of hours, eight brief waits are enough to poll again."""

_WEIGHT = 0.25
"""Weight of the last wait in the average."""


class Rhythm:
    """Average of the waits on one link for what comes next, the last ones most.

    A wait is from the last message, ours or theirs, to the next of theirs. It is polled through, for `brief_s` seconds
    at most, while the average is less.

    Example::

        until = rhythm.begin()      # something was sent
        until = rhythm.next()       # something came, and more may come
        if until:
            polling.poll(until)
    """

    __slots__ = ("_average", "_brief_s", "_since")

    def __init__(self, brief_s: float) -> None:
        self._average = _LONG_S
        self._brief_s = brief_s
        self._since = 0.0

    def begin(self) -> float:
        """Begin a wait, or begin it again; return until when (monotonic) to poll for its end, 0 to sleep."""
        self._since = now = time.monotonic()
        return now + self._brief_s if self._average < self._brief_s else 0.0

    def next(self) -> float:
        """End the wait, and begin the next one; return the same as `begin`."""
        now = time.monotonic()
        self._average += _WEIGHT * (min(now - self._since, _LONG_S) - self._average)
        self._since = now
        return now + self._brief_s if self._average < self._brief_s else 0.0

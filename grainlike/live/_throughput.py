"""Number of jobs that ended in the last seconds, from totals at moments."""

from __future__ import annotations

from collections import deque

from grainlike.wire import Totals

__all__ = ["Throughput"]

_SPAN_S = 10.0
"""Seconds that a rate is of."""

_MOST = 200
"""Moments that are kept at most: 20 a second of the span."""


class Throughput:
    """Jobs that end per second, over the last ten seconds of updates, and how many of them fail."""

    def __init__(self) -> None:
        self._moments: deque[tuple[float, int, int]] = deque(maxlen=_MOST)

    def add(self, at: float, totals: Totals) -> None:
        """Add the totals of a moment, in seconds on any clock that does not go back."""
        bad = totals.failed + totals.timed_out
        self._moments.append((at, totals.succeeded + bad, bad))
        # One moment before the span stays: the rate is from there on.
        while len(self._moments) > 2 and self._moments[1][0] <= at - _SPAN_S:
            self._moments.popleft()

    def rate(self, now: float) -> float:
        """Return jobs per second that gave a value or failed, up to `now` on the clock of the moments; 0.0 before
        there are two.
        """
        return self._per_second(1, now)

    def failures(self, now: float) -> float:
        """Return failed and timed-out jobs per second, as `rate`."""
        return self._per_second(2, now)

    def _per_second(self, column: int, now: float) -> float:
        if len(self._moments) < 2:
            return 0.0
        now = max(now, self._moments[-1][0])
        since = max(self._moments[0][0], now - _SPAN_S)
        first = next((moment for moment in reversed(self._moments) if moment[0] <= since), self._moments[0])
        seconds = now - first[0]
        return (self._moments[-1][column] - first[column]) / seconds if seconds > 0 else 0.0

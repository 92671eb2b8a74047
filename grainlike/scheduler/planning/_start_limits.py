"""Cluster-wide limits and rates: how many jobs of a name may run at once (`Limit`), and start per second (`Rate`).

A limit counts planned jobs and leases alike, so it holds at every instant on every worker. A rate spaces launches
evenly: the generic cell rate algorithm (ITU-T I.371) without bursts; its tolerance only makes up for late wake-ups. A
launch that a job waited for counts from when it was due and not from when the timer fired, or late timers would halve a
fast rate; but at most `LATE_S` of the delay is made up for.
"""

from __future__ import annotations

from grainlike.scheduler._records import Shape

__all__ = ["StartLimits"]

_UNIT = 10**9

LATE_S = 0.02
"""Seconds of delay that are made up for: within any second a rate may be exceeded by that fraction at most."""


class StartLimits:
    """State of all limits and rates of one head."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._next: dict[str, float] = {}
        self._awaited: set[str] = set()
        """Rates whose next launch a job waits for, or that are behind."""

    def blocks(self, shape: Shape, now: float) -> tuple[str, float | None] | None:
        """Return the limit or rate that keeps a job of the shape waiting, and until when (None: until a job ends)."""
        for name, most in shape.limits:
            if (self._running.get(name, 0) + 1) * _UNIT > most:
                return f"limit:{name}", None
        for name, _ in shape.rates:
            if self._next.get(name, now) > now:
                self._awaited.add(name)
                return f"rate:{name}", self._next[name]
        return None

    def take(self, shape: Shape, now: float) -> None:
        """Count a launch."""
        for name, _ in shape.limits:
            self._running[name] = self._running.get(name, 0) + 1
        for name, per_second in shape.rates:
            earliest = now - LATE_S if name in self._awaited else now
            self._next[name] = max(earliest, self._next.get(name, now)) + _UNIT / per_second
            if self._next[name] > now:
                self._awaited.discard(name)

    def give(self, shape: Shape) -> None:
        """Count an end."""
        for name, _ in shape.limits:
            self._running[name] -= 1

    def left(self, shape: Shape) -> list[tuple[str, int]]:
        """Return how many more jobs each limit of the shape lets run now."""
        return [(name, most // _UNIT - self._running.get(name, 0)) for name, most in shape.limits]

    def next_start(self, name: str) -> float:
        """Return when a rate lets the next job start; 0.0 where it has let none start yet."""
        return self._next.get(name, 0.0)

    def running(self, name: str) -> int:
        """Return how many jobs of a limit run now."""
        return self._running.get(name, 0)

"""Cluster-wide rations: how many jobs of a name may run at once (`Limit`), and start per second (`Rate`).

A limit counts planned jobs and leases alike, so it holds at every instant on every worker. A rate spaces launches
evenly, which admits no burst: the generic cell rate algorithm with no tolerance (ITU-T I.371).
"""

from __future__ import annotations

from grainlike.scheduler._books import Shape

__all__ = ["Rations"]

_UNIT = 10**9


class Rations:
    """The books of all limits and rates of one head."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._set: dict[str, int] = {}
        self._next: dict[str, float] = {}

    def set_limit(self, name: str, most: int | None) -> None:
        """Let at most `most` jobs of the limit run at once, whatever their requests say; None: as they say."""
        if most is None:
            self._set.pop(name, None)
        else:
            self._set[name] = most * _UNIT

    def blocks(self, shape: Shape, now: float) -> tuple[str, float | None] | None:
        """The ration that keeps a job of the shape from starting now, and when it will not (None: when one ends)."""
        for name, most in shape.limits:
            if (self._running.get(name, 0) + 1) * _UNIT > self._set.get(name, most):
                return f"limit:{name}", None
        for name, _ in shape.rates:
            if self._next.get(name, now) > now:
                return f"rate:{name}", self._next[name]
        return None

    def take(self, shape: Shape, now: float) -> None:
        """Count a launch."""
        for name, _ in shape.limits:
            self._running[name] = self._running.get(name, 0) + 1
        for name, per_second in shape.rates:
            self._next[name] = max(now, self._next.get(name, now)) + _UNIT / per_second

    def give(self, shape: Shape) -> None:
        """Count an end."""
        for name, _ in shape.limits:
            self._running[name] -= 1

    def running(self, name: str) -> int:
        """How many jobs of a limit run now."""
        return self._running.get(name, 0)

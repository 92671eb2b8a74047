"""Judge's records of limits and rates: which jobs run under a limit, and when jobs were started."""

from __future__ import annotations

from grainlike.resources import Request

__all__ = ["Rationing"]

_WHOLE = 1_000_000_000

LATE_S = 0.02
"""Seconds of a start's delay that the following ones may make up for."""


class Rationing:
    """Counts by name. Jobs on a worker that the head has given up are beyond its control, and not counted any more."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, int], Request] = {}
        self._count: dict[str, int] = {}
        self._earliest: dict[str, float] = {}

    def launched(self, job: int, request: Request, now: float) -> None:
        """Check the rate of a job that was assigned: no interval may have more starts than its rate allows, give or
        take one.
        """
        for name, per_second in first_of(request).rates.items():
            due = self._earliest.get(name, now)
            assert due <= now + LATE_S + 1e-9, f"job {job} was launched {due - now:.4f} s too early for rate {name!r}"
            self._earliest[name] = max(due, now) + _WHOLE / per_second

    def began(self, worker: int, job: int, request: Request) -> None:
        """Record that a job runs; check its limits."""
        limits = first_of(request).limits
        if limits:
            self._running[worker, job] = request
        for name, most in limits.items():
            count = self._count[name] = self._count.get(name, 0) + 1
            assert count * _WHOLE <= most, f"job {job} makes {count} that run under limit {name!r}"

    def ended(self, worker: int, job: int) -> None:
        """Record that a job runs no more, or that its worker has reported so."""
        request = self._running.pop((worker, job), None)
        if request is not None:
            for name in request.limits:
                self._count[name] -= 1

    def given_up(self, worker: int) -> None:
        """Record that the head has given up a worker."""
        for at, job in [key for key in self._running if key[0] == worker]:
            self.ended(at, job)


def first_of(request: Request) -> Request:
    """Return the first way to satisfy a request: all of them have the same limits, rates and number of nodes."""
    return request.options[0]

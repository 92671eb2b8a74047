"""The judge's books of limits and rates: what truly runs under a limit, and when launches happened."""

from __future__ import annotations

from grainlike.resources import Request

__all__ = ["Rationing"]

_WHOLE = 1_000_000_000

LATE_S = 0.02
"""How much of a launch's lateness may be made up for by the ones after it."""


class Rationing:
    """Counts by name. What runs on a worker that the head has given up is beyond its power, and counts no more."""

    def __init__(self) -> None:
        self._running: dict[tuple[int, int], Request] = {}
        self._count: dict[str, int] = {}
        self._earliest: dict[str, float] = {}

    def launched(self, job: int, request: Request, now: float) -> None:
        """A job was assigned. In no stretch of time are there more launches than its rate allows, give or take one."""
        for name, per_second in first_of(request).rates.items():
            due = self._earliest.get(name, now)
            assert due <= now + LATE_S + 1e-9, f"job {job} was launched {due - now:.4f} s too early for rate {name!r}"
            self._earliest[name] = max(due, now) + _WHOLE / per_second

    def began(self, worker: int, job: int, request: Request) -> None:
        """A job runs."""
        limits = first_of(request).limits
        if limits:
            self._running[worker, job] = request
        for name, most in limits.items():
            count = self._count[name] = self._count.get(name, 0) + 1
            assert count * _WHOLE <= most, f"job {job} makes {count} that run under limit {name!r}"

    def ended(self, worker: int, job: int) -> None:
        """It runs no more, or its worker has said so."""
        request = self._running.pop((worker, job), None)
        if request is not None:
            for name in request.limits:
                self._count[name] -= 1

    def given_up(self, worker: int) -> None:
        """The head has let go of a worker."""
        for at, job in [key for key in self._running if key[0] == worker]:
            self.ended(at, job)


def first_of(request: Request) -> Request:
    """The first way to satisfy a request: all of them have the same limits, rates and number of nodes."""
    return request.options[0]

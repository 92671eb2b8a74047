"""Judge's measure of waiting: how long the first job of its class was passed over by younger jobs.

A job is *passed over* while younger jobs of no higher priority take what it asks for on workers that could run it.
The count starts again whenever a job that goes before it is assigned, as waiting for older jobs is in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grainlike.resources import Request
from grainlike.simulation import JobPlan

__all__ = ["Key", "Patience", "key_of"]

Key = tuple[Request, int, bool]


class _Front:
    __slots__ = ("job", "since")

    def __init__(self, job: int) -> None:
        self.job = job
        self.since: float | None = None


class Patience:
    """Keeps the first waiting job of every class; `longest` is the longest time that one was passed over, and its
    number.

    `roots` are the oldest jobs of the trees that nested jobs belong to, and the oldest jobs that others need.
    `fits(worker, job)` returns True if the empty worker could run the job, and only room may keep it waiting. For
    worlds without faults.
    """

    def __init__(self, plans: dict[int, JobPlan], roots: dict[int, int], fits: Callable[[int, int], bool]) -> None:
        self._roots = roots
        self.longest: tuple[float, int] = (0.0, 0)
        self._plans = plans
        self._fits = fits
        self._fronts: dict[Key, _Front] = {}

    def assigned(
        self, jobs: Sequence[int], workers: Sequence[int], now: float, front_of: Callable[[Key], int | None]
    ) -> None:
        """Record that jobs were assigned to a worker, or one to several; `front_of` returns the first waiting job of a
        class.
        """
        youngest = max(jobs, key=self._order)
        for key in [*self._fronts]:
            self._renew(key, front_of(key))
            if key in self._fronts:
                for worker in workers:
                    self._judge(self._fronts[key], worker, youngest, now)
        for job in jobs:
            key = key_of(self._plans[job])
            self._renew(key, front_of(key))

    def waiting(self, key: Key, front: int | None) -> None:
        """Record that jobs of a class were submitted."""
        self._renew(key, front)

    def _renew(self, key: Key, front: int | None) -> None:
        held = self._fronts.get(key)
        if front is None:
            self._fronts.pop(key, None)
        elif held is None or held.job != front:
            self._fronts[key] = _Front(front)

    def _judge(self, front: _Front, worker: int, passer: int, now: float) -> None:
        wanted, taken = _names(self._plans[front.job].request), _names(self._plans[passer].request)
        if front.job == passer or wanted.isdisjoint(taken) or not self._fits(worker, front.job):
            return
        if self._order(passer) < self._order(front.job):
            front.since = None
        elif front.since is None:
            front.since = now
        elif now - front.since > self.longest[0]:
            self.longest = (now - front.since, front.job)

    def _order(self, job: int) -> tuple[int, int]:
        return (-self._plans[job].priority, self._roots.get(job, job))


def _names(request: Request) -> set[str]:
    return {name for option in request.options for name in option.units}


def key_of(plan: JobPlan) -> Key:
    """Return the key of a job's class: jobs with the same key have the same request."""
    return (plan.request, plan.priority, plan.isolate)

"""Deadlocks among jobs that wait for their own jobs and hold what those need.

Cores alone cannot cause one, as a waiting job lends its cores. `keep=True`, memory, devices, named resources and limits
can, as a job holds them while it waits.

`find_deadlock` simulates the future: running jobs end and free what they hold; jobs that then have room start, and end;
a waiting job continues as soon as one of the jobs it waits for can end. (One, not all: it may need no more than that,
so no job is failed that might still be helped.) What is left when nothing more happens is stuck for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grainlike.resources import Request
from grainlike.scheduler._events import Deadlock, Holder
from grainlike.scheduler._job_tree import lent_by, stands_still
from grainlike.scheduler._records import HeadJob, RequestClass, Shape
from grainlike.scheduler._workers import WorkerState
from grainlike.wire import Wait

__all__ = ["find_deadlock"]

_UNIT = 10**9


def find_deadlock(
    workers: Sequence[WorkerState], queued: Iterable[RequestClass], stranded: Sequence[HeadJob], now: float
) -> Deadlock | None:
    """Return the youngest job that can never start because of jobs that wait, with those; None if there is none.

    Checked are the jobs of the classes `queued`, and of `stranded`: jobs that their worker cannot lay out while no job
    there frees anything.
    """
    possible = [cls for cls in queued if any(w.fits_ever(s) for w in workers for s in cls.shapes)]
    play = _Simulation(workers, possible, stranded, now)
    play.run()
    stuck = [job for cls in play.queued for job in cls.live()] + play.stranded
    if not stuck:
        return None
    youngest = max(stuck, key=lambda job: job.id)
    return Deadlock(youngest.id, youngest.request, tuple(map(_holder, play.waiting.values())))


def _holder(held: tuple[WorkerState, HeadJob]) -> Holder:
    worker, job = held
    assert job.shape is not None
    assert job.family is not None
    names = [name for name, amount in job.shape.units if not (name == "cores" and lent_by(job))]
    shown = Request({name: job.shape.request[name] for name in names}) if names else "nothing"
    return Holder(job.id, worker.name, str(shown), tuple(job.family.children))


class _Simulation:
    """Amounts that would be free once every job that can end has ended."""

    def __init__(
        self, workers: Sequence[WorkerState], queued: list[RequestClass], stranded: Sequence[HeadJob], now: float
    ) -> None:
        self.queued = queued
        self.stranded = list(stranded)
        self.waiting: dict[int, tuple[WorkerState, HeadJob]] = {}
        self._free = {worker.id: dict(worker.capacity) for worker in workers}
        self._workers = workers
        self._limits: dict[str, int] = {}
        for worker in workers:
            for job in worker.held.values():
                if stands_still(job, now):
                    self.waiting[job.id] = worker, job
                    self._take(worker, job)
            for hold in worker.holds.values():
                if hold.job.worker != worker.id and stands_still(hold.job, now):
                    self._take(worker, hold.job)

    def _take(self, worker: WorkerState, job: HeadJob, sign: int = 1) -> None:
        assert job.shape is not None
        free = self._free[worker.id]
        for name, amount in job.shape.units:
            free[name] -= sign * (amount - (lent_by(job) if name == "cores" else 0))
        for name, _ in job.shape.limits:
            self._limits[name] = self._limits.get(name, 0) + sign

    def _give(self, worker: WorkerState, job: HeadJob) -> None:
        """Free what a job held that has ended, and what other workers held for it."""
        self._take(worker, job, -1)
        for other in self._workers:
            if other is not worker and (job.id, job.attempt) in other.holds:
                self._take(other, job, -1)

    def run(self) -> None:
        """Simulate until nothing changes any more."""
        moved = True
        while moved:
            self.queued, before = [cls for cls in self.queued if not self._starts(cls)], len(self.queued)
            ends = [held for held in self.waiting.values() if self._ends(*held)]
            for worker, job in ends:
                del self.waiting[job.id]
                self._give(worker, job)
                self.stranded = [other for other in self.stranded if other.worker != worker.id]
            moved = bool(ends) or len(self.queued) < before

    def _starts(self, cls: RequestClass) -> bool:
        return any(sum(self._fits(worker, shape) for worker in self._workers) >= shape.nodes for shape in cls.shapes)

    def _fits(self, worker: WorkerState, shape: Shape) -> bool:
        # A job that is first in a worker's queue and has no room there blocks all behind it.
        if not worker.fits_ever(shape) or any(job.worker == worker.id for job in self.stranded):
            return False
        free = self._free[worker.id]
        if any((self._limits.get(name, 0) + 1) * _UNIT > most for name, most in shape.limits):
            return False
        return all(free[name] >= amount for name, amount in shape.units)

    def _ends(self, worker: WorkerState, job: HeadJob) -> bool:
        assert job.family is not None
        if job.family.waits is Wait.CORES:
            return self._free[worker.id].get("cores", 0) >= lent_by(job)
        classes = {cls.id for cls in self.queued}
        stranded = {other.id for other in self.stranded}
        return any(
            child.id not in self.waiting
            and child.id not in stranded
            and not (child.worker == 0 and child.cls.id in classes)
            for child in job.family.children.values()
        )

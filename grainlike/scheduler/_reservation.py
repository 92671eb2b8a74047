"""Reservations: how a wide job starts although narrow ones never stop coming.

A job that does not fit never blocks one behind it that does, so without more a stream of narrow jobs would keep a wide
one waiting for ever. A reserved job gets the first moment at which enough of one worker will have come back; until
then only jobs may use that worker that end before this moment, or that fit beside the reserved job. This is EASY
backfilling (D. A. Lifka, "The ANL/IBM SP scheduling system", 1995), with learned run times where users declare none.

Who gets one: a job that asks for more than half of some resource of the worker at once (`WorkerBook.is_wide`), any
other after it stood blocked for `PATIENCE_S` and `PATIENCE_RUNS` mean run times. A worker serves one reservation at a
time, a class holds at most one; a job that stood blocked for so long gets one beside those of jobs that go before it.

**The bound.** From the moment of the reservation the job waits for no job that starts later: only for those that run
on that worker then, and for backfilled ones, which end before it could have started. With run times that keep to
mean + 2σ its wait is at most the longest remaining run time on that worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler._books import Function, Job, LeaseBook, RequestClass, WorkerBook

__all__ = ["PATIENCE_RUNS", "PATIENCE_S", "Reservation", "is_patient", "order", "reserve_on"]

PATIENCE_S = 5.0
PATIENCE_RUNS = 25


class Reservation:
    """The claim of one blocked job on one worker, as of `now`.

    `start`: when enough will have come back, by learned run times (unknown ones may end at any moment).
    `spare`: what stays over beside the job at that moment; jobs that may outlast `start` have to fit in it.
    """

    __slots__ = ("job", "spare", "start", "worker")

    def __init__(self, job: Job, worker: WorkerBook) -> None:
        self.job = job
        self.worker = worker
        self.start = 0.0
        self.spare: dict[str, int] = {}

    def refresh(self, now: float) -> None:
        """Work out `start` and `spare` from what runs on the worker now."""
        self.start, self.spare = _soonest(self.worker, self.job.cls, now)

    def admits(self, job: Job, now: float) -> bool:
        """Whether `job` may start on the worker: it goes before the reserved one, or does not put it off."""
        if order(job) <= order(self.job) or ends_by(job.fn, now) <= self.start:
            return True
        spare = self.spare
        return all(spare.get(name, 0) >= amount for name, amount in job.cls.units)

    def charge(self, job: Job, now: float) -> None:
        """Count a job that was admitted: if it may outlast `start`, it uses spare amounts."""
        if ends_by(job.fn, now) > self.start:
            for name, amount in job.cls.units:
                self.spare[name] -= amount


def order(job: Job) -> tuple[int, int]:
    """Who goes first: priority, then age."""
    return (-job.cls.priority, job.job)


def ends_by(fn: Function, now: float) -> float:
    """When a job of `fn` that starts now will have ended, as far as anybody can tell."""
    return now + fn.times.upper if fn.times.known else float("inf")


def is_patient(cls: RequestClass, job: Job, now: float) -> bool:
    """Whether a blocked job was passed over for long enough to get a reservation wherever it fits."""
    return cls.passed_over(job, now) >= max(PATIENCE_S, PATIENCE_RUNS * job.fn.times.mean)


def reserve_on(workers: Iterable[WorkerBook], job: Job, now: float) -> Reservation | None:
    """Reserve for `job` on the worker where it can start soonest, of those where it may; None where it may nowhere."""
    best: Reservation | None = None
    cls, anywhere = job.cls, is_patient(job.cls, job, now)
    for worker in workers:
        if not (anywhere or worker.is_wide(cls)) or not worker.fits_ever(cls):
            continue
        candidate = Reservation(job, worker)
        candidate.refresh(now)
        if best is None or candidate.start < best.start:
            best = candidate
    return best


def _soonest(worker: WorkerBook, cls: RequestClass, now: float) -> tuple[float, dict[str, int]]:
    """Give back what runs, the soonest to end first, until the class fits; return that moment and what stays over."""
    free = dict(worker.free)
    start = now
    for end, held in sorted(_held(worker, now), key=lambda pair: pair[0]):
        if all(free.get(name, 0) >= amount for name, amount in cls.units):
            break
        start = end
        for name, amount in held.units:
            free[name] += amount
    for name, amount in cls.units:
        free[name] = free.get(name, 0) - amount
    return start, free


def _held(worker: WorkerBook, now: float) -> list[tuple[float, RequestClass]]:
    """When each thing that is counted against the worker is expected to end, and its class."""
    held = [(_lease_end(lease, now), lease.cls) for lease in worker.leases.values()]
    held += [
        (max(now, job.planned_at + job.fn.times.mean), job.cls)
        for job in worker.held.values()
        if not job.lease and job.job not in worker.ahead
    ]
    return held


def _lease_end(lease: LeaseBook, now: float) -> float:
    """A lease may end at any moment when nothing is known of its function, or when it is overdue."""
    if lease.fn is None or not lease.fn.times.known:
        return now
    return max(now, lease.begun + lease.fn.times.mean)

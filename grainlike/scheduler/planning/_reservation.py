"""Reservations: how a wide job starts although narrow ones never stop coming.

A job that does not fit never blocks one behind it that does, so without reservations a stream of narrow jobs would keep
a wide one waiting for ever. A reserved job gets the first moment at which enough of one worker will have come back;
until then only jobs may use that worker that end before this moment, or that fit beside the reserved job, or that go
before it in order. This is EASY backfilling (D. A. Lifka, "The ANL/IBM SP scheduling system", 1995), with run times
that users declare (`WallTime`) or, where they do not, learned ones.

Who gets one: a job that asks for more than half of some resource of the worker at once (`WorkerState.is_wide`), any
other after it was passed over for long (`_patience`). A worker serves one reservation at a
time, a class holds at most one; a job that stood blocked for so long gets one beside those of jobs that go before it.
A gang is wide by nature: it is given one on each of its workers, all at once, and it starts when the last of them can.

**The bound.** From the moment of the reservation the job waits for no job behind it that starts later: only for those
that run on that worker then, and for backfilled ones, which end before it could have started. With run times that keep
to what was declared, or to mean + 2σ, its wait is at most the longest remaining run time on that worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest, nsmallest
from operator import attrgetter, itemgetter

from grainlike.scheduler._records import HeadFunction, HeadJob, Shape, arrival
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState

__all__ = [
    "PATIENCE_RUNS",
    "PATIENCE_S",
    "RESERVATIONS_MOST",
    "Reservation",
    "patience_of",
    "renewed",
    "reserve_on",
    "soft_limit",
]

PATIENCE_S = 5.0
PATIENCE_RUNS = 25

RESERVATIONS_MOST = 4
"""The most blocked classes for which one worker is reserved. Usually one, since each blocks others. More than one, so
that a long queue for all of a device does not starve a job that needs all cores.
"""

_FOREVER = float("inf")
_MOMENT = itemgetter(0)
_START = attrgetter("start")
_PLANNED = JobState.PLANNED

CONSIDERED = 16
"""Number of workers on which a reservation is weighed: those with most room. More cost time and gain nothing."""


class Reservation:
    """The claim of one blocked job, in one of its shapes, on one worker, as of `now`.

    `start`: when enough will have come back, as far as run times are known (unknown ones may end at any moment).
    `spare`: what stays over beside the job at that moment; jobs that may outlast `start` have to fit in it. It is empty
    from when a pass begins until the reservation is first asked for, as most are not (`as_of`).
    A gang has one on each of its workers, and they have one `start`.
    """

    __slots__ = ("job", "shape", "spare", "start", "worker")

    def __init__(self, job: HeadJob, shape: Shape, worker: WorkerState, now: float) -> None:
        self.job = job
        self.shape = shape
        self.worker = worker
        self.start = 0.0
        self.spare: dict[str, int] = {}
        self.refresh(now)

    def refresh(self, now: float, at_least: float = 0.0) -> None:
        """Compute `start`, which is not before `at_least`, and `spare` from what runs on the worker now."""
        start, self.spare = _soonest(self.worker, self.shape, now, at_least)
        self.start = max(start, at_least)

    def as_of(self, now: float) -> Reservation:
        """Return itself, computed. Until a job starts on the worker, that may be at any moment of a pass."""
        if not self.spare:
            self.refresh(now)
        return self

    @property
    def in_time(self) -> bool:
        """True if the worker gets jobs now, and has walltime enough left from `start` on."""
        if self.worker.gone or self.worker.leaving or self.worker.shut:
            return False
        return self.worker.in_time(self.job.fn, self.shape, self.start)

    def admits(self, job: HeadJob, shape: Shape, now: float) -> bool:
        """Return True if `job` may start on the worker: it goes before the reserved one, or does not delay it.

        A job that another one submitted always may: its parent waits for it, and may hold what the reserved job needs.
        """
        if (job.rare is not None and job.rare.parent is not None) or arrival(job) <= arrival(self.job):
            return True
        spare = self.spare or self.as_of(now).spare
        for name, amount in shape.units:
            if spare.get(name, 0) < amount:
                return ends_by(job.fn, shape, now) <= self.start
        return True

    def charge(self, job: HeadJob, shape: Shape, now: float) -> None:
        """Count a job that was admitted: if it may outlast `start`, it uses spare amounts."""
        if ends_by(job.fn, shape, now) > self.as_of(now).start:
            for name, amount in shape.units:
                self.spare[name] -= amount


def soft_limit(fn: HeadFunction, shape: Shape) -> float | None:
    """Return the seconds within which a job nearly always ends: declared, or learned; None if unknown."""
    declared = shape.walltime_soft if shape.group is None else shape.soft_s
    if declared is not None:
        return declared
    return fn.times.upper if fn.times.known else None


def ends_by(fn: HeadFunction, shape: Shape, now: float) -> float:
    """Return when a job that starts now will have ended; infinite if its run time is unknown."""
    limit = soft_limit(fn, shape)
    return float("inf") if limit is None else now + limit


def patience_of(job: HeadJob) -> float:
    """Return for how many seconds a job that is not wide is passed over before a worker is kept for it."""
    return max(PATIENCE_S, PATIENCE_RUNS * job.fn.times.mean)


def reserve_on(workers: Iterable[WorkerState], job: HeadJob, shape: Shape, now: float) -> list[Reservation]:
    """Reserve for `job` on the worker where it can start soonest, for a gang on as many; empty where it cannot."""
    roomy = [worker for worker in workers if not worker.shut and worker.fits_ever(shape)]
    if len(roomy) > 1:
        roomy = nlargest(CONSIDERED + shape.nodes - 1, roomy, key=lambda worker: worker.room_left(shape))
    weighed = [Reservation(job, shape, worker, now) for worker in roomy]
    chosen = [reservation for reservation in weighed if reservation.in_time]
    if len(chosen) > 1:
        chosen = nsmallest(shape.nodes, chosen, key=_START)
    return chosen if shape.nodes == 1 or (len(chosen) == shape.nodes and renewed(chosen, now)) else []


def renewed(reservations: list[Reservation], now: float) -> bool:
    """Compute the reservations of one job again; return False if a worker will not be there for long enough."""
    worker = reservations[0].worker
    if worker.until == _FOREVER and reservations[0].shape.nodes == 1:
        reservations[0].spare = {}  # all that depends on `start` is whether it is before the end of the worker
        return not (worker.gone or worker.leaving or worker.shut)
    for reservation in reservations:
        reservation.refresh(now)
    if len(reservations) > 1:
        start = max(reservation.start for reservation in reservations)
        for reservation in reservations:
            reservation.refresh(now, start)
    for reservation in reservations:
        if not reservation.in_time:
            return False
    return True


def _soonest(worker: WorkerState, shape: Shape, now: float, at_least: float) -> tuple[float, dict[str, int]]:
    """Free what runs, the soonest to end first, until the shape fits; return that moment and what is then left over.

    All that ends by `at_least` is freed.
    """
    free = dict(worker.free)
    if worker.lent:
        free["cores"] -= worker.lent  # their leases take them back when their jobs continue
    start, units = now, shape.units
    # Each pass computes this for each reservation, so it calls nothing that it need not.
    for end, held in sorted(_held(worker, now), key=_MOMENT):
        if end > at_least:
            for name, amount in units:
                if free[name] < amount:
                    break
            else:
                break
        start = end
        for name, amount in held.units:
            free[name] += amount
    for name, amount in units:
        free[name] -= amount
    return start, free


def _held(worker: WorkerState, now: float) -> list[tuple[float, Shape]]:
    """Return for all that is counted against the worker when it is expected to end, and its shape."""
    held: list[tuple[float, Shape]] = []
    fn: HeadFunction | None = None  # most of them are of one function: what is known of it is read once
    mean: float | None = None
    for lease in worker.leases.values():
        if lease.fn is not fn:
            fn = lease.fn
            mean = fn.times.mean if fn is not None and fn.times.known else None
        if mean is not None:
            end = lease.begun + mean
            held.append((end if end > now else now, lease.shape))
        else:
            held.append((now if fn is None else _end(fn, lease.shape, lease.begun, now), lease.shape))
    if len(worker.held) > len(worker.ahead):
        for job in worker.held.values():
            shape = job.shape
            if job.state is not _PLANNED or shape is None or shape.nodes > 1:
                continue
            if job.fn is not fn:
                fn = job.fn
                mean = fn.times.mean if fn.times.known else None
            if mean is not None:
                end = job.sent + mean
                held.append((end if end > now else now, shape))
            elif shape.walltime_soft is None and shape.group is None:
                held.append((now, shape))
            else:
                held.append((_end(job.fn, shape, job.sent, now), shape))
    held += [
        (now if hold.released else _end(hold.job.fn, hold.shape, hold.planned_at, now), hold.shape)
        for hold in worker.holds.values()
        if not hold.lease
    ]
    return held


def _end(fn: HeadFunction, shape: Shape, begun: float, now: float) -> float:
    """Return when a job is expected to end; `now` if nothing is known of its run time, or it is overdue."""
    after = fn.times.mean if fn.times.known else shape.soft_s
    return now if after is None else max(now, begun + after)

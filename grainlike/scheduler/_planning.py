"""One pass of the head's policy: place what fits, reserve for what must not starve, send the next jobs ahead.

Order is fair share between clients, then priority, then age. A class whose oldest job does not fit anywhere drops out
of the pass and never blocks the classes behind it; if the job deserves it (`_reservation`), a worker is kept for it. Of
several shapes the first is preferred, if it can start now. A pass costs what changed and what it assigns: never the
number of jobs that wait, nor, but for reservations, the number of workers.

Jobs are *sent ahead* to workers that are full when their function is known to be quick, so that the next one starts
without a round trip: enough to last `AHEAD_S`, refilled when half of it is used up. Sending nothing ahead costs a
factor of seven on tiny jobs; sending more piles up work behind a job that turns out long.

A shape is sent ahead only to where jobs of it run now, so that each end makes exactly the room that the next one needs;
a job that waits for room nobody gives back would otherwise be out of the queue, and out of the reservation's care.
What was sent ahead is taken back when its shape has lost its slots there, when another worker has room for it, or when
a reservation takes the worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from grainlike.scheduler._books import ChangeLog, Job, RequestClass, Shape, WorkerBook
from grainlike.scheduler._candidates import Candidates
from grainlike.scheduler._events import AssignJobs, HeadAction, RetractJobs
from grainlike.scheduler._rations import Rations
from grainlike.scheduler._reservation import Reservation, is_patient_no_more, order, reserve_on
from grainlike.scheduler._shares import Shares
from grainlike.scheduler._states import JobState

__all__ = ["Planner"]

AHEAD_S = 0.025
"""Expected seconds of work that a worker holds ahead for each job that it runs."""

AHEAD_QUICK_S = 0.1
"""Functions whose jobs take longer than this on average are not sent ahead: a round trip is nothing to them."""

AHEAD_MOST = 4096
"""The most jobs that one worker holds ahead."""


class Planner:
    """Makes one pass after another over the head's books. `wake` is when a pass is due even if nothing happens."""

    def __init__(self, workers: dict[int, WorkerBook], classes: dict[int, RequestClass]) -> None:
        self.log = ChangeLog()
        self.rations = Rations()
        self.shares = Shares()
        self.reservations: dict[int, Reservation] = {}
        """By worker."""
        self.wake: float | None = None
        self.members = 0
        """Grows when a worker joins or leaves."""
        self._workers = workers
        self._classes = classes
        self._candidates: dict[int, Candidates] = {}
        self._read = (0, 0)
        self._reserved: dict[int, Reservation] = {}
        """The same reservations by class."""
        self._wide: dict[int, tuple[int, list[WorkerBook]]] = {}
        self._holders: dict[int, dict[int, WorkerBook]] = {}
        """Which workers hold jobs of a shape ahead; some may hold none any more."""

    def plan(self, now: float, out: list[HeadAction]) -> None:
        """Assign what can be assigned."""
        self.wake = None
        self._review(now)
        blocked = self._place_all(now, out)
        changed = self._changed()
        for cls in blocked:
            self._send_ahead(cls, changed, out)
        self._retract(changed, out)
        self.log.compact(len(self._workers))

    def _changed(self) -> list[WorkerBook]:
        """The workers whose free amounts changed since the last pass."""
        epoch, read = self._read
        entries = self.log.entries[read:] if epoch == self.log.epoch else list(self._workers.values())
        self._read = self.log.epoch, len(self.log.entries)
        return [worker for worker in dict.fromkeys(entries) if not worker.gone]

    # --- placing -----------------------------------------------------------------------------------------------------

    def _place_all(self, now: float, out: list[HeadAction]) -> list[RequestClass]:
        """Place jobs until no class's oldest fits; return the classes that still have jobs, in order."""
        queues: dict[int, list[tuple[int, int, int]]] = {}
        for cls in self._classes.values():
            job = cls.head()
            if job is not None:
                queues.setdefault(cls.client, []).append((*order(job), cls.cls))
        for ranked in queues.values():
            heapify(ranked)
        blocked: list[RequestClass] = []
        batch: dict[tuple[int, int], list[Job]] = {}
        while queues:
            client = min(queues, key=self.shares.used) if len(queues) > 1 else next(iter(queues))
            ranked = queues[client]
            cls = self._classes[heappop(ranked)[2]]
            job = cls.head()
            assert job is not None
            if not self._place(cls, job, now, batch):
                blocked.append(cls)
            elif (following := cls.head()) is not None:
                heappush(ranked, (*order(following), cls.cls))
            if not ranked:
                del queues[client]
        for (to, shape), jobs in batch.items():
            out.append(_assignment(to, shape, jobs, ahead=False))
        return blocked

    def _place(self, cls: RequestClass, job: Job, now: float, batch: dict[tuple[int, int], list[Job]]) -> bool:
        """Start the oldest job of a class in the first of its shapes that can start now; else see to its turn."""
        rationed = False
        for shape in cls.shapes:
            block = self.rations.blocks(shape, now)
            if block is not None:
                rationed = True
                self._wake_at(block[1])
                continue
            worker = self._best(job, shape, now)
            if worker is not None:
                self._assign(cls, job, shape, worker, now)
                batch.setdefault((worker.worker, shape.shape), []).append(job)
                return True
        if not rationed:
            self._reserve(job, now)
        return False

    def _best(self, job: Job, shape: Shape, now: float) -> WorkerBook | None:
        limit = shape.soft_s

        def admitted(worker: WorkerBook) -> bool:
            if limit is not None and now + limit > worker.until:
                return False
            reservation = self.reservations.get(worker.worker)
            return reservation is None or reservation.admits(job, shape, now)

        candidates = self._candidates.get(shape.shape)
        if candidates is None:
            candidates = self._candidates[shape.shape] = Candidates(shape, self._workers, self.log)
        return candidates.best(admitted)

    def _assign(self, cls: RequestClass, job: Job, shape: Shape, worker: WorkerBook, now: float) -> None:
        cls.queue.popleft()
        reservation = self.reservations.get(worker.worker)
        if reservation is not None and reservation.job is not job:
            reservation.charge(job, shape, now)
        self._release(job)
        self.rations.take(shape, now)
        self.shares.take(cls.client, shape)
        worker.take(shape)
        worker.held[job.job] = job
        job.state, job.worker, job.shape, job.planned_at = JobState.PLANNED, worker.worker, shape, now

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self.wake is None or at < self.wake):
            self.wake = at

    # --- reserving ---------------------------------------------------------------------------------------------------

    def _review(self, now: float) -> None:
        """Drop reservations whose job or worker is gone; work the others out anew."""
        for reservation in list(self._reserved.values()):
            job = reservation.job
            if reservation.worker.gone or job.cancelled or job.cls.head() is not job:
                self._release(job)
            else:
                reservation.refresh(now)

    def _reserve(self, job: Job, now: float) -> None:
        if job.cls.cls in self._reserved or len(self.reservations) == len(self._workers):
            return
        for shape in job.cls.shapes:
            workers = self._workers.values() if is_patient_no_more(job, now) else self._wide_for(shape)
            vacant = [worker for worker in workers if worker.worker not in self.reservations]
            reservation = reserve_on(vacant, job, shape, now) if vacant else None
            if reservation is not None:
                self.reservations[reservation.worker.worker] = self._reserved[job.cls.cls] = reservation
                return

    def _wide_for(self, shape: Shape) -> list[WorkerBook]:
        """The workers on which a job of the shape is wide."""
        members, wide = self._wide.get(shape.shape, (-1, []))
        if members != self.members:
            wide = [worker for worker in self._workers.values() if worker.is_wide(shape) and worker.fits_ever(shape)]
            self._wide[shape.shape] = self.members, wide
        return wide

    def _release(self, job: Job) -> None:
        reservation = self._reserved.get(job.cls.cls)
        if reservation is not None and reservation.job is job:
            del self._reserved[job.cls.cls], self.reservations[reservation.worker.worker]

    # --- sending ahead -----------------------------------------------------------------------------------------------

    def _send_ahead(self, cls: RequestClass, changed: Iterable[WorkerBook], out: list[HeadAction]) -> None:
        shape = cls.shapes[0]
        if shape.rationed or shape.walltime is not None or shape.group is not None:
            return
        for worker in changed:
            if cls.head() is None:
                return
            if worker.using.get(shape.shape) and not worker.recalled and self._may_wait_at(worker, cls):
                self._fill(worker, cls, shape, out)

    def _may_wait_at(self, worker: WorkerBook, cls: RequestClass) -> bool:
        reservation = self.reservations.get(worker.worker)
        return reservation is None or reservation.job.cls is cls

    def _fill(self, worker: WorkerBook, cls: RequestClass, shape: Shape, out: list[HeadAction]) -> None:
        budget = AHEAD_S * worker.using[shape.shape]
        if worker.ahead_s > budget / 2 or len(worker.ahead) > AHEAD_MOST / 2:
            return
        jobs: list[Job] = []
        while len(worker.ahead) < AHEAD_MOST and worker.ahead_s < budget:
            job = cls.head()
            if job is None or not job.fn.times.known or job.fn.times.mean > AHEAD_QUICK_S:
                break
            cls.queue.popleft()
            worker.put_ahead(job, shape)
            jobs.append(job)
        if jobs:
            self._holders.setdefault(shape.shape, {})[worker.worker] = worker
            out.append(_assignment(worker.worker, shape.shape, jobs, ahead=True))

    # --- taking back -------------------------------------------------------------------------------------------------

    def _retract(self, changed: Iterable[WorkerBook], out: list[HeadAction]) -> None:
        for reservation in self.reservations.values():
            waiting = reservation.worker.ahead.values()
            self._recall(reservation.worker, [job for job in waiting if job.cls is not reservation.job.cls], out)
        for worker in changed:
            if worker.ahead:
                self._recall(worker, _stranded(worker), out)
            elif worker.worker not in self.reservations:
                self._help(worker, out)

    def _recall(self, worker: WorkerBook, jobs: Iterable[Job], out: list[HeadAction]) -> None:
        back = [] if worker.recalled else [job for job in jobs if not job.cancelled]
        if back:
            worker.recalled.update(job.job for job in back)
            out.append(RetractJobs(worker.worker, [job.job for job in back], [job.attempt for job in back]))

    def _help(self, idle: WorkerBook, out: list[HeadAction]) -> None:
        """Take the younger half of what waits elsewhere, of a shape for which `idle` has room and the queue nothing."""
        for number, holders in self._holders.items():
            worker = _first_holder(number, holders)
            if worker is None or worker.recalled:
                continue
            waiting = [job for job in worker.ahead.values() if job.shape is not None and job.shape.shape == number]
            shape = waiting[0].shape
            if shape is not None and waiting[0].cls.head() is None and idle.fits_now(shape):
                self._recall(worker, waiting[len(waiting) // 2 :], out)
                return


def _first_holder(shape: int, holders: dict[int, WorkerBook]) -> WorkerBook | None:
    """A worker that holds jobs of the shape ahead; those that do no more are dropped on the way."""
    while holders:
        number, worker = next(iter(holders.items()))
        if not worker.gone and worker.ahead_of.get(shape):
            return worker
        del holders[number]
    return None


def _stranded(worker: WorkerBook) -> list[Job]:
    """What waits here although its shape runs here no more, and does not fit."""
    lost = {number for number, waiting in worker.ahead_of.items() if waiting and not worker.using.get(number)}
    if not lost:
        return []
    return [
        job
        for job in worker.ahead.values()
        if job.shape is not None and job.shape.shape in lost and not worker.fits_now(job.shape)
    ]


def _assignment(worker: int, shape: int, jobs: list[Job], *, ahead: bool) -> AssignJobs:
    numbers, attempts = [job.job for job in jobs], [job.attempt for job in jobs]
    hard_s = None if jobs[0].shape is None else jobs[0].shape.hard_s
    return AssignJobs(worker, shape, ahead, numbers, attempts, [job.fn.fn for job in jobs], hard_s)

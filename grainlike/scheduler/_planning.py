"""One pass of the head's policy: place what fits, reserve for what must not starve, send the next jobs ahead.

Order is priority, then age. A class whose oldest job does not fit anywhere drops out of the pass and never blocks the
classes behind it; if the job deserves it (`_reservation`), a worker is kept for it. A pass costs one look at each
worker per class that still has jobs, plus the jobs that it assigns: never the jobs that wait.

Jobs are *sent ahead* to workers that are full when their function is known to be quick, so that the next one starts
without a round trip: enough to last `AHEAD_S`, refilled when half of it is used up. Sending nothing ahead costs a
factor of seven on tiny jobs; sending more piles up work behind a job that turns out long.

A class is sent ahead only to where jobs of it run now, so that each end makes exactly the room that the next one needs;
a job that waits for room nobody gives back would otherwise be out of the queue, and out of the reservation's care.
What was sent ahead is taken back when its class has lost its slots there, when another worker has room for it, or when
a reservation takes the worker. Nor may it go past its *elders*: where a job that goes first could use the room that
the next end makes, nothing is sent ahead, and what is there comes back. Without that, quick jobs would hand their slots
on to one another for as long as there are any, unseen by the head, and a more urgent job would wait for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from grainlike.scheduler._books import Job, RequestClass, WorkerBook
from grainlike.scheduler._events import AssignJobs, HeadAction, RetractJobs
from grainlike.scheduler._reservation import Reservation, is_patient, order, reserve_on
from grainlike.scheduler._states import JobState

__all__ = ["Planner"]

AHEAD_S = 0.025
"""Expected seconds of work that a worker holds ahead for each of its slots."""

AHEAD_QUICK_S = 0.1
"""Functions whose jobs take longer than this on average are not sent ahead: a round trip is nothing to them."""

AHEAD_MOST = 4096
"""The most jobs that one worker holds ahead."""

RESERVATIONS_MOST = 4
"""How many blocked classes one worker is kept for at most. Usually that is one, as each keeps others from starting;
but a queue for a device that asks for all of it holds that one for as long as it lasts, and who wants all cores would
be passed over by everybody meanwhile."""

ELDERS_MOST = 4
"""How many blocked classes are heeded before others are sent ahead; a bound on the work of a pass."""


class Planner:
    """Makes one pass after another over the head's books."""

    def __init__(self, workers: dict[int, WorkerBook], classes: dict[int, RequestClass]) -> None:
        self._workers = workers
        self._classes = classes
        self._reservations: dict[int, list[Reservation]] = {}
        """By worker, those who go first in front; a worker without one is absent."""

    def plan(self, now: float, out: list[HeadAction]) -> None:
        """Assign what can be assigned."""
        self._review(now)
        blocked = self._place_all(now, out)
        elders: list[RequestClass] = []
        for cls in blocked:
            self._send_ahead(cls, elders, out)
            if len(elders) < ELDERS_MOST and self._is_unserved(cls):
                elders.append(cls)
        self._retract(elders, out)

    # --- placing -----------------------------------------------------------------------------------------------------

    def _place_all(self, now: float, out: list[HeadAction]) -> list[RequestClass]:
        """Place jobs until no class's oldest fits; return the classes with jobs left, in order."""
        fronts = [
            (-cls.priority, job.job, cls.cls) for cls in self._classes.values() if (job := cls.head()) is not None
        ]
        heapify(fronts)
        blocked: list[RequestClass] = []
        batch: dict[tuple[int, int], list[Job]] = {}
        while fronts:
            priority, _, number = heappop(fronts)
            cls = self._classes[number]
            job = cls.head()
            assert job is not None
            worker = self._best(cls, job, now)
            if worker is None:
                blocked.append(cls)
                self._reserve(job, now)
                continue
            self._assign(cls, job, worker, now)
            batch.setdefault((worker.worker, number), []).append(job)
            following = cls.head()
            if following is not None:
                heappush(fronts, (priority, following.job, number))
        for (to, number), jobs in batch.items():
            out.append(_assignment(to, number, jobs, ahead=False))
        return blocked

    def _best(self, cls: RequestClass, job: Job, now: float) -> WorkerBook | None:
        """The worker with the tightest fit, of those where the job may start now."""
        best: WorkerBook | None = None
        least = 0
        for worker in self._workers.values():
            if not worker.fits_now(cls) or not self._admitted(job, worker, now):
                continue
            left = worker.room_left(cls)
            if best is None or left < least:
                best, least = worker, left
        return best

    def _admitted(self, job: Job, worker: WorkerBook, now: float) -> bool:
        return all(reservation.admits(job, now) for reservation in self._reserved_at(worker))

    def _assign(self, cls: RequestClass, job: Job, worker: WorkerBook, now: float) -> None:
        cls.queue.popleft()
        for reservation in self._reserved_at(worker):
            if reservation.job is not job:
                reservation.charge(job, now)
        self._release(job)
        worker.take(cls)
        worker.held[job.job] = job
        job.state, job.worker, job.planned_at = JobState.PLANNED, worker.worker, now

    # --- reserving ---------------------------------------------------------------------------------------------------

    def _reserved_at(self, worker: WorkerBook) -> Sequence[Reservation]:
        return self._reservations.get(worker.worker, ())

    def _review(self, now: float) -> None:
        """Drop reservations whose job or worker is gone; work the others out anew."""
        for number, reservations in list(self._reservations.items()):
            held = [reservation for reservation in reservations if _is_wanted(reservation)]
            self._keep(number, held if number in self._workers else [])
            for reservation in held:
                reservation.refresh(now)

    def _keep(self, worker: int, reservations: list[Reservation]) -> None:
        if reservations:
            self._reservations[worker] = reservations
        else:
            self._reservations.pop(worker, None)

    def _is_reserved_for(self, job: Job) -> bool:
        return any(held.job is job for reservations in self._reservations.values() for held in reservations)

    def _reserve(self, job: Job, now: float) -> None:
        if self._is_reserved_for(job):
            return
        patient = is_patient(job.cls, job, now)
        open_to_it = [
            worker
            for worker in self._workers.values()
            if (patient or worker.is_wide(job.cls)) and self._may_reserve(worker, job, patient=patient)
        ]
        reservation = reserve_on(open_to_it, job, now) if open_to_it else None
        if reservation is not None:
            number = reservation.worker.worker
            held = sorted([*self._reserved_at(reservation.worker), reservation], key=_turn)
            self._keep(number, held[:RESERVATIONS_MOST])

    def _may_reserve(self, worker: WorkerBook, job: Job, *, patient: bool) -> bool:
        """Who goes first takes a reservation over; who goes later gets one beside it after a long wait only."""
        held = self._reserved_at(worker)
        return not held or order(job) < order(held[-1].job) or (patient and len(held) < RESERVATIONS_MOST)

    def _release(self, job: Job) -> None:
        for number, reservations in list(self._reservations.items()):
            if any(reservation.job is job for reservation in reservations):
                self._keep(number, [reservation for reservation in reservations if reservation.job is not job])

    # --- sending ahead -----------------------------------------------------------------------------------------------

    def _is_unserved(self, cls: RequestClass) -> bool:
        """Whether its oldest job waits for room without a reservation."""
        job = cls.head()
        return job is not None and not self._is_reserved_for(job)

    def _send_ahead(self, cls: RequestClass, elders: list[RequestClass], out: list[HeadAction]) -> None:
        for worker in self._workers.values():
            job = cls.head()
            if job is None or not _is_quick(job):
                return
            if worker.using.get(cls.cls) and not worker.recalled and self._may_wait_at(worker, cls):
                self._fill(worker, cls, elders, out)

    def _may_wait_at(self, worker: WorkerBook, cls: RequestClass) -> bool:
        return all(reservation.job.cls is cls for reservation in self._reserved_at(worker))

    def _fill(self, worker: WorkerBook, cls: RequestClass, elders: list[RequestClass], out: list[HeadAction]) -> None:
        budget = AHEAD_S * worker.using[cls.cls]
        if worker.ahead_s > budget / 2 or len(worker.ahead) > AHEAD_MOST / 2:
            return
        first = cls.head()
        if first is None or any(_goes_first(elder, first, worker) for elder in elders):
            return
        jobs: list[Job] = []
        while len(worker.ahead) < AHEAD_MOST and worker.ahead_s < budget:
            job = cls.head()
            if job is None or not _is_quick(job):
                break
            cls.queue.popleft()
            worker.put_ahead(job)
            jobs.append(job)
        if jobs:
            out.append(_assignment(worker.worker, cls.cls, jobs, ahead=True))

    # --- taking back -------------------------------------------------------------------------------------------------

    def _retract(self, elders: list[RequestClass], out: list[HeadAction]) -> None:
        overtaken = self._overtaken(elders)
        for worker in self._workers.values():
            if not worker.ahead or worker.recalled:
                continue
            if worker.worker in self._reservations:
                back = [job for job in worker.ahead.values() if not self._may_wait_at(worker, job.cls)]
            else:
                back = (
                    overtaken.get(worker.worker) or _stranded(worker, self._classes) or self._wanted_elsewhere(worker)
                )
            back = [job for job in back if not job.cancelled]
            if back:
                worker.recalled.update(job.job for job in back)
                out.append(RetractJobs(worker.worker, [job.job for job in back], [job.attempt for job in back]))

    def _overtaken(self, elders: list[RequestClass]) -> dict[int, list[Job]]:
        """What waits, by worker, where it would go past an elder: at one worker for each of them."""
        found: dict[int, list[Job]] = {}
        for elder in elders:
            for worker in self._workers.values():
                if not worker.ahead:
                    continue
                past = [job for job in worker.ahead.values() if _goes_first(elder, job, worker)]
                if past:
                    found.setdefault(worker.worker, past)
                    break
        return found

    def _wanted_elsewhere(self, worker: WorkerBook) -> list[Job]:
        """The younger half of what waits here, of a class for which another worker has room and the queue nothing."""
        cls = next(iter(worker.ahead.values())).cls
        if cls.head() is not None:
            return []
        for other in self._workers.values():
            if other is not worker and other.worker not in self._reservations and other.fits_now(cls):
                waiting = [job for job in worker.ahead.values() if job.cls is cls]
                return waiting[len(waiting) // 2 :]
        return []


def _is_wanted(reservation: Reservation) -> bool:
    job = reservation.job
    return not job.cancelled and job.cls.head() is job


def _turn(reservation: Reservation) -> tuple[int, int]:
    return order(reservation.job)


def _is_quick(job: Job) -> bool:
    """Whether it is known to take so little that a round trip matters."""
    return job.fn.times.known and job.fn.times.mean <= AHEAD_QUICK_S


def _goes_first(elder: RequestClass, job: Job, worker: WorkerBook) -> bool:
    """Whether the oldest of `elder` goes before `job`, and one end of the job's class here makes room for it.

    Two classes of one priority that both have quick jobs running here are both sent ahead: the node goes by age.
    """
    first = elder.head()
    if first is None or elder is job.cls or order(first) > order(job):
        return False
    if elder.priority == job.cls.priority and worker.using.get(elder.cls) and _is_quick(first):
        return False
    return worker.fits_after(elder, job.cls)


def _stranded(worker: WorkerBook, classes: dict[int, RequestClass]) -> list[Job]:
    """What waits here although its class runs here no more, and does not fit."""
    lost = {
        number
        for number, waiting in worker.ahead_of.items()
        if waiting and not worker.using.get(number) and not worker.fits_now(classes[number])
    }
    return [job for job in worker.ahead.values() if job.cls.cls in lost] if lost else []


def _assignment(worker: int, cls: int, jobs: list[Job], *, ahead: bool) -> AssignJobs:
    return AssignJobs(
        worker, cls, ahead, [job.job for job in jobs], [job.attempt for job in jobs], [job.fn.fn for job in jobs]
    )

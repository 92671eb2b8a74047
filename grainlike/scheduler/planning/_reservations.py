"""Reservations of a head: which workers are reserved for which jobs, and which reservation gives way to another.

A worker may be reserved for `RESERVATIONS_MOST` jobs. A job that goes first in order takes a reservation over; one that
goes later gets one beside it after a long wait only. `_reservation` says from when a worker is reserved, and which jobs
may start there meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from grainlike.scheduler._records import HeadJob, RequestClass, Shape, arrival
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._kinds import WorkerKinds
from grainlike.scheduler.planning._near import NearPlacing
from grainlike.scheduler.planning._reservation import RESERVATIONS_MOST, Reservation, renewed, reserve_on
from grainlike.scheduler.planning._search import Search
from grainlike.scheduler.planning._waiting import WaitingClasses

__all__ = ["Reservations"]


class Reservations:
    """The reservations of one head. `workers`, `classes` and `waiting` are the planner's own, not copies.

    Attributes:
        by_worker: in order of their jobs; a worker without a reservation is absent.
        by_class: the same reservations: one, or as many as a gang has nodes.
        members: grows when a worker joins or leaves, or refuses a shape for good.
        near: says which workers have all inputs of a job; no other is kept for it.
        reopened: the workers with fewer reservations than when the last pass that placed all that fits had ended.
        search: the search of the current pass, which has to know when reservations change.
    """

    def __init__(
        self, workers: dict[int, WorkerState], classes: dict[int, RequestClass], waiting: WaitingClasses
    ) -> None:
        self.near: NearPlacing | None = None
        self.by_worker: dict[int, list[Reservation]] = {}
        self.by_class: dict[int, list[Reservation]] = {}
        self.members = 0
        self.reopened: dict[int, WorkerState] = {}
        self.search: Search | None = None
        self._workers = workers
        self._classes = classes
        self._waiting = waiting
        self.kinds = WorkerKinds(workers)
        self._wide: dict[int, tuple[int, list[WorkerState]]] = {}

    def review(self, now: float) -> None:
        """Drop reservations whose job or worker is gone, or will be gone too soon; compute the others again."""
        for reservations in list(self.by_class.values()):
            job = reservations[0].job
            cls = job.cls
            is_first = cls.queue and cls.queue[0] is job and not cls.early  # for most, without a call
            if job.cancelled or not (is_first or cls.head() is job) or not renewed(reservations, now):
                self.release(job)

    def reserve(self, job: HeadJob, now: float) -> None:
        """Reserve a worker for a blocked job, if it is wide or has waited for long, and a worker may be reserved."""
        if job.cls.id in self.by_class:
            return
        patient = self._waiting.patience.is_over(job, now)
        if self.search is not None and not self.search.may_reserve(job, patient=patient):
            return
        for shape in job.cls.shapes:
            workers = self._workers.values() if patient or shape.nodes > 1 else self._wide_for(shape)
            if not workers:
                continue
            open_to_it = self._open_to(workers, job, patient=patient)
            if not open_to_it:
                continue
            if job.cls.near and shape.nodes == 1:
                open_to_it = [worker for worker in open_to_it if self.near is None or self.near.has_inputs(job, worker)]
            if self.near is not None and (job.fn.gives or job.tried is not None):
                rooms = self.near.rooms
                open_to_it = [worker for worker in open_to_it if rooms.has_more_elsewhere(worker, job) is None]
            reservations = reserve_on(open_to_it, job, shape, now) if len(open_to_it) >= shape.nodes else []
            if reservations:
                self._keep_for(job, reservations)
                return

    def begin_search(self, changed: Collection[WorkerState], now: float) -> Search:
        """Return the search of a pass, which is told when reservations change."""
        self.search = found = Search(
            self._waiting, self._classes, self._workers, self.by_worker, self.by_class, changed, self.kinds, now
        )
        return found

    def charge(self, job: HeadJob, shape: Shape, workers: Iterable[WorkerState], now: float) -> None:
        """Record that a job starts on these workers: spare amounts shrink, and its own reservations end.

        Needless while nothing is reserved (`by_worker` is empty).
        """
        for worker in workers:
            for held in self.by_worker.get(worker.id, ()):
                if held.job is not job:
                    held.charge(job, shape, now)
        self.release(job)

    def _open_to(self, workers: Iterable[WorkerState], job: HeadJob, *, patient: bool) -> list[WorkerState]:
        """Return the workers where the job goes before the last reservation, or may get one beside it after a long
        wait.
        """
        mine = arrival(job)
        found: list[WorkerState] = []
        for worker in workers:
            held = self.by_worker.get(worker.id)
            if held is None or mine < arrival(held[-1].job) or (patient and len(held) < RESERVATIONS_MOST):
                found.append(worker)
        return found

    def _keep_for(self, job: HeadJob, reservations: list[Reservation]) -> None:
        """Add reservations; where they are too many, drop the last one, on all workers that it has."""
        self.by_class[job.cls.id] = reservations
        self._reserved_anew()
        for reservation in reservations:
            number = reservation.worker.id
            held = sorted([*self.by_worker.get(number, ()), reservation], key=lambda held: arrival(held.job))
            self.by_worker[number] = held
            for last in held[RESERVATIONS_MOST:]:
                self.release(last.job)

    def _reserved_anew(self) -> None:
        if self.search is not None:
            self.search.reserved_anew()

    def joined(self, worker: WorkerState) -> None:
        """Record that a worker joins. If it has less of a resource than all others, more classes are wide."""
        self.members += 1
        if self.kinds.joined(worker):
            for queue in list(self._waiting.queues.values()):
                for cls in [self._classes[entry[2]] for entry in queue]:
                    self._waiting.widen(cls, self.kinds.wide_on(cls))

    def is_wide(self, shape: Shape) -> bool:
        """Return True if there are workers on which a job of a shape is wide."""
        return bool(self._wide_for(shape))

    def _wide_for(self, shape: Shape) -> list[WorkerState]:
        """Return the workers on which a job of the shape is wide."""
        if not self.kinds.may_be_wide(shape):
            return []  # as for most shapes: nothing is kept of these
        members, wide = self._wide.get(shape.id, (-1, []))
        if members != self.members:
            wide = [worker for worker in self._workers.values() if worker.is_wide(shape) and worker.fits_ever(shape)]
            self._wide[shape.id] = self.members, wide
        return wide

    def forget(self, shapes: Iterable[int]) -> None:
        """Drop what is known of shapes that no job asks for any more."""
        for number in shapes:
            self._wide.pop(number, None)

    def release(self, job: HeadJob) -> None:
        """Drop all reservations of a job."""
        reservations = self.by_class.get(job.cls.id)
        if reservations is None or reservations[0].job is not job:
            return
        del self.by_class[job.cls.id]
        self._reserved_anew()
        for reservation in reservations:
            number = reservation.worker.id
            self.reopened[number] = reservation.worker
            self.by_worker[number].remove(reservation)
            if not self.by_worker[number]:
                del self.by_worker[number]

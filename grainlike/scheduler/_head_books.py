"""All that a head keeps books of, and the moves that keep them even: what leaves one place comes to another.

A live job is in exactly one place: its class's queue, one worker's `held`, or among those that wait to be tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from grainlike.scheduler._backoff import Backoffs
from grainlike.scheduler._books import Function, Job, LeaseBook, Shape, WorkerBook
from grainlike.scheduler._catalogue import Catalogue
from grainlike.scheduler._events import HeadAction, JobsRequeued, ShapesForgotten
from grainlike.scheduler._families import Families
from grainlike.scheduler._laws import check_common_books
from grainlike.scheduler._planning import Planner
from grainlike.scheduler._states import JobState

__all__ = ["HeadBooks"]


class HeadBooks:
    """The books of one head. `seed` decides how much shorter jobs wait between attempts than they might."""

    __slots__ = ("backoffs", "catalogue", "families", "functions", "gangs", "jobs", "planner", "workers")

    def __init__(self, seed: int) -> None:
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, WorkerBook] = {}
        self.functions: dict[int, Function] = {}
        self.families = Families()
        self.backoffs = Backoffs(seed)
        self.catalogue = Catalogue(self.workers, self.families.trees)
        self.planner = Planner(self.workers, self.catalogue.classes, self.families)
        self.gangs = self.planner.gangs

    def lose_members(self) -> None:
        """A worker leaves, or refuses a shape for good."""
        self.planner.reserving.members += 1
        self.catalogue.doubt_all()

    def current(self, worker: WorkerBook, number: int, attempt: int) -> Job | None:
        """The job, if this worker holds it at this attempt; a late or foreign answer finds nothing."""
        job = worker.held.get(number)
        return job if job is not None and job.attempt == attempt else None

    def uncount(self, worker: WorkerBook, job: Job) -> None:
        """Undo how a planned or ahead job was counted. A leased one is counted by its lease, a gang by its holds."""
        if job.state is JobState.PLANNED:
            assert job.shape is not None
            if job.shape.nodes > 1:
                return
            worker.give(job.shape)
            self.planner.shares.give(job.cls.client, job.shape)
        elif job.state is JobState.AHEAD:
            worker.leave_ahead((job,))

    def let_go(self, worker: WorkerBook, job: Job, out: list[HeadAction]) -> None:
        """The worker holds the job no more, nor does any other that held slots for it."""
        self.uncount(worker, job)
        del worker.held[job.job]
        if job.family is not None:
            self.families.attempt_ended(job)
        shape = job.shape
        if shape is None:
            return
        if shape.rationed:
            self.planner.rations.give(shape)
        if shape.nodes > 1:
            self.gangs.disband(job, out)

    def take_lease(self, worker: WorkerBook, lease: int, shape: Shape, first: Job | None, now: float) -> None:
        """A worker granted a lease for what was not counted as planned."""
        book = worker.leases[lease] = LeaseBook(lease, shape, first, now)
        worker.take(shape)
        self.planner.shares.take(book.client, shape)

    def drop(self, job: Job) -> None:
        """A job has its outcome."""
        del self.jobs[job.job]
        if job.parent is not None:
            self.families.ended(job)

    def requeue(self, jobs: list[Job], out: list[HeadAction]) -> None:
        """Put jobs back to the front of their classes; cancelled ones are gone."""
        by_class: dict[int, list[Job]] = {}
        begun = [job.job for job in jobs if job.state is JobState.LEASED and not job.cancelled]
        if begun:
            out.append(JobsRequeued(begun))
        for job in jobs:
            if job.cancelled:
                del self.jobs[job.job]
            else:
                job.cls = self.catalogue.back(job.cls)
                by_class.setdefault(job.cls.cls, []).append(job)
        for group in by_class.values():
            cls = group[0].cls
            cls.put_back(group)
            self.catalogue.doubt(cls)
            self.planner.waiting.touch(cls)

    def forget_unused(self, out: list[HeadAction]) -> None:
        """Forget classes and shapes that no job uses, if they are many; workers are to hear of the shapes."""
        catalogue, waiting = self.catalogue, self.planner.waiting.count
        if not catalogue.is_full(waiting):
            return
        held = sum(len(worker.held) for worker in self.workers.values()) + len(self.backoffs)
        gone = catalogue.forget(waiting, self._shapes_at_work, held)
        if gone:
            self.planner.forget(gone)
            for worker in self.workers.values():
                worker.forget(gone)
            out.append(ShapesForgotten(gone))

    def _shapes_at_work(self) -> Iterator[Shape]:
        """The shapes of all that is at workers. Those of jobs may be needed again if the jobs come back."""
        for worker in self.workers.values():
            for job in worker.held.values():
                yield from job.cls.shapes
            for lease in worker.leases.values():
                yield lease.shape
            for hold in worker.holds.values():
                yield hold.shape
        for number in self.backoffs.jobs():
            yield from self.jobs[number].cls.shapes

    # --- laws --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless the laws of `HeadMind` hold. Costs a walk over everything; for tests."""
        places = Counter(self.backoffs.jobs())
        for cls in self.catalogue.classes.values():
            for job in cls.live():
                assert job.state is JobState.QUEUED, job.state
                assert job.cls is cls
                places[job.job] += 1
        for worker in self.workers.values():
            places.update(worker.held.keys())
            self._check_worker(worker)
        self.backoffs.check()
        assert places == dict.fromkeys(self.jobs, 1), "a live job is in exactly one place"
        self.planner.waiting.check()
        self.gangs.check(self.jobs.values(), self.workers.values())
        self._check_shapes()
        check_common_books(self.workers, self.catalogue.shapes, self.planner)

    def _check_shapes(self) -> None:
        """Each shape that a class or a job needs is known by its number, and workers may name it."""
        known = self.catalogue.shapes
        used = [shape for cls in self.catalogue.classes.values() for shape in cls.shapes]
        used += self._shapes_at_work()
        used += [job.shape for worker in self.workers.values() for job in worker.held.values() if job.shape is not None]
        assert all(known.get(shape.shape) is shape for shape in used), "a shape was forgotten that is in use"

    def _check_worker(self, worker: WorkerBook) -> None:
        for job in worker.held.values():
            assert job.worker == worker.worker
            assert (job.job in worker.ahead) == (job.state is JobState.AHEAD)
        assert Counter(job.cls.cls for job in worker.ahead.values()) == +Counter(worker.ahead_in)
        assert worker.lent == sum(lease.lent for lease in worker.leases.values()), worker.name
        used = dict.fromkeys(worker.capacity, 0)
        for shape in _counted(worker):
            for name, amount in shape.units:
                used[name] += amount
        if worker.lent:
            used["cores"] -= worker.lent
        for name, capacity in worker.capacity.items():
            assert worker.free[name] == capacity - used[name], (worker.name, name)


def _counted(worker: WorkerBook) -> list[Shape]:
    """What takes amounts of a worker."""
    planned = [job.shape for job in worker.held.values() if job.state is JobState.PLANNED and job.shape is not None]
    single = [shape for shape in planned if shape.nodes == 1]
    held = [hold.shape for hold in worker.holds.values() if not hold.lease]
    return single + held + [lease.shape for lease in worker.leases.values()]

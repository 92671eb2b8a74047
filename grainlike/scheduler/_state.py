"""State of the head scheduler, and the moves of jobs between places that keep its counts consistent.

A live job is in exactly one place: its class's queue, one worker's `held`, `backoffs`, or on its way to its inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from grainlike.scheduler._backoff import BackoffQueue
from grainlike.scheduler._catalogue import Catalogue
from grainlike.scheduler._events import HeadAction, JobsRequeued, RetractJobs, ShapesForgotten
from grainlike.scheduler._invariants import check_common_records, counted
from grainlike.scheduler._job_tree import JobTree
from grainlike.scheduler._records import HeadFunction, HeadJob, LeaseState, RequestClass, Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._planner import Planner
from grainlike.scheduler.values._homes import Homes
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._overdrafts import Overdrafts
from grainlike.scheduler.values._relocations import Relocations
from grainlike.scheduler.values._replication import SAFE_COPIES, Replication
from grainlike.scheduler.values._spares import Spares
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["SchedulerState"]


class SchedulerState:
    """All state of one head. `seed` seeds the jitter of the waits between attempts."""

    __slots__ = (
        "backoffs", "catalogue", "functions", "gangs", "homes", "job_tree", "jobs", "leaving", "overdrafts", "planner",
        "relocations", "replication", "spares", "transfers", "values", "workers",
    )  # fmt: skip

    def __init__(self, seed: int) -> None:
        self.jobs: dict[int, HeadJob] = {}
        self.workers: dict[int, WorkerState] = {}
        self.functions: dict[int, HeadFunction] = {}
        self.job_tree = JobTree()
        self.backoffs = BackoffQueue(seed)
        self.catalogue = Catalogue(self.workers, self.job_tree.trees)
        self.values = ValueTable(self.workers)
        self.transfers = Transfers(self.workers, self.values)
        self.leaving = Departures(self.workers, self.values, self.transfers)
        self.replication = Replication(self.workers, self.values, self.transfers, self.leaving)
        self.overdrafts = Overdrafts(self.workers, self.values, self.transfers, self.leaving)
        self.relocations = Relocations(self.workers, self.values, self.transfers, self.leaving)
        self.spares = Spares(self.values, self.leaving, self.overdrafts)
        self.homes = Homes(self.workers, self.catalogue, self.values, self.transfers)
        self.planner = Planner(self.workers, self.catalogue.classes, self.job_tree, self.transfers)
        self.gangs = self.planner.gangs

    def begin_values(self) -> None:
        """Make the parts that keep values at workers, for a state that comes from an image without them."""
        self.values = ValueTable(self.workers)
        self.transfers = Transfers(self.workers, self.values)
        self.homes = Homes(self.workers, self.catalogue, self.values, self.transfers)
        self.planner.begin_near(self.transfers)

    def begin_replication(self) -> None:
        """Make the parts that keep several replicas of values, for a state that comes from an image without them."""
        self.leaving = Departures(self.workers, self.values, self.transfers)
        self.replication = Replication(self.workers, self.values, self.transfers, self.leaving)
        self.overdrafts = Overdrafts(self.workers, self.values, self.transfers, self.leaving)
        self.relocations = Relocations(self.workers, self.values, self.transfers, self.leaving)
        self.spares = Spares(self.values, self.leaving, self.overdrafts)
        self.planner.begin_resting(self.transfers)
        self.values.stored = self.values.bytes_at(self.values.values)
        self.transfers.count_coming()
        self.planner.near.rooms = self.transfers.rooms
        self.planner.begin_consumers()
        for value in self.values.values.values():
            if len(value.users or ()) == 1:
                self.values.single[value.id] = value
        for value in self.values.values.values():
            if value.fn is not None and not value.fn.losses:
                self.replication.keep(value, SAFE_COPIES)
            self.values.shift(value)

    def lose_members(self) -> None:
        """Record that a worker leaves, or refuses a shape for good."""
        self.planner.reserving.members += 1
        self.catalogue.doubt_all()

    def current(self, worker: WorkerState, number: int, attempt: int) -> HeadJob | None:
        """Return the job if this worker holds it at this attempt; None for a late or foreign answer."""
        job = worker.held.get(number)
        return job if job is not None and job.attempt == attempt else None

    def uncount(self, worker: WorkerState, job: HeadJob) -> None:
        """Undo how a planned or ahead job was counted. A leased one is counted by its lease, a gang by its holds."""
        if job.state is JobState.PLANNED:
            assert job.shape is not None
            if job.shape.nodes > 1:
                return
            worker.give(job.shape)
            self.planner.shares.give(job.cls.client, job.shape)
        elif job.state is JobState.AHEAD:
            worker.leave_ahead((job,))

    def release(self, worker: WorkerState, job: HeadJob, out: list[HeadAction]) -> None:
        """Take a job from its worker, and release what other workers hold for it."""
        self.uncount(worker, job)
        del worker.held[job.id]
        if job.inputs:
            self.values.note_room()  # spare replicas that only this job used there may make way now
        if job.family is not None:
            self.job_tree.attempt_ended(job)
        shape = job.shape
        if shape is None:
            return
        if shape.rationed:
            self.planner.start_limits.give(shape)
        if shape.nodes > 1:
            self.gangs.disband(job, out)

    def take_lease(self, worker: WorkerState, lease: int, shape: Shape, first: HeadJob | None, now: float) -> None:
        """Record a lease whose amounts were not counted as planned."""
        worker_state = worker.leases[lease] = LeaseState(lease, shape, first, now)
        worker.take(shape)
        self.planner.shares.take(worker_state.client, shape)

    def drop(self, job: HeadJob) -> None:
        """Remove a job that has its outcome."""
        self.forget(job)
        if job.parent is not None:
            self.job_tree.ended(job)

    def forget(self, job: HeadJob) -> None:
        """Remove a job that has its outcome, or needs none, as it was cancelled."""
        del self.jobs[job.id]
        if job.rare is not None and job.rare.data is not None:
            self.values.end(job)

    def withdraw(self, job: HeadJob) -> None:
        """Remove a job that is at no worker, and can never run."""
        if job.state is JobState.QUEUED:
            self._take_out(job)
        self.backoffs.forget(job)
        self.drop(job)

    def queue_anew(self, jobs: list[HeadJob], out: list[HeadAction]) -> None:
        """Queue jobs where they belong, as they need less than before; those that wait to be tried again wait on."""
        for job in jobs:
            if job.state is JobState.QUEUED:
                self.planner.reserving.release(job)
                self._take_out(job)
            if not job.inputs:
                job.cls = self.catalogue.like(job.cls, job.cls.request, isolate=job.cls.isolate)
        self.requeue([job for job in jobs if job.state is not JobState.BACKOFF], out)

    def _take_out(self, job: HeadJob) -> None:
        """Take a job from its queue."""
        job.cls.remove(job)
        self.planner.waiting.touch(job.cls)

    def retract(self, jobs: list[HeadJob], worker: WorkerState, out: list[HeadAction]) -> None:
        """Ask a worker to give back those of these jobs that have not begun."""
        back = [job for job in jobs if job.state is not JobState.LEASED and not job.cancelled]
        back = [job for job in back if job.shape is not None and job.shape.nodes == 1 and job.id not in worker.recalled]
        if back:
            worker.recalled.update(job.id for job in back if job.state is JobState.AHEAD)
            out.append(RetractJobs(worker.id, [job.id for job in back], [job.attempt for job in back]))

    def requeue(self, jobs: list[HeadJob], out: list[HeadAction]) -> None:
        """Put jobs back to the front of their classes; drop cancelled ones."""
        begun = [job.id for job in jobs if job.state is JobState.LEASED and not job.cancelled]
        if begun:
            out.append(JobsRequeued(begun))
        left: list[HeadJob] = []
        for job in jobs:
            if job.cancelled:
                self.forget(job)
            else:
                job.cls = self.catalogue.back(job.cls)
                if job.own is not None:
                    job.cls.shapes[0].varied = True
                if self.homes.find(job):
                    left.append(job)
        self._put_back(left)

    def _put_back(self, jobs: list[HeadJob]) -> None:
        by_class: dict[int, list[HeadJob]] = {}
        if self.transfers.rooms.claims:
            self.transfers.rooms.wait_again(jobs)
        for job in jobs:
            by_class.setdefault(job.cls.id, []).append(job)
        for group in by_class.values():
            cls = group[0].cls
            if cls.near:
                self._awaken(cls)
            cls.put_back(group)
            self.catalogue.recheck(cls)
            self.planner.waiting.touch(cls)

    def queue_new(self, jobs: list[HeadJob]) -> None:
        """Queue new jobs that need values, which are in no queue, near those."""
        for job in jobs:
            if self.homes.find(job):
                self._awaken(job.cls)
                job.cls.insert(job)
                self.catalogue.recheck(job.cls)
                self.planner.waiting.touch(job.cls)

    def _awaken(self, cls: RequestClass) -> None:
        """Have a class of jobs that need values looked at for what may be sent ahead; restart its clocks."""
        self.planner.ahead.fresh.add(cls.id)
        if cls.head() is None:
            cls.blocked_since, cls.could_since = self.planner.near.now, None

    def split(self, cls: RequestClass) -> bool:
        """Move the queued jobs of a class that asked for less memory than it says to classes of their own requests, as
        no worker has room for the rounded amount. Return False if there are none.
        """
        varied = [job for job in cls.live() if job.own is not None]
        if not varied:
            return False
        rest = [job for job in cls.live() if job.own is None]
        cls.clear()
        cls.queue.extend(rest)
        for job in varied:
            exact = self.catalogue.like(cls, job.request, isolate=cls.isolate)
            if exact.head() is None:
                exact.blocked_since = cls.blocked_since
            job.cls, job.own = exact, None
        self._put_back([job for job in varied if self.homes.find(job)])
        self.planner.waiting.touch(cls)
        return True

    def split_unfit(self) -> None:
        """Split all classes that no worker has room for."""
        for cls in list(self.catalogue.classes.values()):
            if not self.catalogue.anybody_fits(cls):
                self.split(cls)

    def forget_unused(self, out: list[HeadAction]) -> None:
        """Drop classes and shapes that no job uses, if they are many; workers receive the numbers of the shapes."""
        catalogue, waiting = self.catalogue, self.planner.waiting.count
        if not catalogue.is_full(waiting):
            return
        held = sum(len(worker.held) for worker in self.workers.values()) + len(self.backoffs.waiting)
        gone = catalogue.forget(waiting, self._shapes_at_work, held)
        if gone:
            self.planner.forget(gone)
            for worker in self.workers.values():
                worker.forget(gone)
            out.append(ShapesForgotten(gone))

    def _shapes_at_work(self) -> Iterator[Shape]:
        """Return the shapes in use at workers, and those that jobs there or in backoff need if they are queued
        again.
        """
        for worker in self.workers.values():
            for job in worker.held.values():
                yield from job.cls.shapes
            for lease in worker.leases.values():
                yield lease.shape
            for hold in worker.holds.values():
                yield hold.shape
        away = [job for job in self.jobs.values() if job.state is JobState.MOVING] if self.values.values else []
        for job in [*self.backoffs.waiting.values(), *away]:
            yield from job.cls.shapes

    def decide_as(self, schema: int) -> None:
        """Decide by the rules of heads whose journals have that schema."""
        self.transfers.rules = self.transfers.rooms.rules = schema

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self, *, at_rest: bool) -> None:
        """Raise `AssertionError` unless the invariants of `HeadScheduler` hold; `at_rest`, also that no job waits that
        could go on, as no look at it is due. For tests: walks over everything.
        """
        places = [*self.backoffs.waiting]
        for cls in self.catalogue.classes.values():
            for job in cls.live():
                assert job.state is JobState.QUEUED, job.state
                assert job.cls is cls
                places.append(job.id)
        for worker in self.workers.values():
            places.extend(worker.held)
            self._check_worker(worker)
        places.extend(job.id for job in self.jobs.values() if job.state is JobState.MOVING)
        self.values.check(self.jobs)
        self.transfers.check(self.jobs)
        self.replication.check()
        self.spares.check()
        self.overdrafts.check()
        self.relocations.check()
        if at_rest and not self.relocations.under_way:
            self.transfers.rooms.check_at_rest()
        self.backoffs.check()
        assert len(places) == len(self.jobs), "a live job is in exactly one place"
        assert self.jobs.keys() == set(places), "a live job is in exactly one place"
        self.planner.check()
        self.gangs.check(self.jobs.values(), self.workers.values())
        self._check_shapes()
        check_common_records(self.workers, self.catalogue.shapes, self.planner)

    def _check_shapes(self) -> None:
        """Check that each shape that a class or a job needs is known by its number, as workers may name it."""
        known = self.catalogue.shapes
        used = {shape for cls in self.catalogue.classes.values() for shape in cls.shapes}
        used.update(self._shapes_at_work())
        for worker in self.workers.values():
            used.update(job.shape for job in worker.held.values() if job.shape is not None)
        assert all(known.get(shape.id) is shape for shape in used), "a shape was forgotten that is in use"

    def _check_worker(self, worker: WorkerState) -> None:
        for job in worker.held.values():
            assert job.worker == worker.id
            assert (job.id in worker.ahead) == (job.state is JobState.AHEAD)
        if worker.ahead or worker.ahead_in:
            assert Counter(job.cls.id for job in worker.ahead.values()) == +Counter(worker.ahead_in)
        assert worker.lent == sum(lease.lent for lease in worker.leases.values()), worker.name
        used = dict.fromkeys(worker.capacity, 0)
        for _, shape in counted(worker):
            for name, amount in shape.units:
                used[name] += amount
        if worker.lent:
            used["cores"] -= worker.lent
        for name, capacity in worker.capacity.items():
            assert worker.free[name] == capacity - used[name], (worker.name, name)

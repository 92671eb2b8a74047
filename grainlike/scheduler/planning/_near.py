"""Placing of jobs that need values: near most of their inputs, elsewhere where that is sooner.

A job starts wherever all its inputs are whole and there is room. Until then it waits near its preferred worker, to
which what is missing there moves at once. From when it could start elsewhere it waits for as long as moving its inputs
there would take, and no longer; then it goes to the worker with room that lacks fewest of them. So no knowledge of run
times is needed, and the wait is never longer than about twice what is best. Where run times are known they count: a
preferred worker that is busy for longer is not waited for, and one that will have done all that queues there sooner is.

On its way a job is MOVING, and holds nothing (`values._transfers`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from grainlike.scheduler._records import HeadJob, RequestClass, Shape
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import ChangeLog, WorkerState
from grainlike.scheduler.planning._candidates import Candidates
from grainlike.scheduler.planning._dormant import Look
from grainlike.scheduler.planning._reservation import Reservation
from grainlike.scheduler.values._homes import NEAR_BYTES
from grainlike.scheduler.values._transfers import Transfers
from grainlike.wire import Need

__all__ = ["NearPlacing"]

MOVE_S = 0.001
"""Seconds that moving takes beside the bytes."""

CONSIDERED = 8
"""Number of workers with room, the tightest, of which the one that lacks fewest bytes is chosen; besides those that
have some of them.
"""

_Admits = Callable[[WorkerState, HeadJob, Shape, float], bool]


class NearPlacing:
    """Places the jobs of classes that are near some worker. The arguments are the planner's own, not copies.

    Attributes:
        wake: when a job that was looked at may go elsewhere; None if it need not be looked at then.
        look: what the result of the last look at a class depends on, if that was in vain.
        now: the moment of the last pass.
        rooms: the room for copies of them.
        table: the values that are known.
        transfers: the copies of them that are under way.
    """

    def __init__(self, workers: dict[int, WorkerState], transfers: Transfers, log: ChangeLog, admits: _Admits) -> None:
        self.wake: float | None = None
        self.look = Look()
        self.now = 0.0
        self._workers = workers
        self.transfers = transfers
        self.rooms = transfers.rooms
        self.table = transfers.table
        self._log = log
        self._admits = admits
        self._elsewhere: dict[int, Candidates] = {}
        self._lacked_room = False
        """True if the last look found a worker with all inputs of a job whose room others are to have."""

    def forget(self, shape: int) -> None:
        """Drop what is known of a shape that no job asks for any more."""
        self._elsewhere.pop(shape, None)

    # --- where a job starts ------------------------------------------------------------------------------------------

    def start_on(self, job: HeadJob, shape: Shape, now: float) -> WorkerState | None:
        """Return a worker with all inputs of a job, and room for it: the preferred one, else the tightest fit."""
        best: WorkerState | None = None
        least = 0
        whole = self.table.whole_at(job.inputs)
        for number in whole:
            worker = self._workers[number]
            if not worker.fits_now(shape) or not self._admits(worker, job, shape, now):
                continue
            if not self.rooms.may_use(worker, job):
                self._lacked_room = True
                continue
            left = -1 if number == job.cls.near else worker.room_left(shape)
            if best is None or left < least:
                best, least = worker, left
        return best

    def has_inputs(self, job: HeadJob, worker: WorkerState) -> bool:
        """Return True if a worker has all inputs of a job."""
        return not self.table.missing(job.inputs, worker.id)

    def ready_at(self, cls: RequestClass, worker: WorkerState, most: int) -> int:
        """Return how many of the first jobs of a class, up to `most`, have all their inputs at a worker."""
        count = 0
        jobs = cls.live() if cls.early else (job for job in cls.queue if not job.cancelled)
        for job in islice(jobs, most):
            if self.table.missing(job.inputs, worker.id):
                break
            if not self.rooms.may_use(worker, job):
                break
            count += 1
        return count

    def needs(self, jobs: list[HeadJob]) -> tuple[list[Need], ...]:
        """Return the column of what each of these jobs needs; empty if none needs any."""
        if not any(job.cls.near for job in jobs):
            return ()
        for job in jobs:
            if job.data is not None:
                job.data.attempts = tuple(self.table.values[number].attempt for number in job.data.inputs)
        return tuple([self._need(number) for number in job.inputs] for job in jobs)

    def _need(self, number: int) -> Need:
        value = self.table.values[number]
        return Need(number, value.attempt, value.size)

    # --- where it goes to --------------------------------------------------------------------------------------------

    def send_off(self, cls: RequestClass, job: HeadJob, now: float) -> bool:
        """Take a job that can start nowhere from its queue, if it is time: towards its inputs, or with them to where
        there is room. Return False if it waits on.
        """
        self.wake = None
        self.look = look = Look()
        # Room that is lacking comes in too many ways to keep, and so does what consumers do.
        look.is_settled = not (self._lacked_room or self.table.crowded)
        self._lacked_room = False
        inputs = job.inputs
        if not self.table.all_can_be_had(inputs):
            cls.queue.popleft()
            self._park(job)
            return True
        near = self._preferred(cls)
        is_tight = near is not None and (job.fn.gives > near.store_left or job.tried is not None)
        if near is not None and is_tight and self.rooms.has_more_elsewhere(near, job) is not None:
            near = None  # it would not take the job
        if near is not None and self.table.missing(inputs, near.id):
            shape = next(shape for shape in cls.shapes if near.fits_ever(shape))
            # Where it would fit now, those behind it that claim room there wait for it; those before it do not.
            has_turn = self.transfers.has_turn(near, shape.units)
            has_turn = has_turn or (near.fits_now(shape) and self.transfers.goes_first(job, near, now))
            if has_turn and self._can_go(job, near, now) and self._has_room(near, job):
                self._send(cls, job, near, shape)
                return True
            if not has_turn:
                look.needs_turn(near.id, shape.units, or_room=True)
            if self.rooms.has_room(near, job):
                look.needs_room(near)
            else:
                look.is_settled = False
                near = None  # it is not waited for
        if any(shape.nodes > 1 and self.start_on(job, shape, now) for shape in cls.shapes):
            return False  # a gang whose leader could start waits for its other nodes
        for shape in cls.shapes:
            elsewhere = self._lacks_least(job, shape, now)
            if elsewhere is not None:
                if near is not None and not self._is_due(cls, job, shape, near, elsewhere, now):
                    return False
                self._send(cls, job, elsewhere, shape)
                return True
        cls.could_since = None
        able, with_room = self.rooms.fitting_now(job, self._is_open)
        if with_room is not None:
            look.needs_room(with_room)
        elif able:
            cls.queue.popleft()
            self.transfers.unclaim(job)
            self.rooms.park(job)
            return True
        return False

    def _preferred(self, cls: RequestClass) -> WorkerState | None:
        """Return the worker that jobs of a class wait for; None if they need not: it gets no jobs, or there is none."""
        worker = self._workers.get(cls.near)
        is_able = worker is not None and not worker.shut and any(worker.fits_ever(shape) for shape in cls.shapes)
        return worker if is_able else None

    def _is_due(
        self, cls: RequestClass, job: HeadJob, shape: Shape, near: WorkerState, elsewhere: WorkerState, now: float
    ) -> bool:
        """Return True if a job has waited as long for its preferred worker as moving its inputs elsewhere takes."""
        if self.table.total(job.inputs) <= NEAR_BYTES:
            return True
        if cls.could_since is None:
            cls.could_since = now
        seconds = self._cost(job, elsewhere, now)
        look, times, using = self.look, job.fn.times, near.using.get(shape.id, 0)
        look.elsewhere = elsewhere.id
        look.ends = elsewhere.too_late_from(job.fn, shape)
        if not self.transfers.reach.is_open(now):
            look.is_settled = False
        if times.known and using:
            if cls.queued * times.mean <= seconds * using:
                look.near, look.mean = near.id, seconds * using / cls.queued
                return False  # all that queues there will have begun before the bytes could be elsewhere
            if Reservation(job, shape, near, now).start > now + seconds:
                return True
            look.is_settled = False  # that moment moves with all that runs there
        due = cls.could_since + seconds
        if now >= due:
            return True
        if times.known:
            look.shape = near.id, shape.id
        else:
            look.when_known()
        self.wake = look.due = due
        return False

    def _cost(self, job: HeadJob, worker: WorkerState, now: float) -> float:
        """Return the seconds that moving a job's inputs to a worker takes."""
        return self.transfers.seconds(job.inputs, worker.id, now) + MOVE_S

    def due(self, job: HeadJob, now: float) -> float:
        """Return when the first job of a class may go elsewhere, if nothing changes; `now` for one that may."""
        since = job.cls.could_since
        options = [self._lacks_least(job, shape, now) for shape in job.cls.shapes]
        costs = [self._cost(job, worker, now) for worker in options if worker is not None]
        return now if since is None or not costs else max(now, since + min(costs))

    def _lacks_least(self, job: HeadJob, shape: Shape, now: float) -> WorkerState | None:
        """Return the worker to which a job may be sent now that lacks fewest bytes of its inputs; None without one."""
        candidates = self._elsewhere.get(shape.id)
        if candidates is None:
            candidates = self._elsewhere[shape.id] = Candidates(shape, self._workers, self._log, self._may_go)
        found = candidates.tightest(CONSIDERED, job, now)
        for number in self.table.bytes_at(job.inputs):
            worker = self._workers[number]
            if worker not in found and worker.fits_now(shape) and self._may_go(worker, job, shape, now):
                found.append(worker)
        lacks = self.table.missing
        return min(found, key=lambda worker: (lacks(job.inputs, worker.id), worker.room_left(shape)), default=None)

    def _may_go(self, worker: WorkerState, job: HeadJob, shape: Shape, now: float) -> bool:
        """Return True if a job may be sent to a worker with room for it, with its inputs."""
        if not self.transfers.has_turn(worker, shape.units):
            self.look.needs_turn(worker.id, shape.units, or_room=False)
            return False
        may_start = self._admits(worker, job, shape, now) and self.table.missing(job.inputs, worker.id)
        return bool(may_start) and self._can_go(job, worker, now) and self._has_room(worker, job)

    def _has_room(self, worker: WorkerState, job: HeadJob) -> bool:
        """Return True if a worker has room for what it lacks of a job's inputs; else keep what there will be for it."""
        if self.rooms.has_room(worker, job):
            self.look.needs_room(worker)
            return True
        self.rooms.claim(worker, job)
        self.look.is_settled = False
        return False

    def _can_go(self, job: HeadJob, worker: WorkerState, now: float) -> bool:
        """Return True if somebody can give the worker each input that it lacks, now or when there is a turn."""
        until = self.transfers.input_rests(job, worker.id, now)
        if until:
            self.look.is_settled = False
            self.wake = until if self.wake is None else min(self.wake, until)
        return not until

    def _is_open(self, worker: WorkerState, job: HeadJob) -> bool:
        return self.transfers.may_wait_for(worker, job, self.now)

    def _send(self, cls: RequestClass, job: HeadJob, worker: WorkerState, shape: Shape) -> None:
        assert job.data is not None
        cls.queue.popleft()
        self.transfers.unclaim(job)
        job.state, job.data.claim = JobState.MOVING, shape.units
        self.transfers.send(job, worker)

    def _park(self, job: HeadJob) -> None:
        self.transfers.unclaim(job)
        job.state = JobState.MOVING
        self.table.park(job)

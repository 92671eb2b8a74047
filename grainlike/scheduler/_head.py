"""The head scheduler: assigns jobs to workers, and decides when a job is done, lost or tried again.

Invariants (checked by `HeadScheduler.check` in tests after every step):

1. A live job is in exactly one place: its class's queue, one worker's `held`, or among those that wait to be tried
   again. 2. For each worker and resource: free == capacity - planned jobs - holds for gangs - leases + what leases
   have lent. 3. Only an answer of the worker that holds a job, for its current attempt, changes the job. 4. Of a class
   the oldest job is assigned first, as old as its oldest input; a job that comes back goes to the front. 5. A gang that
   is placed has a hold, or its leader's lease, on each of its workers, and on no other. 6. Limits and shares count
   what is planned, held or leased, and nothing else (`_invariants`).

This module handles the events. The policy of a pass is in `planning` (`_planner`, `_reservations`, `_ahead`), with the
life of a gang (`_gangs`); retries are in `_attempts`, deadlocks in `_deadlock_watch`, the moves of jobs from place to
place in `_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grainlike._deferred import RecordTable
from grainlike.resources import Missing, Request
from grainlike.scheduler._attempts import RetryPolicy
from grainlike.scheduler._deadlock_watch import DeadlockWatch
from grainlike.scheduler._events import (
    CancelJobs,
    FunctionDefined,
    FunctionsDropped,
    FunctionTimed,
    HeadAction,
    HeadEvent,
    JobsCancelled,
    JobsCommitted,
    JobsDeadlocked,
    JobsMoved,
    JobsOrphaned,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    StartsPaused,
    Ticked,
    WakeAt,
    WorkerEvent,
    WorkerLost,
    WorkerReported,
)
from grainlike.scheduler._explain import explain, nothing_arrived
from grainlike.scheduler._explanation import Explanation
from grainlike.scheduler._gang_events import GangEvents
from grainlike.scheduler._job_tree import deepest_first
from grainlike.scheduler._records import HeadFunction, HeadJob, LeaseState, RequestClass, Shape, enter
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import TINY_S
from grainlike.scheduler._warnings import complain
from grainlike.scheduler._worker_events import WorkerEvents
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._start_limits import StartLimits
from grainlike.scheduler.values._values import Values
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait, Wait

__all__ = ["HeadScheduler"]

_NO_PARENT = (0, 0)
_SUCCEEDED = Code.SUCCEEDED
_PLANNED, _AHEAD, _LEASED = JobState.PLANNED, JobState.AHEAD, JobState.LEASED


class HeadScheduler:
    """Scheduler of one head. `closed`: no worker joins after a job was submitted, so a job that none can run fails at
    once. `seed` seeds the jitter of the waits between attempts.

    Example::

        scheduler = HeadScheduler(closed=False)
        scheduler.handle(FunctionDefined(fn=1), now=0.0)
        scheduler.handle(WorkerJoined(1, "n1", offer), now=0.0)
        scheduler.handle(JobsSubmitted(Cores(1), jobs=[1], fns=[1]), now=0.0)   # [AssignJobs(worker=1, ...)]
    """

    paused: str
    """The reason why no job is assigned for now; empty while jobs are."""

    def __init__(self, *, closed: bool, seed: int = 0) -> None:
        self.paused = ""
        self.closed = closed
        self.late: int = 0
        """Count of answers for attempts that are no longer current, such as those of a worker that was given up."""
        self._state = state = SchedulerState(seed)
        self.jobs: dict[int, HeadJob] = state.jobs
        self.workers: dict[int, WorkerState] = state.workers
        self.classes: dict[int, RequestClass] = state.catalogue.classes
        self.shapes: dict[int, Shape] = state.catalogue.shapes
        """Shapes by number; workers name them by it."""
        self._catalogue = state.catalogue
        self._functions = state.functions
        self._job_tree = state.job_tree
        self._planner = state.planner
        self._gangs = state.gangs
        self._attempts = RetryPolicy(state, closed=closed)
        self._gang_events = GangEvents(state, self._attempts)
        self._values = Values(state)
        self._worker_events = WorkerEvents(state, self._attempts, self._values)
        self._standstill = DeadlockWatch(state, closed=closed)
        self._now = 0.0
        self._wake: float | None = None

    def handle(self, event: HeadEvent, now: float) -> list[HeadAction]:
        """Handle one event; return the actions to perform, in order."""
        out: list[HeadAction] = []
        self._now = now
        # The most frequent events stand first: each class pattern that does not match costs an isinstance call.
        match event:
            case WorkerReported():
                self._reported(event, now, out)
                if not (event.completed or event.ended or event.waits) and self._planner.is_settled:
                    return out  # leases began as planned: nothing that a pass looks at has changed
            case JobsSubmitted():
                self._submitted(event, now, out)
                if event.more and not self._state.values.unsettled:
                    return out
            case FunctionDefined() | FunctionTimed() | FunctionsDropped() | JobsCommitted():
                self._record(event)
                return out
            case JobsCancelled():
                self._cancelled(event.jobs, out)
            case WorkerLost():
                self._worker_lost(event, out)
            case StartsPaused():
                self.paused = event.why
                if not self.paused:  # gangs whose workers have all answered meanwhile go first
                    out += self._gang_events.withheld()
            case Ticked():
                self._wake = None
            case _:
                if not isinstance(event, WorkerEvent):
                    self._values.handle(event, now, out)
                elif self._worker_events.handle(event, now, out) and self.closed:
                    self._fail_impossible(out)
        self._follow_up(now, out, ticked=isinstance(event, Ticked))
        return out

    def _record(self, event: FunctionDefined | FunctionTimed | FunctionsDropped | JobsCommitted) -> None:
        """Record what no pass looks at."""
        match event:
            case FunctionDefined():
                self._functions[event.fn] = HeadFunction(event)
            case FunctionTimed():
                self._functions[event.fn].times.add(event.walls)
            case FunctionsDropped():
                for fn in event.fns:
                    del self._functions[fn]
            case JobsCommitted():
                for job in filter(None, map(self.jobs.get, event.jobs)):
                    job.remembered().committed = True

    def _follow_up(self, now: float, out: list[HeadAction], *, ticked: bool) -> None:
        """Do what follows from an event, or is due by now: jobs are queued, then started, then values are moved."""
        if self._job_tree.orphans:
            self._end_orphans(out)
        if self._state.backoffs.waiting:
            self._try_again(out)
        if self._attempts.quarantine.records or self._attempts.isolated:
            self._wake_at(self._attempts.release(now, out), out)
        if self._gangs.assembling:
            self._gang_events.hurry(now, out)
        leaving, transfers = self._state.leaving, self._state.transfers
        if leaving.wake is not None and leaving.wake <= now:
            self._values.watch(now)
        if self._state.values.unsettled:
            self._settle_values(out)
        if not self.paused:
            self._start_jobs(now, out, ticked=ticked)
        if leaving.held:
            leaving.release(now, out)
        if leaving.wake is not None:
            self._wake_at(leaving.wake, out)
        if transfers.is_due or (transfers.wake is not None and transfers.wake <= now):
            transfers.start(now, out)
        if transfers.wake is not None:
            self._wake_at(transfers.wake, out)
        if self._gangs.assembling:
            self._wake_at(self._gangs.due, out)
        if self._catalogue.doubted:
            self._wake_at(complain(self._state, now, out), out)
        if self._catalogue.may_be_full:
            self._state.forget_unused(out)

    def _start_jobs(self, now: float, out: list[HeadAction], *, ticked: bool) -> None:
        """Start jobs that fit, and make room for the inputs of those that lack it."""
        rooms = self._state.transfers.rooms
        if rooms.parked or rooms.refusals:
            self._values.make_use_of_room(now, out, goes_on=ticked)
        self._planner.plan(now, out)
        if rooms.without_room or self._state.overdrafts.workers or self._state.overdrafts.still is not None:
            self._wake_at(self._values.make_room(now, out), out)
        while self._values.are_unsettled():  # jobs whose turn came have inputs that no worker has
            self._settle_values(out)
            self._planner.plan(now, out)
        if rooms.without_room or self._values.room_wake or rooms.parked or rooms.refusals:
            self._wake_at(self._values.next_look(now), out)
        if self._job_tree.waiting and self._planner.whole:
            self._end_standstill(now, out)
        if self._planner.wake is not None:
            self._wake_at(self._planner.wake, out)

    def begin_values(self) -> None:
        """Make the parts that keep values at workers, for a scheduler that comes from an image without them."""
        self._state.begin_values()
        self._gang_events = GangEvents(self._state, self._attempts)
        self.begin_replication()

    def begin_replication(self) -> None:
        """Make the parts that keep several replicas of values, for a scheduler of an image without them."""
        self._state.begin_replication()
        self._values = Values(self._state)
        self._worker_events = WorkerEvents(self._state, self._attempts, self._values)

    def decide_as(self, schema: int) -> None:
        """Decide as heads whose journals have that schema: only so the replay of a log leads to the same state."""
        self._state.decide_as(schema)

    @property
    def wakes_at(self) -> float | None:
        """Time of the last `WakeAt`, until it has come; None without one."""
        return self._wake

    @property
    def in_backoff(self) -> int:
        """Number of jobs that wait to be tried again."""
        return len(self._state.backoffs.waiting)

    def running(self, worker: int) -> int:
        """Return how many jobs a worker has started and not ended."""
        return sum(job.state is JobState.LEASED for job in self.workers[worker].held.values())

    def may_go(self, worker: int) -> bool:
        """Return True if a worker has no job, and is not held for values that only it has."""
        return self.workers[worker].is_idle and not self._state.leaving.holds(worker)

    def why_shut(self, worker: int) -> str:
        """Return why a worker gets no jobs, for now or for good; empty for one that does."""
        ends = ["it is to end when its jobs have"] if self.workers[worker].draining else []
        return "; ".join([*self.workers[worker].shut.values(), *ends])

    @property
    def start_limits(self) -> StartLimits:
        """Limits and rates, and what they have left."""
        return self._planner.start_limits

    def replicas_of(self, value: int) -> tuple[int, ...]:
        """Return the numbers of the workers that have a value whole; empty where none has, or it is not known."""
        found = self._state.values.values.get(value)
        return () if found is None else found.replicas

    def stored(self) -> dict[int, int]:
        """Return the bytes of values that stay at each worker which has any."""
        return dict(self._state.values.stored)

    @property
    def values_known(self) -> int:
        """Number of values that somebody needs, or that others may be made of again, and of their copies under way."""
        return len(self._state.values.values) + len(self._state.transfers.known) + len(self._state.transfers.claims)

    @property
    def largest_value(self) -> int:
        """Bytes of the largest value that the store of some worker could hold."""
        return self._state.transfers.rooms.largest()

    def why_lost(self, value: int) -> str:
        """Return why a value has no replica and cannot be made again; an empty text if it has one, or can."""
        return self._values.why_lost(value)

    def why_few(self, value: int, failure: str = "") -> str:
        """Return why a value has fewer replicas than it should; an empty text if it has enough."""
        return self._state.replication.why_few(value, failure)

    def pace(self, fn: int) -> float | None:
        """Return the mean seconds of a function whose jobs are known to be tiny and never to wait, else None."""
        times = self._functions[fn].times
        return times.mean if times.known and not times.awaits and times.upper <= TINY_S else None

    def explain(self, job: int, now: float, arrived: Callable[[int, int], int] = nothing_arrived) -> Explanation | None:
        """Return the state of a job, and what it waits for; None for one that has ended, or never was."""
        found, here = self.jobs.get(job), self.workers.values()
        return None if found is None else explain(found, here, self._planner, self.why_never, now, self.paused, arrived)

    def defer_records(self) -> None:
        """Make records of jobs as late as can be from now on: for a head whose state is never written down."""
        self.jobs = self._state.jobs = RecordTable()

    def assembles(self, job: int) -> bool:
        """Return True for the job of a gang of which not all workers have granted their slots yet: it does not run."""
        return job in self._gangs.assembling

    def fits_somebody(self, request: Request) -> bool:
        """Return True if the connected workers could ever give what the request asks for."""
        return self._catalogue.fits_somebody(request)

    def why_never(self, request: Request) -> Missing | None:
        """Return what is missing or short; None if amounts suffice and only the layout cannot be given."""
        return self._catalogue.why_never(request)

    def check(self) -> None:
        """Raise `AssertionError` unless the invariants above hold. For tests: walks over everything."""
        self._state.check(at_rest=not self.paused and self._wake is None)

    # --- jobs come and go --------------------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted, now: float, out: list[HeadAction]) -> None:
        parent = None if event.parent == _NO_PARENT else self._parent(event)
        if parent is None and event.parent != _NO_PARENT:
            out.append(JobsOrphaned(event.jobs))
            return
        root = 0 if parent is None else parent.root
        client = event.client if parent is None else parent.cls.client
        cls = self._catalogue.class_for(client, event.request, event.priority, isolate=event.isolate, root=root)
        if self.closed and not self._catalogue.anybody_fits(cls):
            out.append(JobsUnsatisfiable(event.jobs, self.why_never(event.request)))
            if parent is not None:
                self._job_tree.refused(parent, len(event.jobs))
            return
        if cls.head() is None:
            cls.blocked_since = now
            self._catalogue.check_new(cls, at_once=not event.more, fits=self.closed)
        self._planner.ahead.fresh.add(cls.id)
        jobs = enter(self.jobs, event, cls, self._functions, parent)
        if event.inputs:
            cls.add(*self._values.admit(jobs, event, out))
        else:
            cls.add(jobs, event.ages)
        if cls.place is None or root or cls.early:
            self._planner.waiting.touch(cls)
        if parent is not None:
            self._job_tree.adopt(parent, jobs)

    def _settle_values(self, out: list[HeadAction]) -> None:
        """Draw what follows for values; cancel the jobs that make again what nothing needs."""
        while self._state.values.unsettled:
            self._cancelled(self._values.settle(self._now, out, closed=self.closed), out)
            if self.closed and self._values.revived:
                self._values.revived = False
                self._fail_impossible(out)

    def _parent(self, event: JobsSubmitted) -> HeadJob | None:
        """Return the job that submits, if its attempt still runs."""
        number, attempt = event.parent
        job = self.jobs.get(number)
        return job if job is not None and job.attempt == attempt and job.state is JobState.LEASED else None

    def _cancelled(self, numbers: Iterable[int], out: list[HeadAction]) -> None:
        to_stop: dict[int, list[HeadJob]] = {}
        for number in numbers:
            job = self.jobs.get(number)
            if job is None or job.cancelled:
                continue
            job.cancelled = True
            job.remembered().cancelled_at = self._now
            self._job_tree.unwanted(job)
            if job.state is JobState.QUEUED:
                self._state.forget(job)
                self._planner.waiting.touch(job.cls)
            elif job.state in (JobState.BACKOFF, JobState.MOVING):
                self._state.backoffs.forget(job)
                self._state.forget(job)
            elif (gang := self._gangs.of(job)) is not None and not gang.assembled:
                self._gang_events.take_apart(job, out)
                self._state.forget(job)
            else:
                to_stop.setdefault(job.worker, []).append(job)
        for worker, jobs in to_stop.items():
            out.append(CancelJobs(worker, [job.id for job in jobs], [job.attempt for job in jobs]))

    def _end_orphans(self, out: list[HeadAction]) -> None:
        """Cancel the jobs that ended attempts had submitted."""
        named, self._job_tree.orphans = self._job_tree.orphans, []
        orphans = [number for number in named if number in self.jobs]
        if orphans:
            self._cancelled(orphans, out)
            out.append(JobsOrphaned(orphans))

    # --- reports of workers ------------------------------------------------------------------------------------------

    def _reported(self, event: WorkerReported, now: float, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            self.late += sum(len(completed.jobs) for completed in event.completed)
            return
        for start in event.started:
            self._lease_started(worker, start, now, out)
        for completed in event.completed:
            self._completed(worker, completed, out)
            if self._job_tree.orphans:  # the rest of this report must not count for them
                self._end_orphans(out)
        for lease in event.ended:
            worker_state = worker.leases.pop(lease, None)
            if worker_state is not None:
                if worker_state.lent:
                    worker.reclaim(worker_state)
                worker.give(worker_state.shape)
                self._planner.shares.give(worker_state.client, worker_state.shape)
        for wait in event.waits:
            self._waited(worker, wait, out)

    def _waited(self, worker: WorkerState, wait: LeaseWait, out: list[HeadAction]) -> None:
        job = self._state.current(worker, wait.job, wait.attempt)
        self._job_tree.note(worker, job, wait)
        if job is not None and not job.cancelled and wait.waits == Wait.NOTHING:
            out.append(JobsMoved(job.id, wait.allocation))

    def _lease_started(self, worker: WorkerState, start: LeaseStart, now: float, out: list[HeadAction]) -> None:
        if worker.holds and self._gang_events.granted(worker, start, now, out, paused=bool(self.paused)):
            return
        shape = self.shapes[start.cls]
        held, attempts = worker.held, start.attempts
        rows: list[int] = []
        waited: list[HeadJob] = []
        first: HeadJob | None = None
        planned = False
        for row, number in enumerate(start.jobs):
            job = held.get(number)
            if job is None or job.attempt != attempts[row]:
                continue
            if job.state is _AHEAD:
                waited.append(job)
            elif job.state is _PLANNED and job.shape is shape and not planned and shape.nodes == 1:
                planned, first = True, job  # the lease takes over the amounts that the planned job was counted with
            else:
                self._state.uncount(worker, job)
            job.state = _LEASED
            if first is None:
                first = job
            if not job.cancelled:
                rows.append(row)
        if waited:
            worker.leave_ahead(waited)
        if start.lease in worker.leases:  # a gang's hold, on which its job runs now
            worker.leases[start.lease].begun = now
        elif planned:
            worker.leases[start.lease] = LeaseState(start.lease, shape, first, now)
        else:
            self._state.take_lease(worker, start.lease, shape, first, now)
        if rows:
            out.append(JobsStarted(worker.id, start, rows))

    def _completed(self, worker: WorkerState, completed: Completed, out: list[HeadAction]) -> None:
        rows: list[int] = []
        back: list[HeadJob] = []
        release: set[tuple[int, int]] = set()
        if worker.holds:
            release = worker.holds.keys() & zip(completed.jobs, completed.attempts, strict=True)
            self._gang_events.holds_ended(worker, completed, out, back)
        walls: dict[HeadFunction, list[float]] = {}
        samples: list[float] = []
        fn: HeadFunction | None = None
        attempts, codes, wall = completed.attempts, completed.codes, completed.wall
        jobs, held, calm = self.jobs, worker.held, not self._attempts.quarantine.doubts_starts(worker.name)
        made = self._values.records(worker, completed) if completed.sizes else []
        if completed.gone:
            self._values.missed(worker, completed, out)
        for row, number in enumerate(completed.jobs):
            job = held.get(number)
            if job is None or job.attempt != attempts[row]:
                self.late += attempts[row] > 0 and (number, attempts[row]) not in release
                continue
            shape = job.shape
            if (
                calm
                and codes[row] == _SUCCEEDED
                and job.state is _LEASED
                and job.rare is None
                and not job.cancelled
                and shape is not None
                and shape.plain
            ):  # fast path: as `_attempt_ended`, without the cases and the calls that a plain job does not need
                del held[number], jobs[number]
                if job.fn is not fn:
                    fn = job.fn
                    samples = walls.setdefault(fn, [])
                samples.append(wall[row])
                rows.append(row)
                continue
            calm = False  # this end may start a quarantine, in which later successes of the batch have to be noted
            if self._attempt_ended(worker, job, completed, row, walls, out, back):
                rows.append(row)
        for timed, samples in walls.items():
            timed.times.add(samples)
            timed.times.awaits |= completed.awaited
        if made:
            self._values.born(worker, completed, made, rows, self._now, out)
        if back:
            self._state.requeue(back, out)
        if self.closed and (back or Code.UNFIT in codes):
            self._fail_impossible(out)
        if rows:
            out.append(JobsSettled(worker.id, completed, rows))

    def _attempt_ended(
        self,
        worker: WorkerState,
        job: HeadJob,
        completed: Completed,
        row: int,
        walls: dict[HeadFunction, list[float]],
        out: list[HeadAction],
        back: list[HeadJob],
    ) -> bool:
        """Handle any end of an attempt; return True if it is the job's outcome. `back` gets jobs to queue at once."""
        code, attempt, shape, attempts = completed.codes[row], job.attempt, job.shape, self._attempts
        gang = self._gangs.of(job) if shape is not None and shape.nodes > 1 else None
        self._state.release(worker, job, out)
        if code == Code.SUCCEEDED:
            walls.setdefault(job.fn, []).append(completed.wall[row])
            if shape is not None and shape.group is not None:
                shape.group.add([completed.wall[row]])
            if attempts.quarantine.records:
                attempts.quarantine.succeeded(worker.name, self._now)
        if job.cancelled:
            self._state.forget(job)
        elif code != Code.SUCCEEDED and gang is not None and gang.broken is not None:
            self._gang_events.broke(job, gang, worker, self._now, out, back)
        elif code != Code.SUCCEEDED and attempts.runs_again(job, shape, code, worker, completed, self._now, out, back):
            # Answers about holds carry the attempt, so a gang that is placed again needs a new one.
            job.attempt += gang is not None and job.attempt == attempt
        else:
            self._state.drop(job)
            return True
        return False

    def _try_again(self, out: list[HeadAction]) -> None:
        """Return jobs whose backoff is over to the front of their classes."""
        due = self._state.backoffs.due(self._now)
        self._state.requeue(due, out)
        self._planner.ahead.fresh.update(job.cls.id for job in due)
        if due and self.closed:
            self._fail_impossible(out)
        self._wake_at(self._state.backoffs.next, out)

    # --- losses ------------------------------------------------------------------------------------------------------

    def _worker_lost(self, event: WorkerLost, out: list[HeadAction]) -> None:
        worker = self.workers.pop(event.worker, None)
        if worker is None:
            return
        worker.gone = True
        self._state.lose_members()
        self._values.left(worker, self._now, out)
        for lease in worker.leases.values():
            self._planner.shares.give(lease.client, lease.shape)
        back: list[HeadJob] = []
        if not worker.stops and any(job.state is JobState.LEASED for job in worker.held.values()):
            self._attempts.strike(worker, "losses", self._now, out)
        for job in sorted(worker.held.values(), key=deepest_first):  # children before the parents that wait for them
            leased = job.state is JobState.LEASED
            self._state.release(worker, job, out)
            if job.cancelled:
                self._state.forget(job)
            elif job.committed or (leased and not worker.stops) or not job.fn.losses:
                self._attempts.lost(job, worker, event.reason, self._now, out, back, suspect=False)
            else:
                job.attempt += 1  # it may have started, and the report was lost
                back.append(job)
        for hold in worker.holds.values():
            unasked = not hold.released
            self._gangs.ended(hold)
            if unasked:
                self._gang_events.break_up(hold, event.reason, out, back)
        self._catalogue.left(worker)
        self._state.requeue(back, out)
        if self.closed:
            self._fail_impossible(out)

    # --- what can never run ------------------------------------------------------------------------------------------

    def _fail_impossible(self, out: list[HeadAction]) -> None:
        self._end_orphans(out)
        self._state.split_unfit()
        for cls in self.classes.values():
            live = cls.live()
            if live and not self._catalogue.anybody_fits(cls):
                cls.clear()
                self._planner.waiting.touch(cls)
                for job in live:
                    self._state.drop(job)
                out.append(JobsUnsatisfiable([job.id for job in live], self.why_never(cls.request)))
        if self._state.values.values:
            self._values.misfits.recheck()
            for job in [job for job in self.jobs.values() if job.state is JobState.MOVING]:
                if not self._catalogue.anybody_fits(job.cls):
                    self._state.drop(job)
                    out.append(JobsUnsatisfiable([job.id], self.why_never(job.cls.request)))

    def _end_standstill(self, now: float, out: list[HeadAction]) -> None:
        """Look for deadlocks among jobs that wait for jobs of their own; fail one job for a deadlock that stands."""
        deadlock = self._standstill.look(now, out)
        self._wake_at(self._standstill.wake, out)
        if deadlock is not None:
            self._give_up(self.jobs[deadlock.job], out)
            out.append(JobsDeadlocked(deadlock, failed=True))

    def _give_up(self, job: HeadJob, out: list[HeadAction]) -> None:
        """Fail a job that can never start; its parent receives the outcome."""
        if job.state is JobState.QUEUED:
            self._state.withdraw(job)
        else:
            self._job_tree.ended(job)
            job.cancelled = True
            out.append(CancelJobs(job.worker, [job.id], [job.attempt]))

    def _wake_at(self, at: float | None, out: list[HeadAction]) -> None:
        if at is not None and (self._wake is None or at < self._wake):
            self._wake = at
            out.append(WakeAt(at))

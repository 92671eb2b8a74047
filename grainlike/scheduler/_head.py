"""The head's mind: which job goes to which worker, and when a job is done, lost or tried again.

Laws (checked by `HeadScheduler.check` in tests after every step):

1. A live job is in exactly one place: its class's queue, one worker's `held`, or among those that wait to be tried
   again. 2. For each worker and resource: free == capacity - planned jobs - holds for gangs - leases + what leases
   have lent. 3. Only an answer of the worker that holds a job, for its current attempt, changes the job. 4. Jobs of a
   class are assigned first in, first out; a job that comes back goes to the front. 5. A gang that is placed has a
   hold, or its leader's lease, on each of its workers; nobody else has one. 6. Limits and shares count what is
   planned, held or leased, and nothing else (`_laws`).

The policy of a pass stands in `_planning`, `_reserving` and `_ahead`, the life of a gang in `_gangs`, what is forgiven
in `_attempts`, who waits for ever in `_standstill`; the moves from place to place in `_head_books`. Here stands what
events mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from grainlike.resources import Allocation, Missing, Request
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
    WorkerDrained,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.scheduler._explain import Explanation, explain
from grainlike.scheduler._records import GangHold, HeadFunction, HeadJob, LeaseState, WorkerState
from grainlike.scheduler._scale_hint import wanted
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import TINY_S
from grainlike.scheduler._warnings import complain
from grainlike.scheduler.planning._gangs import PlacedGang
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait, Wait

__all__ = ["HeadScheduler"]

_NO_PARENT = (0, 0)

_SUCCEEDED = Code.SUCCEEDED
_AHEAD, _LEASED = JobState.AHEAD, JobState.LEASED


class HeadScheduler:
    """Decides for one head. `closed` says that no worker will ever join that is not here when a job is submitted.
    `seed` decides all chance: how much shorter jobs wait between attempts than they might.

    Example::

        mind = HeadMind(closed=False)
        mind.handle(FunctionDefined(fn=1), now=0.0)
        mind.handle(WorkerJoined(1, "n1", offer), now=0.0)
        mind.handle(JobsSubmitted(Cores(1), jobs=[1], fns=[1]), now=0.0)   # [AssignJobs(worker=1, ...)]
    """

    paused: str
    """Why no job is assigned for now; empty while jobs are."""

    def __init__(self, *, closed: bool, seed: int = 0) -> None:
        self.paused = ""
        self.closed = closed
        self.late = 0
        """How many answers came for attempts that count no more, as from a worker that was given up."""
        self._state = books = SchedulerState(seed)
        self.jobs = books.jobs
        self.workers = books.workers
        self.classes = books.catalogue.classes
        self.shapes = books.catalogue.shapes
        """What travels to workers by number."""
        self._catalogue = books.catalogue
        self._functions = books.functions
        self._job_tree = books.job_tree
        self._planner = books.planner
        self._gangs = books.gangs
        self._attempts = RetryPolicy(books, closed=closed)
        self._standstill = DeadlockWatch(books, closed=closed)
        self._now = 0.0
        self._wake: float | None = None

    def handle(self, event: HeadEvent, now: float) -> list[HeadAction]:
        """Take one event; return what to do, in order."""
        out: list[HeadAction] = []
        self._now = now
        # What comes most often stands first: to find that a event is of another type takes a call of its own.
        match event:
            case WorkerReported():
                self._reported(event, now, out)
                if not (event.completed or event.ended or event.waits) and self._planner.is_settled:
                    return out  # leases began as planned: nothing that a pass looks at has changed
            case FunctionDefined():
                self._functions[event.fn] = HeadFunction(event)
                return out
            case FunctionTimed():
                self._functions[event.fn].times.add(event.walls)
                return out
            case FunctionsDropped():
                for fn in event.fns:
                    del self._functions[fn]
                return out
            case JobsSubmitted():
                self._submitted(event, now, out)
                if event.more:
                    return out
            case JobsCancelled():
                self._cancelled(event.jobs, out)
            case JobsCommitted():
                for number in event.jobs:
                    if number in self.jobs:
                        self.jobs[number].remembered().committed = True
                return out
            case WorkerJoined():
                self.workers[event.worker] = WorkerState(event.worker, event.name, event.offer, now, self._planner.log)
                self._planner.reserving.joined(self.workers[event.worker])
                self._attempts.isolate(self.workers[event.worker], now, out)
            case WorkerLeaving():
                self._leaving(event, out)
            case WorkerDrained():
                self._drained(event, out)
            case WorkerSuspected():
                self._suspected(event, out)
            case WorkerHeard():
                if event.worker in self.workers:
                    self.workers[event.worker].heard_again(now)
            case WorkerLost():
                self._worker_lost(event, out)
            case StartsPaused():
                self._pause(event, out)
            case Ticked():
                self._wake = None
        if self._job_tree.orphans:
            self._end_orphans(out)
        if self._state.backoffs:
            self._try_again(out)
        if self._attempts.quarantine or self._attempts.isolated:
            self._wake_at(self._attempts.release(now, out), out)
        if self._gangs.assembling:
            self._hurry_gangs(now, out)
        if not self.paused:
            self._planner.plan(now, out)
            if self._job_tree.waiting and self._planner.whole:
                self._end_standstill(now, out)
            self._wake_at(self._planner.wake, out)
        if self._gangs.assembling:
            self._wake_at(self._gangs.due, out)
        self._wake_at(complain(self._state, now, out), out)
        if self._catalogue.may_be_full:
            self._state.forget_unused(out)
        return out

    @property
    def wakes_at(self) -> float | None:
        """The moment of the last `WakeAt`, while it has not come."""
        return self._wake

    def running(self, worker: int) -> int:
        """How many jobs a worker has started and not ended."""
        return sum(job.state is JobState.LEASED for job in self.workers[worker].held.values())

    def why_shut(self, worker: int) -> str:
        """Why a worker gets no jobs for now, or none any more; empty for one that does."""
        worker_state = self.workers[worker]
        return "; ".join(
            [*worker_state.shut.values(), *(["it is to end when its jobs have"] if worker_state.draining else [])]
        )

    def wanted(self, offer: Allocation, most: int, within_s: float) -> int:
        """How many more workers with this offer would help; see `_wanted`."""
        workers = list(self.workers.values())
        return wanted(self.classes.values(), workers, self._planner.start_limits, offer, most, within_s)

    def oldest(self, most: int | None) -> list[HeadJob]:
        """The books of the jobs that have not ended, the oldest first, at most so many."""
        return list(islice(self.jobs.values(), most))

    def pace(self, fn: int) -> float | None:
        """Mean seconds of a function whose jobs are known to be tiny and never to wait; None for any other."""
        times = self._functions[fn].times
        return times.mean if times.known and not times.awaits and times.upper <= TINY_S else None

    def explain(self, job: int, now: float) -> Explanation | None:
        """Where a job stands and what it waits for; None for one that has ended, or never was."""
        found = self.jobs.get(job)
        if found is None:
            return None
        why_never = lambda: self.why_never(found.cls.request)  # noqa: E731
        return explain(found, self.workers.values(), self._planner, why_never, now, self.paused)

    def assembles(self, job: int) -> bool:
        """Whether a job is a gang whose workers hold slots for it and have not all answered: it does not run yet."""
        return job in self._gangs.assembling

    def fits_somebody(self, request: Request) -> bool:
        """Whether the workers that are here could ever give what this asks for."""
        return self._catalogue.fits_somebody(request)

    def why_never(self, request: Request) -> Missing | None:
        """What is missing or short; None where amounts would do, not the layout."""
        return self._catalogue.why_never(request)

    def check(self) -> None:
        """Raise `AssertionError` unless the laws above hold. Costs a walk over everything; for tests."""
        self._state.check()

    # --- jobs come and go --------------------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted, now: float, out: list[HeadAction]) -> None:
        parent = self._parent(event)
        if parent is None and event.parent != _NO_PARENT:
            out.append(JobsOrphaned(event.jobs))
            return
        root = 0 if parent is None else parent.root
        client = event.client if parent is None else parent.cls.client
        cls = self._catalogue.class_of(client, event.request, event.priority, isolate=event.isolate, root=root)
        if self.closed and not self._catalogue.anybody_fits(cls):
            out.append(JobsUnsatisfiable(event.jobs, self.why_never(cls.request)))
            if parent is not None:
                self._job_tree.refused(parent, len(event.jobs))
            return
        if cls.head() is None:
            cls.blocked_since = now
            self._catalogue.doubt(cls)
        self._planner.ahead.fresh.add(cls.id)
        functions = self._functions
        jobs = [HeadJob(number, cls, functions[fn], parent) for number, fn in zip(event.jobs, event.fns, strict=True)]
        self.jobs.update(zip(event.jobs, jobs, strict=True))
        cls.queue.extend(jobs)
        if cls.place is None or root:
            self._planner.waiting.touch(cls)
        if parent is not None:
            for job in jobs:
                self._job_tree.adopt(parent, job)

    def _parent(self, event: JobsSubmitted) -> HeadJob | None:
        """The job that submits, if its attempt is still under way."""
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
                del self.jobs[number]
                self._planner.waiting.touch(job.cls)
            elif job.state is JobState.BACKOFF:
                self._state.backoffs.forget(job)
                del self.jobs[number]
            elif (gang := self._gangs.of(job)) is not None and not gang.assembled:
                self._take_apart(job, out)
                del self.jobs[number]
            else:
                to_stop.setdefault(job.worker, []).append(job)
        for worker, jobs in to_stop.items():
            out.append(CancelJobs(worker, [job.id for job in jobs], [job.attempt for job in jobs]))

    def _end_orphans(self, out: list[HeadAction]) -> None:
        """Cancel what ended attempts had submitted."""
        named, self._job_tree.orphans = self._job_tree.orphans, []
        orphans = [number for number in named if number in self.jobs]
        if orphans:
            self._cancelled(orphans, out)
            out.append(JobsOrphaned(orphans))

    # --- what workers say --------------------------------------------------------------------------------------------

    def _reported(self, event: WorkerReported, now: float, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            self.late += sum(len(completed.jobs) for completed in event.completed)
            return
        for start in event.started:
            self._lease_started(worker, start, now, out)
        for completed in event.completed:
            self._completed(worker, completed, out)
            if self._job_tree.orphans:  # what this report says of them is nobody's business any more
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
        if worker.holds and self._granted(worker, start, now, out):
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
            elif job.state is JobState.PLANNED and job.shape is shape and not planned and shape.nodes == 1:
                planned, first = True, job  # what it was counted as, its lease is counted as now
            else:
                self._state.uncount(worker, job)
            job.state = _LEASED
            if first is None:
                first = job
            if not job.cancelled:
                rows.append(row)
        if waited:
            worker.leave_ahead(waited)
        if start.lease in worker.leases:  # held for a gang, whose job now runs on it
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
            self._holds_ended(worker, completed, out, back)
        walls: dict[HeadFunction, list[float]] = {}
        samples: list[float] = []
        fn: HeadFunction | None = None
        attempts, codes, wall = completed.attempts, completed.codes, completed.wall
        jobs, held, calm = self.jobs, worker.held, not self._attempts.quarantine.doubts_starts(worker.name)
        for row, number in enumerate(completed.jobs):
            job = held.get(number)
            if job is None or job.attempt != attempts[row]:
                self.late += attempts[row] > 0 and (number, attempts[row]) not in release
                continue
            code = codes[row]
            shape = job.shape
            if (
                calm
                and code == _SUCCEEDED
                and job.state is _LEASED
                and job.rare is None
                and not job.cancelled
                and shape is not None
                and shape.plain
            ):  # most jobs end here; it is what follows, less what does not concern them
                del held[number], jobs[number]
                if job.fn is not fn:
                    fn = job.fn
                    samples = walls.setdefault(fn, [])
                samples.append(wall[row])
                rows.append(row)
                continue
            calm = False  # what comes now may speak against the worker
            gang = self._gangs.of(job) if shape is not None and shape.nodes > 1 else None
            self._state.release(worker, job, out)
            if code == Code.SUCCEEDED:
                walls.setdefault(job.fn, []).append(completed.wall[row])
                if shape is not None and shape.group is not None:
                    shape.group.add([completed.wall[row]])
                if self._attempts.quarantine:
                    self._attempts.quarantine.succeeded(worker.name, self._now)
            if job.cancelled:
                del self.jobs[job.id]
            elif code == Code.SUCCEEDED:
                self._state.drop(job)
                rows.append(row)
            elif gang is not None and gang.broken is not None:
                self._broke(job, gang, worker, out, back)
            elif self._attempts.runs_again(job, shape, code, worker, completed, self._now, out, back):
                # An answer of a hold names it by the attempt, so a gang never waits for a second time with the same.
                job.attempt += gang is not None and job.attempt == attempts[row]
            else:
                self._state.drop(job)
                rows.append(row)
        for timed, samples in walls.items():
            timed.times.add(samples)
            timed.times.awaits |= completed.awaited
        if back:
            self._state.requeue(back, out)
        if self.closed and (back or Code.UNFIT in codes):
            self._fail_impossible(out)
        if rows:
            out.append(JobsSettled(worker.id, completed, rows))

    def _try_again(self, out: list[HeadAction]) -> None:
        """Jobs that have waited long enough go to the front of their classes."""
        due = self._state.backoffs.due(self._now)
        self._state.requeue(due, out)
        self._planner.ahead.fresh.update(job.cls.id for job in due)
        if due and self.closed:
            self._fail_impossible(out)
        self._wake_at(self._state.backoffs.next, out)

    # --- gangs -------------------------------------------------------------------------------------------------------

    def _granted(self, worker: WorkerState, start: LeaseStart, now: float, out: list[HeadAction]) -> bool:
        """Take a lease that is held for a gang; False if it is another's."""
        hold = worker.holds.get((start.jobs[0], start.attempts[0]))
        if hold is None:
            return False
        worker.give(hold.shape)
        self._planner.shares.give(hold.job.cls.client, hold.shape)
        self._state.take_lease(worker, start.lease, hold.shape, hold.job, now)
        assignment = self._gangs.granted(hold, start.lease, start.allocation, paused=bool(self.paused))
        if assignment is not None:
            out.append(assignment)
        return True

    def _holds_ended(
        self, worker: WorkerState, completed: Completed, out: list[HeadAction], back: list[HeadJob]
    ) -> None:
        """A worker says of which gangs it holds slots no more. One that was not told to let go breaks its gang."""
        for named, code in zip(zip(completed.jobs, completed.attempts, strict=True), completed.codes, strict=True):
            hold = worker.holds.pop(named, None)
            if hold is None:
                continue
            unasked = not hold.released
            self._gangs.ended(hold)
            if code == Code.UNFIT:
                worker.refuse(hold.shape)
                self._state.lose_members()
            if unasked:
                self._break(hold, f"worker {worker.name} let go of its slots", out, back)

    def _break(self, hold: GangHold, reason: str, out: list[HeadAction], back: list[HeadJob]) -> None:
        """A gang has lost one of its nodes: it waits anew, once its job, if that was assigned, has ended."""
        job = hold.job
        gang = self._gangs.of(job)
        assert gang is not None
        if not gang.assembled:
            self._take_apart(job, out)
            job.attempt += 1
            back.append(job)
        elif gang.broken is None:
            gang.broken, gang.lost = reason, not hold.worker.stops
            if not job.cancelled:
                out.append(CancelJobs(job.worker, [job.id], [job.attempt]))

    def _broke(
        self, job: HeadJob, gang: PlacedGang, worker: WorkerState, out: list[HeadAction], back: list[HeadJob]
    ) -> None:
        """The job of a broken gang has ended without a value."""
        if gang.lost and gang.broken is not None:
            self._attempts.lost(job, worker, gang.broken, self._now, out, back, suspect=False)
        else:
            job.attempt += 1
            back.append(job)

    def _take_apart(self, job: HeadJob, out: list[HeadAction]) -> None:
        """Everybody lets go of a gang whose job was not assigned yet; it is nowhere then."""
        self._state.release(self.workers[job.worker], job, out)

    def _hurry_gangs(self, now: float, out: list[HeadAction]) -> None:
        """Half-assembled gangs make room for the one that goes first."""
        late = self._gangs.overdue(now)
        for job in late:
            self._take_apart(job, out)
            job.attempt += 1
        self._state.requeue(late, out)

    # --- losses ------------------------------------------------------------------------------------------------------

    def _leaving(self, event: WorkerLeaving, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is not None:
            worker.leave()
            self._state.lose_members()
            if self.closed:
                self._fail_impossible(out)

    def _drained(self, event: WorkerDrained, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is None or worker.leaving:
            return
        worker.drain()
        self._state.lose_members()
        self._planner.ahead.recall_all(worker, out)
        if self.closed:
            self._fail_impossible(out)

    def _suspected(self, event: WorkerSuspected, out: list[HeadAction]) -> None:
        """It keeps what it has. What was sent ahead of free slots comes back if others have room (`_retract`)."""
        worker = self.workers.get(event.worker)
        if worker is not None:
            worker.shut_for("suspect", "its link has broken" if event.broke else "it is silent")
            if event.broke:
                self._attempts.strike(worker, "links", self._now, out)

    def _worker_lost(self, event: WorkerLost, out: list[HeadAction]) -> None:
        worker = self.workers.pop(event.worker, None)
        if worker is None:
            return
        worker.gone = True
        self._state.lose_members()
        for lease in worker.leases.values():
            self._planner.shares.give(lease.client, lease.shape)
        back: list[HeadJob] = []
        if not worker.stops and any(job.state is JobState.LEASED for job in worker.held.values()):
            self._attempts.strike(worker, "losses", self._now, out)
        for job in sorted(worker.held.values(), key=_deepest_first):  # nobody outlives the job that waits for it
            leased = job.state is JobState.LEASED
            self._state.release(worker, job, out)
            if job.cancelled:
                del self.jobs[job.id]
            elif job.committed or (leased and not worker.stops) or not job.fn.losses:
                self._attempts.lost(job, worker, event.reason, self._now, out, back, suspect=False)
            else:
                job.attempt += 1  # it may have started unheard
                back.append(job)
        for hold in worker.holds.values():
            unasked = not hold.released
            self._gangs.ended(hold)
            if unasked:
                self._break(hold, event.reason, out, back)
        for number in worker.using:
            self.shapes[number].users.pop(worker.id, None)
        self._state.requeue(back, out)
        if self.closed:
            self._fail_impossible(out)

    def _pause(self, event: StartsPaused, out: list[HeadAction]) -> None:
        """Assign nothing for now; or assign again, first the gangs whose workers have answered meanwhile."""
        self.paused = event.why
        if not self.paused:
            out += self._gangs.withheld()

    # --- what can never run ------------------------------------------------------------------------------------------

    def _fail_impossible(self, out: list[HeadAction]) -> None:
        self._end_orphans(out)
        for cls in self.classes.values():
            live = cls.live()
            if live and not self._catalogue.anybody_fits(cls):
                cls.queue.clear()
                self._planner.waiting.touch(cls)
                for job in live:
                    self._state.drop(job)
                out.append(JobsUnsatisfiable([job.id for job in live], self.why_never(cls.request)))

    def _end_standstill(self, now: float, out: list[HeadAction]) -> None:
        """Jobs wait for jobs of their own: see to it that one of them can go on, or tell one that it never will."""
        deadlock = self._standstill.look(now, out)
        self._wake_at(self._standstill.wake, out)
        if deadlock is not None:
            self._give_up(self.jobs[deadlock.job], out)
            out.append(JobsDeadlocked(deadlock, failed=True))

    def _give_up(self, job: HeadJob, out: list[HeadAction]) -> None:
        """Take a job that can never start from where it waits; its parent is told."""
        if job.state is JobState.QUEUED:
            job.cls.queue.remove(job)
            self._planner.waiting.touch(job.cls)
            self._state.drop(job)
        else:
            self._job_tree.ended(job)
            job.cancelled = True
            out.append(CancelJobs(job.worker, [job.id], [job.attempt]))

    def _wake_at(self, at: float | None, out: list[HeadAction]) -> None:
        if at is not None and (self._wake is None or at < self._wake):
            self._wake = at
            out.append(WakeAt(at))


def _deepest_first(job: HeadJob) -> tuple[int, int]:
    """And of those at the same depth who came first, in whichever order they came to the worker."""
    return -job.depth, job.id

"""The head's mind: which job goes to which worker, and when a job is done, lost or tried again.

Laws (checked by `HeadMind.check` in tests after every step):

1. A live job is in exactly one place: its class's queue, one worker's `held`, or among those that wait to be tried
   again. 2. For each worker and resource: free == capacity - planned jobs - holds for gangs - leases + what leases
   have lent. 3. Only an answer of the worker that holds a job, for its current attempt, changes the job. 4. Jobs of a
   class are assigned first in, first out; a job that comes back goes to the front. 5. A gang that is placed has a
   hold, or its leader's lease, on each of its workers; nobody else has one. 6. Limits and shares count what is
   planned, held or leased, and nothing else (`_laws`).

The policy of a pass stands in `_planning`, the life of a gang in `_gangs`; here stands what events mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from grainlike.resources import Missing, Request, missing
from grainlike.scheduler._backoff import Backoffs
from grainlike.scheduler._books import Function, Hold, Job, LeaseBook, RequestClass, Shape, WorkerBook
from grainlike.scheduler._deadlock import find_deadlock
from grainlike.scheduler._events import (
    MAX_LOSSES,
    CancelJobs,
    FunctionDefined,
    FunctionTimed,
    HeadAction,
    HeadEvent,
    JobsBackedOff,
    JobsCancelled,
    JobsCommitted,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    Ticked,
    WakeAt,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerQuarantined,
    WorkerReleased,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.scheduler._explain import Explanation, explain
from grainlike.scheduler._families import Families, stands_still
from grainlike.scheduler._gangs import Gang
from grainlike.scheduler._laws import check_common_books
from grainlike.scheduler._planning import Planner
from grainlike.scheduler._quarantine import Quarantine, Strike
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import TINY_S, RunTimes
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait, Wait

__all__ = ["HeadMind"]

_NO_PARENT = (0, 0)

NOBODY_S = 5.0
"""How long jobs may wait for a first worker before that is worth a warning."""

STUCK_S = 5.0
"""How long jobs that wait for each other are left so for a worker that might join; how often it is looked whether some
do while others run."""


class HeadMind:
    """Decides for one head. `closed` says that no worker will ever join that is not here when a job is submitted.
    `seed` decides all chance: how much shorter jobs wait between attempts than they might.

    Example::

        mind = HeadMind(closed=False)
        mind.handle(FunctionDefined(fn=1), now=0.0)
        mind.handle(WorkerJoined(1, "n1", offer), now=0.0)
        mind.handle(JobsSubmitted(Cores(1), jobs=[1], fns=[1]), now=0.0)   # [AssignJobs(worker=1, ...)]
    """

    def __init__(self, *, closed: bool, seed: int = 0) -> None:
        self.closed = closed
        self._now = 0.0
        self._backoffs = Backoffs(seed)
        self._quarantine = Quarantine()
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, WorkerBook] = {}
        self.classes: dict[int, RequestClass] = {}
        self.shapes: dict[int, Shape] = {}
        """What travels to workers by number."""
        self.late = 0
        """How many answers came for attempts that count no more, as from a worker that was given up."""
        self._functions: dict[int, Function] = {}
        self._class_ids: dict[tuple[int, Request, int, bool, int], RequestClass] = {}
        self._last_class = 0
        self._sweep_at = 8
        self._groups: dict[str, RunTimes] = {}
        self._shape_ids: dict[tuple[Request, bool], Shape] = {}
        self._families = Families()
        self._planner = Planner(self.workers, self.classes, self._families)
        self._gangs = self._planner.gangs
        self._stuck_since: float | None = None
        self._look_at: float | None = None
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
                self._functions[event.fn] = Function(event)
                return out
            case FunctionTimed():
                self._functions[event.fn].times.add(event.walls)
                return out
            case JobsSubmitted():
                self._submitted(event, now, out)
            case JobsCancelled():
                self._cancelled(event.jobs, out)
            case JobsCommitted():
                for number in event.jobs:
                    if number in self.jobs:
                        self.jobs[number].committed = True
                return out
            case WorkerJoined():
                self.workers[event.worker] = WorkerBook(event.worker, event.name, event.offer, now, self._planner.log)
                self._planner.members += 1
                self._isolate(self.workers[event.worker], out)
            case WorkerLeaving():
                self._leaving(event, out)
            case WorkerSuspected():
                self._suspected(event, out)
            case WorkerHeard():
                if event.worker in self.workers:
                    self.workers[event.worker].open_again("suspect")
            case WorkerLost():
                self._worker_lost(event, out)
            case Ticked():
                self._wake = None
        if self._families.orphans:
            self._end_orphans(out)
        if self._backoffs:
            self._try_again(out)
        if self._quarantine:
            self._release(now, out)
        if self._gangs.assembling:
            self._hurry_gangs(now, out)
        self._planner.plan(now, out)
        if self._families.waiting:
            self._unlock(now, out)
        if self._gangs.assembling:
            self._wake_at(self._gangs.due, out)
        self._wake_at(self._planner.wake, out)
        self._complain(now, out)
        return out

    @property
    def wakes_at(self) -> float | None:
        """The moment of the last `WakeAt`, while it has not come."""
        return self._wake

    def running(self, worker: int) -> int:
        """How many jobs a worker has started and not ended."""
        return sum(job.state is JobState.LEASED for job in self.workers[worker].held.values())

    def why_shut(self, worker: int) -> str:
        """Why a worker gets no jobs for now; empty for one that does."""
        return "; ".join(self.workers[worker].shut.values())

    def oldest(self, most: int | None) -> list[Job]:
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
        return explain(found, self.workers.values(), self._planner, lambda: self._why_never(found.cls), now)

    def assembles(self, job: int) -> bool:
        """Whether a job is a gang whose workers hold slots for it and have not all answered: it does not run yet."""
        return job in self._gangs.assembling

    def fits_somebody(self, request: Request) -> bool:
        """Whether the workers that are here could ever give what this asks for."""
        return any(self._fits_somewhere(self._shape(option, isolate=False)) for option in request.options)

    def why_never(self, request: Request) -> Missing | None:
        """What is missing or short; None where amounts would do, not the layout."""
        return missing(request, [(worker.name, worker.offer) for worker in self._staying()])

    def class_of(self, client: int, request: Request, priority: int, *, isolate: bool, root: int = 0) -> RequestClass:
        """The interned class of a request, in the tree `root` if it is not the program's own."""
        key = (client, request, priority, isolate, root)
        found = self._class_ids.get(key)
        if found is None:
            shapes = tuple(self._shape(option, isolate=isolate) for option in request.options)
            self._last_class += 1
            found = RequestClass(self._last_class, client, request, priority, shapes, isolate=isolate, root=root)
            if root and len(self._families.trees) > self._sweep_at:
                self._sweep()
            self._know(found)
        return found

    def _know(self, cls: RequestClass) -> None:
        self._class_ids[cls.client, cls.request, cls.priority, cls.isolate, cls.root] = self.classes[cls.cls] = cls
        if cls.root:
            self._families.trees.setdefault(cls.root, []).append(cls)

    def _sweep(self) -> None:
        """Forget the classes of trees that have ended, when there are twice as many as after the last time.

        A job of such a tree may still run somewhere, and come back: `_requeue` brings its class back then.
        """
        trees = self._families.trees
        for root in [root for root in trees if root not in self.jobs]:
            for cls in [cls for cls in trees[root] if cls.head() is None]:
                trees[root].remove(cls)
                del self.classes[cls.cls]
                del self._class_ids[cls.client, cls.request, cls.priority, cls.isolate, root]
            if not trees[root]:
                del trees[root]
        self._sweep_at = 8 + 2 * len(trees)

    def _shape(self, request: Request, *, isolate: bool) -> Shape:
        found = self._shape_ids.get((request, isolate))
        if found is None:
            name = request.walltime_group
            group = None if name is None else self._groups.setdefault(name, RunTimes())
            found = Shape(len(self.shapes) + 1, request, group, isolate=isolate)
            self._shape_ids[request, isolate] = self.shapes[found.shape] = found
        return found

    # --- jobs come and go --------------------------------------------------------------------------------------------

    def _submitted(self, event: JobsSubmitted, now: float, out: list[HeadAction]) -> None:
        parent = self._parent(event)
        if parent is None and event.parent != _NO_PARENT:
            out.append(JobsOrphaned(event.jobs))
            return
        root = 0 if parent is None else parent.root
        client = event.client if parent is None else parent.cls.client
        cls = self.class_of(client, event.request, event.priority, isolate=event.isolate, root=root)
        if self.closed and not self._anybody_fits(cls):
            out.append(JobsUnsatisfiable(event.jobs, self._why_never(cls)))
            if parent is not None:
                self._families.refused(parent, len(event.jobs))
            return
        if cls.head() is None:
            cls.blocked_since = now
        self._planner.fresh.add(cls.cls)
        functions = self._functions
        for number, fn in zip(event.jobs, event.fns, strict=True):
            job = self.jobs[number] = Job(number, cls, functions[fn], parent)
            cls.queue.append(job)
            if parent is not None:
                self._families.adopt(parent, job)

    def _parent(self, event: JobsSubmitted) -> Job | None:
        """The job that submits, if its attempt is still under way."""
        number, attempt = event.parent
        job = self.jobs.get(number)
        return job if job is not None and job.attempt == attempt and job.state is JobState.LEASED else None

    def _cancelled(self, numbers: Iterable[int], out: list[HeadAction]) -> None:
        to_stop: dict[int, list[Job]] = {}
        for number in numbers:
            job = self.jobs.get(number)
            if job is None or job.cancelled:
                continue
            job.cancelled, job.cancelled_at = True, self._now
            self._families.unwanted(job)
            if job.state is JobState.QUEUED:
                del self.jobs[number]
            elif job.state is JobState.BACKOFF:
                self._backoffs.forget(job)
                del self.jobs[number]
            elif (gang := self._gangs.of(job)) is not None and not gang.assembled:
                self._take_apart(job, out)
                del self.jobs[number]
            else:
                to_stop.setdefault(job.worker, []).append(job)
        for worker, jobs in to_stop.items():
            out.append(CancelJobs(worker, [job.job for job in jobs], [job.attempt for job in jobs]))

    def _end_orphans(self, out: list[HeadAction]) -> None:
        """Cancel what ended attempts had submitted."""
        named, self._families.orphans = self._families.orphans, []
        orphans = [number for number in named if number in self.jobs]
        if orphans:
            self._cancelled(orphans, out)
            out.append(JobsOrphaned(orphans))

    def _drop(self, job: Job) -> None:
        """A job has its outcome."""
        del self.jobs[job.job]
        if job.parent is not None:
            self._families.ended(job)

    def _requeue(self, jobs: list[Job]) -> None:
        """Put jobs back to the front of their classes; cancelled ones are gone."""
        by_class: dict[int, list[Job]] = {}
        for job in jobs:
            if job.cancelled:
                del self.jobs[job.job]
            else:
                by_class.setdefault(job.cls.cls, []).append(job)
        for number, group in by_class.items():
            cls = group[0].cls
            if number not in self.classes:
                self._know(cls)
            cls.put_back(group)

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
        for lease in event.ended:
            book = worker.leases.pop(lease, None)
            if book is not None:
                if book.lent:
                    worker.reclaim(book)
                worker.give(book.shape)
                self._planner.shares.give(book.client, book.shape)
        for wait in event.waits:
            self._waited(worker, wait, out)

    def _waited(self, worker: WorkerBook, wait: LeaseWait, out: list[HeadAction]) -> None:
        job = self._current(worker, wait.job, wait.attempt)
        self._families.note(worker, job, wait)
        if job is not None and not job.cancelled and wait.waits == Wait.NOTHING:
            out.append(JobsMoved(job.job, wait.allocation))

    def _lease_started(self, worker: WorkerBook, start: LeaseStart, now: float, out: list[HeadAction]) -> None:
        if worker.holds and self._granted(worker, start, now, out):
            return
        shape = self.shapes[start.cls]
        rows: list[int] = []
        first: Job | None = None
        planned = False
        for row, number in enumerate(start.jobs):
            job = self._current(worker, number, start.attempts[row])
            if job is None:
                continue
            if job.state is JobState.PLANNED and job.shape is shape and not planned and shape.nodes == 1:
                planned, first = True, job  # what it was counted as, its lease is counted as now
            else:
                self._leave_books(worker, job)
            job.state, job.lease = JobState.LEASED, start.lease
            first = first or job
            if not job.cancelled:
                rows.append(row)
        if start.lease in worker.leases:  # held for a gang, whose job now runs on it
            worker.leases[start.lease].begun = now
        elif planned:
            worker.leases[start.lease] = LeaseBook(start.lease, shape, first, now)
        else:
            self._take_lease(worker, start.lease, shape, first, now)
        if rows:
            out.append(JobsStarted(worker.worker, start, rows))

    def _take_lease(self, worker: WorkerBook, lease: int, shape: Shape, first: Job | None, now: float) -> None:
        book = worker.leases[lease] = LeaseBook(lease, shape, first, now)
        worker.take(shape)
        self._planner.shares.take(book.client, shape)

    def _completed(self, worker: WorkerBook, completed: Completed, out: list[HeadAction]) -> None:
        rows: list[int] = []
        back: list[Job] = []
        let_go: set[tuple[int, int]] = set()
        if worker.holds:
            let_go = worker.holds.keys() & zip(completed.jobs, completed.attempts, strict=True)
            self._holds_ended(worker, completed, out, back)
        walls: dict[Function, list[float]] = {}
        attempts, codes = completed.attempts, completed.codes
        for row, number in enumerate(completed.jobs):
            job = self._current(worker, number, attempts[row])
            if job is None:
                self.late += attempts[row] > 0 and (number, attempts[row]) not in let_go
                continue
            code = codes[row]
            shape = job.shape
            gang = self._gangs.of(job) if shape is not None and shape.nodes > 1 else None
            self._let_go(worker, job, out)
            if code == Code.SUCCEEDED:
                walls.setdefault(job.fn, []).append(completed.wall[row])
                if shape is not None and shape.group is not None:
                    shape.group.add([completed.wall[row]])
                if self._quarantine:
                    self._quarantine.succeeded(worker.name, self._now)
            if job.cancelled:
                del self.jobs[job.job]
            elif code == Code.SUCCEEDED:
                self._drop(job)
                rows.append(row)
            elif gang is not None and gang.broken is not None:
                self._broke(job, gang, worker, out, back)
            elif self._runs_again(job, shape, code, worker, completed, out, back):
                # An answer of a hold names it by the attempt, so a gang never waits for a second time with the same.
                job.attempt += gang is not None and job.attempt == attempts[row]
            else:
                self._drop(job)
                rows.append(row)
        for fn, samples in walls.items():
            fn.times.add(samples)
        if completed.awaited:
            for fn in walls:
                fn.times.awaits = True
        if back:
            self._requeue(back)
        if self.closed and (back or Code.UNFIT in codes):
            self._fail_impossible(out)
        if rows:
            out.append(JobsSettled(worker.worker, completed, rows))

    def _runs_again(
        self,
        job: Job,
        shape: Shape | None,
        code: int,
        worker: WorkerBook,
        completed: Completed,
        out: list[HeadAction],
        back: list[Job],
    ) -> bool:
        """Whether an attempt that ended this way is not the job's end; if so, it is in `back` or lost for good."""
        if code == Code.UNFIT and shape is not None:
            worker.refuse(shape)
            self._planner.members += 1
        if code in (Code.RETURNED, Code.UNFIT):
            back.append(job)
            return True
        if code == Code.UNSTARTED:
            how = completed.details.get(job.job, "no process could be started")
            self._strike(worker, "starts", out, f"a job could not be started there: {how}")
            if self.closed:  # nobody else will come who could
                self._lost(job, worker, how, out, back, suspect=False, most=max(job.fn.losses, MAX_LOSSES - 1))
            else:
                job.attempt += 1
                back.append(job)
            return True
        if code == Code.CRASHED and completed.unborn:
            self._strike(worker, "starts", out, "a process died there before it had begun anything")
        if code == Code.CRASHED:
            how = completed.details.get(job.job, "its runner died")
            self._lost(job, worker, how, out, back)
            return True
        if job.committed:
            return False
        if code == Code.STOPPED and not job.fn.losses:
            self._lost(job, worker, "it was stopped", out, back)
            return True
        if code == Code.STOPPED or (code == Code.OUT_OF_MEMORY and self._grows(job)):
            job.attempt += 1
            back.append(job)
            return True
        if job.retries > 0 and _may_repeat(job, code, completed):
            job.retries -= 1
            job.attempt += 1
            self._back_off(job, out, back)
            return True
        return False

    def _back_off(self, job: Job, out: list[HeadAction], back: list[Job]) -> None:
        """A job is to be tried again: later, if its function says so."""
        seconds = self._backoffs.wait(job, self._now) if job.state is JobState.LEASED else None
        if seconds is None:
            back.append(job)
        else:
            out.append(JobsBackedOff([job.job], seconds))

    def _try_again(self, out: list[HeadAction]) -> None:
        """Jobs that have waited long enough go to the front of their classes."""
        due = self._backoffs.due(self._now)
        self._requeue(due)
        self._planner.fresh.update(job.cls.cls for job in due)
        if due and self.closed:
            self._fail_impossible(out)
        self._wake_at(self._backoffs.next, out)

    def _grows(self, job: Job) -> bool:
        """Give a job that ran out of memory the next larger request, if it has one that somebody here could grant."""
        grown = job.cls.request.grown()
        if grown is None:
            return False
        cls = self._class_like(job.cls, grown, isolate=job.cls.isolate)
        if self.closed and not self._anybody_fits(cls):
            return False
        job.cls = cls
        return True

    def _class_like(self, cls: RequestClass, request: Request, *, isolate: bool) -> RequestClass:
        return self.class_of(cls.client, request, cls.priority, isolate=isolate, root=cls.root)

    def _current(self, worker: WorkerBook, number: int, attempt: int) -> Job | None:
        """The job, if this worker holds it at this attempt; a late or foreign answer finds nothing."""
        job = worker.held.get(number)
        return job if job is not None and job.attempt == attempt else None

    def _leave_books(self, worker: WorkerBook, job: Job) -> None:
        """Undo how a planned or ahead job was counted. A leased one is counted by its lease, a gang by its holds."""
        if job.state is JobState.PLANNED:
            assert job.shape is not None
            if job.shape.nodes > 1:
                return
            worker.give(job.shape)
            self._planner.shares.give(job.cls.client, job.shape)
        elif job.state is JobState.AHEAD:
            worker.leave_ahead(job)

    def _let_go(self, worker: WorkerBook, job: Job, out: list[HeadAction]) -> None:
        """The worker holds the job no more, nor does any other that held slots for it."""
        self._leave_books(worker, job)
        del worker.held[job.job]
        if job.family is not None:
            self._families.attempt_ended(job)
        shape = job.shape
        if shape is None:
            return
        if shape.rationed:
            self._planner.rations.give(shape)
        if shape.nodes > 1:
            self._gangs.disband(job, out)

    # --- gangs -------------------------------------------------------------------------------------------------------

    def _granted(self, worker: WorkerBook, start: LeaseStart, now: float, out: list[HeadAction]) -> bool:
        """Take a lease that is held for a gang; False if it is another's."""
        hold = worker.holds.get((start.jobs[0], start.attempts[0]))
        if hold is None:
            return False
        worker.give(hold.shape)
        self._planner.shares.give(hold.job.cls.client, hold.shape)
        self._take_lease(worker, start.lease, hold.shape, hold.job, now)
        assignment = self._gangs.granted(hold, start.lease, start.allocation)
        if assignment is not None:
            out.append(assignment)
        return True

    def _holds_ended(self, worker: WorkerBook, completed: Completed, out: list[HeadAction], back: list[Job]) -> None:
        """A worker says of which gangs it holds slots no more. One that was not told to let go breaks its gang."""
        for named, code in zip(zip(completed.jobs, completed.attempts, strict=True), completed.codes, strict=True):
            hold = worker.holds.pop(named, None)
            if hold is None:
                continue
            unasked = not hold.released
            self._gangs.ended(hold)
            if code == Code.UNFIT:
                worker.refuse(hold.shape)
                self._planner.members += 1
            if unasked:
                self._break(hold, f"worker {worker.name} let go of its slots", out, back)

    def _break(self, hold: Hold, reason: str, out: list[HeadAction], back: list[Job]) -> None:
        """A gang has lost one of its nodes: it waits anew, once its job, if that was assigned, has ended."""
        job = hold.job
        gang = self._gangs.of(job)
        assert gang is not None
        if not gang.assembled:
            self._take_apart(job, out)
            job.attempt += 1
            back.append(job)
        elif gang.broken is None:
            gang.broken, gang.lost = reason, not hold.worker.leaving
            if not job.cancelled:
                out.append(CancelJobs(job.worker, [job.job], [job.attempt]))

    def _broke(self, job: Job, gang: Gang, worker: WorkerBook, out: list[HeadAction], back: list[Job]) -> None:
        """The job of a broken gang has ended without a value."""
        if gang.lost and gang.broken is not None:
            self._lost(job, worker, gang.broken, out, back, suspect=False)
        else:
            job.attempt += 1
            back.append(job)

    def _take_apart(self, job: Job, out: list[HeadAction]) -> None:
        """Everybody lets go of a gang whose job was not assigned yet; it is nowhere then."""
        self._let_go(self.workers[job.worker], job, out)

    def _hurry_gangs(self, now: float, out: list[HeadAction]) -> None:
        """Half-assembled gangs make room for the one that goes first."""
        late = self._gangs.overdue(now)
        for job in late:
            self._take_apart(job, out)
            job.attempt += 1
        self._requeue(late)

    # --- losses ------------------------------------------------------------------------------------------------------

    def _leaving(self, event: WorkerLeaving, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is not None:
            worker.leave()
            self._planner.members += 1
            if self.closed:
                self._fail_impossible(out)

    def _suspected(self, event: WorkerSuspected, out: list[HeadAction]) -> None:
        """It keeps what it has. What was sent ahead of free slots comes back if others have room (`_retract`)."""
        worker = self.workers.get(event.worker)
        if worker is not None:
            worker.shut_for("suspect", "its link has broken" if event.broke else "it is silent")
            if event.broke:
                self._strike(worker, "links", out)

    def _strike(self, worker: WorkerBook, kind: Strike, out: list[HeadAction], why: str = "") -> None:
        """Something speaks against a worker, for which it may get nothing new for a while."""
        if self._quarantine.strike(worker.name, kind, self._now, why):
            self._isolate(worker, out)

    def _isolate(self, worker: WorkerBook, out: list[HeadAction]) -> None:
        why = self._quarantine.why(worker.name, self._now)
        if why and not worker.gone:
            worker.shut_for("quarantine", why)
            out.append(WorkerQuarantined(worker.worker, why))

    def _release(self, now: float, out: list[HeadAction]) -> None:
        """Give those new jobs again whose quarantine is over."""
        due: float | None = None
        for worker in self.workers.values():
            if "quarantine" not in worker.shut:
                continue
            until = self._quarantine.until(worker.name)
            if now >= until:
                worker.open_again("quarantine")
                out.append(WorkerReleased(worker.worker))
            elif due is None or until < due:
                due = until
        self._wake_at(due, out)
        if due is None:
            self._quarantine.forget_old(now)

    def _worker_lost(self, event: WorkerLost, out: list[HeadAction]) -> None:
        worker = self.workers.pop(event.worker, None)
        if worker is None:
            return
        worker.gone = True
        self._planner.members += 1
        for lease in worker.leases.values():
            self._planner.shares.give(lease.client, lease.shape)
        back: list[Job] = []
        if not worker.leaving and any(job.state is JobState.LEASED for job in worker.held.values()):
            self._strike(worker, "losses", out)
        for job in list(worker.held.values()):
            leased = job.state is JobState.LEASED
            self._let_go(worker, job, out)
            if job.cancelled:
                del self.jobs[job.job]
            elif job.committed or (leased and not worker.leaving) or not job.fn.losses:
                self._lost(job, worker, event.reason, out, back, suspect=False)
            else:
                job.attempt += 1  # it may have started unheard
                back.append(job)
        for hold in worker.holds.values():
            unasked = not hold.released
            self._gangs.ended(hold)
            if unasked:
                self._break(hold, event.reason, out, back)
        for shape in self.shapes.values():
            shape.users.pop(worker.worker, None)
        self._requeue(back)
        if self.closed:
            self._fail_impossible(out)

    def _lost(
        self,
        job: Job,
        worker: WorkerBook,
        reason: str,
        out: list[HeadAction],
        back: list[Job],
        *,
        suspect: bool = True,
        most: int | None = None,
    ) -> None:
        """A job was running when its runner or worker died. A suspect runs in a process of its own from now on."""
        job.losses += 1
        job.attempt += 1
        if most is None:
            most = job.fn.losses
        if job.losses > most or job.committed:
            self._drop(job)
            out.append(JobsLost([job.job], worker.worker, reason, job.losses))
            return
        if suspect:
            job.cls = self._class_like(job.cls, job.cls.request, isolate=True)
        self._back_off(job, out, back)

    # --- what can never run ------------------------------------------------------------------------------------------

    def _anybody_fits(self, cls: RequestClass) -> bool:
        """Whether, of some shape of the class, there is a worker for a job, and for a gang as many as it has nodes."""
        return any(self._fits_somewhere(shape) for shape in cls.shapes)

    def _fits_somewhere(self, shape: Shape) -> bool:
        fitting = (worker for worker in self.workers.values() if worker.fits_ever(shape))
        return sum(1 for _ in islice(fitting, shape.nodes)) == shape.nodes

    def _why_never(self, cls: RequestClass) -> Missing | None:
        return self.why_never(cls.request)

    def _staying(self) -> list[WorkerBook]:
        """The workers that may still be given jobs."""
        return [worker for worker in self.workers.values() if not worker.leaving]

    def _fail_impossible(self, out: list[HeadAction]) -> None:
        self._end_orphans(out)
        for cls in self.classes.values():
            live = cls.live()
            if live and not self._anybody_fits(cls):
                cls.queue.clear()
                for job in live:
                    self._drop(job)
                out.append(JobsUnsatisfiable([job.job for job in live], self._why_never(cls)))

    def _unlock(self, now: float, out: list[HeadAction]) -> None:
        """Jobs wait for jobs of their own: see to it that one of them can go on, or tell one that it never will."""
        queued = self._families.queued()
        if not (queued and self._families.all_wait(self.workers.values())):
            if self._look_at is None:
                self._look_at = now + STUCK_S
            if now < self._look_at:
                self._wake_at(self._look_at, out)
                return
        self._look_at = None
        if queued:
            self._planner.plan(now, out, lend_to_all=True)
        stranded = self._stranded(now, out)
        deadlock = find_deadlock(list(self.workers.values()), self._families.queued(), stranded, now)
        if deadlock is None:
            self._stuck_since = None
            self._wake_at(self._families.next_deaf(now), out)
        elif self.closed or (self._stuck_since is not None and now >= self._stuck_since + STUCK_S):
            self._stuck_since = None
            self._give_up(self.jobs[deadlock.job], out)
            out.append(JobsDeadlocked(deadlock, failed=True))
        else:
            if self._stuck_since is None:
                self._stuck_since = now
                out.append(JobsDeadlocked(deadlock, failed=False))
            self._wake_at(self._stuck_since + STUCK_S, out)

    def _stranded(self, now: float, out: list[HeadAction]) -> list[Job]:
        """What has long been at a worker where all wait, and has not started: it fits in amounts, not in the layout."""
        planned: list[Job] = []
        for worker in self.workers.values():
            if worker.shut:  # what it was sent may be on the way, and what it says
                continue
            started = [job for job in worker.held.values() if job.state is JobState.LEASED]
            if all(stands_still(job, now) for job in started):
                planned += [job for job in worker.held.values() if job.state is JobState.PLANNED and not job.cancelled]
        late = [job for job in planned if now >= job.planned_at + STUCK_S]
        if len(late) < len(planned):
            self._look_at = now + STUCK_S
            self._wake_at(self._look_at, out)
        return late

    def _give_up(self, job: Job, out: list[HeadAction]) -> None:
        """Take a job that can never start from where it waits; its parent is told."""
        if job.state is JobState.QUEUED:
            job.cls.queue.remove(job)
            self._drop(job)
        else:
            self._families.ended(job)
            job.cancelled = True
            out.append(CancelJobs(job.worker, [job.job], [job.attempt]))

    def _complain(self, now: float, out: list[HeadAction]) -> None:
        """Warn, once per class, of jobs that nobody who is here could run."""
        for cls in self.classes.values():
            if cls.warned or cls.fits_as_of == self._planner.members or cls.head() is None:
                continue
            if self._anybody_fits(cls):
                cls.fits_as_of = self._planner.members
                continue
            due = cls.blocked_since + NOBODY_S
            if now < due and not self._staying():
                self._wake_at(due, out)
                continue
            cls.warned = True
            out.append(JobsPending(cls.request, len(cls.live()), self._why_never(cls)))

    def _wake_at(self, at: float | None, out: list[HeadAction]) -> None:
        if at is not None and (self._wake is None or at < self._wake):
            self._wake = at
            out.append(WakeAt(at))

    # --- laws --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless the laws above hold. Costs a walk over everything; for tests."""
        places: dict[int, int] = {}
        for cls in self.classes.values():
            for job in cls.live():
                assert job.state is JobState.QUEUED, job.state
                assert job.cls is cls
                places[job.job] = places.get(job.job, 0) + 1
        for worker in self.workers.values():
            used = dict.fromkeys(worker.capacity, 0)
            for job in worker.held.values():
                assert job.worker == worker.worker
                assert (job.job in worker.ahead) == (job.state is JobState.AHEAD)
                places[job.job] = places.get(job.job, 0) + 1
            assert Counter(job.cls.cls for job in worker.ahead.values()) == +Counter(worker.ahead_in)
            planned = [job.shape for job in worker.held.values() if job.state is JobState.PLANNED]
            counted = [shape for shape in planned if shape is None or shape.nodes == 1]
            counted += [hold.shape for hold in worker.holds.values() if not hold.lease]
            for shape in counted + [lease.shape for lease in worker.leases.values()]:
                assert shape is not None
                for name, amount in shape.units:
                    used[name] += amount
            if worker.lent:
                used["cores"] -= worker.lent
            assert worker.lent == sum(lease.lent for lease in worker.leases.values()), worker.name
            for name, capacity in worker.capacity.items():
                assert worker.free[name] == capacity - used[name], (worker.name, name)
        for number in self._backoffs.jobs():
            places[number] = places.get(number, 0) + 1
        self._backoffs.check()
        assert places == dict.fromkeys(self.jobs, 1), "a live job is in exactly one place"
        self._gangs.check(self.jobs.values(), self.workers.values())
        check_common_books(self.workers, self.shapes, self._planner)


def _may_repeat(job: Job, code: int, completed: Completed) -> bool:
    """Whether another attempt may help after this end."""
    if code == Code.TIMED_OUT:
        return job.fn.on_timeout
    return code in (Code.FAILED, Code.OUT_OF_MEMORY) and job.job not in completed.final

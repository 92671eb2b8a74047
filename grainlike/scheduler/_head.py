"""The head's mind: which job goes to which worker, and when a job is done, lost or tried again.

Laws (checked by `HeadMind.check` in tests after every step):

1. A live job is in exactly one place: its class's queue, or one worker's `held`.
2. For each worker and resource: free == capacity - planned jobs - leases.
3. Only an answer of the worker that holds a job, for its current attempt, changes the job.
4. Jobs of a class are assigned first in, first out; a job that comes back goes to the front.

The policy of a pass stands in `_planning`; here stands what events mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from grainlike.resources import Missing, Request, missing
from grainlike.scheduler._books import Function, Job, LeaseBook, RequestClass, Shape, WorkerBook
from grainlike.scheduler._events import (
    CancelJobs,
    FunctionDefined,
    HeadAction,
    HeadEvent,
    JobsCancelled,
    JobsLost,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
)
from grainlike.scheduler._explain import Explanation, explain
from grainlike.scheduler._planning import Planner
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import RunTimes
from grainlike.wire import Code, Completed, LeaseStart

__all__ = ["HeadMind"]

MAX_LOSSES = 3
"""How often a job may be running when its runner or worker dies before it is given up."""

NOBODY_S = 5.0
"""How long jobs may wait for a first worker before that is worth a warning."""


class HeadMind:
    """Decides for one head. `closed` says that no worker will ever join that is not here when a job is submitted.

    Example::

        mind = HeadMind(closed=False)
        mind.handle(FunctionDefined(fn=1), now=0.0)
        mind.handle(WorkerJoined(1, "n1", offer), now=0.0)
        mind.handle(JobsSubmitted(Cores(1), jobs=[1], fns=[1]), now=0.0)   # [AssignJobs(worker=1, ...)]
    """

    def __init__(self, *, closed: bool) -> None:
        self.closed = closed
        self.jobs: dict[int, Job] = {}
        self.workers: dict[int, WorkerBook] = {}
        self.classes: dict[int, RequestClass] = {}
        self.shapes: dict[int, Shape] = {}
        """What travels to workers by number."""
        self._functions: dict[int, Function] = {}
        self._class_ids: dict[tuple[int, Request, int, bool], RequestClass] = {}
        self._groups: dict[str, RunTimes] = {}
        self._shape_ids: dict[tuple[Request, bool], Shape] = {}
        self._planner = Planner(self.workers, self.classes)
        self._wake: float | None = None

    def handle(self, event: HeadEvent, now: float) -> list[HeadAction]:
        """Take one event; return what to do, in order."""
        out: list[HeadAction] = []
        match event:
            case FunctionDefined():
                self._functions[event.fn] = Function(event.fn, event.retries)
                return out
            case JobsSubmitted():
                self._submitted(event, now, out)
            case JobsCancelled():
                self._cancelled(event.jobs, out)
            case WorkerJoined():
                self.workers[event.worker] = WorkerBook(event.worker, event.name, event.offer, now, self._planner.log)
                self._planner.members += 1
            case WorkerLeaving():
                self._leaving(event, out)
            case WorkerLost():
                self._worker_lost(event, out)
            case WorkerReported():
                self._reported(event, now, out)
            case Ticked():
                self._wake = None
        self._planner.plan(now, out)
        if self._planner.wake is not None:
            self._wake_at(self._planner.wake, out)
        self._complain(now, out)
        return out

    def running(self, worker: int) -> int:
        """How many jobs a worker has started and not ended."""
        return sum(job.state is JobState.LEASED for job in self.workers[worker].held.values())

    def explain(self, job: int, now: float) -> Explanation | None:
        """Where a job stands and what it waits for; None for one that has ended, or never was."""
        found = self.jobs.get(job)
        if found is None:
            return None
        return explain(found, self.workers.values(), self._planner, lambda: self._why_never(found.cls), now)

    def class_of(self, client: int, request: Request, priority: int, *, isolate: bool) -> RequestClass:
        """The interned class of a request."""
        key = (client, request, priority, isolate)
        found = self._class_ids.get(key)
        if found is None:
            shapes = tuple(self._shape(option, isolate=isolate) for option in request.options)
            found = RequestClass(len(self.classes) + 1, client, request, priority, shapes, isolate=isolate)
            self._class_ids[key] = self.classes[found.cls] = found
        return found

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
        cls = self.class_of(event.client, event.request, event.priority, isolate=event.isolate)
        if self.closed and not self._anybody_fits(cls):
            out.append(JobsUnsatisfiable(event.jobs, self._why_never(cls)))
            return
        if cls.head() is None:
            cls.blocked_since = now
        self._planner.fresh.add(cls.cls)
        functions = self._functions
        for number, fn in zip(event.jobs, event.fns, strict=True):
            job = self.jobs[number] = Job(number, cls, functions[fn])
            cls.queue.append(job)

    def _cancelled(self, numbers: Iterable[int], out: list[HeadAction]) -> None:
        to_stop: dict[int, list[Job]] = {}
        for number in numbers:
            job = self.jobs.get(number)
            if job is None or job.cancelled:
                continue
            job.cancelled = True
            if job.state is JobState.QUEUED:
                del self.jobs[number]
            else:
                to_stop.setdefault(job.worker, []).append(job)
        for worker, jobs in to_stop.items():
            out.append(CancelJobs(worker, [job.job for job in jobs], [job.attempt for job in jobs]))

    def _requeue(self, jobs: list[Job]) -> None:
        """Put jobs back to the front of their classes; cancelled ones are gone."""
        by_class: dict[int, list[Job]] = {}
        for job in jobs:
            if job.cancelled:
                del self.jobs[job.job]
            else:
                by_class.setdefault(job.cls.cls, []).append(job)
        for cls, group in by_class.items():
            self.classes[cls].put_back(group)

    # --- what workers say --------------------------------------------------------------------------------------------

    def _reported(self, event: WorkerReported, now: float, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is None:
            return
        for start in event.started:
            self._lease_started(worker, start, now, out)
        for completed in event.completed:
            self._completed(worker, completed, out)
        for lease in event.ended:
            book = worker.leases.pop(lease, None)
            if book is not None:
                worker.give(book.shape)
                self._planner.shares.give(book.client, book.shape)

    def _lease_started(self, worker: WorkerBook, start: LeaseStart, now: float, out: list[HeadAction]) -> None:
        shape = self.shapes[start.cls]
        rows: list[int] = []
        first: Job | None = None
        for row, (number, attempt) in enumerate(zip(start.jobs, start.attempts, strict=True)):
            job = self._current(worker, number, attempt)
            if job is None:
                continue
            self._leave_books(worker, job)
            job.state, job.lease = JobState.LEASED, start.lease
            first = first or job
            if not job.cancelled:
                rows.append(row)
        client = first.cls.client if first is not None else 0
        fn = first.fn if first is not None else None
        worker.leases[start.lease] = LeaseBook(start.lease, shape, fn, client, now)
        worker.take(shape)
        self._planner.shares.take(client, shape)
        if rows:
            out.append(JobsStarted(worker.worker, start, rows))

    def _completed(self, worker: WorkerBook, completed: Completed, out: list[HeadAction]) -> None:
        rows: list[int] = []
        back: list[Job] = []
        walls: dict[Function, list[float]] = {}
        jobs, attempts, codes = completed.jobs, completed.attempts, completed.codes
        for row in range(len(jobs)):
            job = self._current(worker, jobs[row], attempts[row])
            if job is None:
                continue
            code = codes[row]
            shape = job.shape
            self._let_go(worker, job)
            if code == Code.SUCCEEDED:
                walls.setdefault(job.fn, []).append(completed.wall[row])
                self._learn_group(job, completed.wall[row])
            if job.cancelled:
                del self.jobs[job.job]
            elif self._runs_again(job, shape, code, worker, completed, out, back):
                continue
            else:
                del self.jobs[job.job]
                rows.append(row)
        for fn, samples in walls.items():
            fn.times.add(samples)
        if completed.awaited:
            for fn in walls:
                fn.times.awaits = True
        self._requeue(back)
        if self.closed and Code.UNFIT in codes:
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
        if code == Code.CRASHED:
            how = completed.details.get(job.job, "its runner died")
            self._lost(job, worker, how, out, back)
            return True
        if code == Code.STOPPED or (code == Code.OUT_OF_MEMORY and self._grows(job)):
            job.attempt += 1
            back.append(job)
            return True
        if code in (Code.FAILED, Code.TIMED_OUT, Code.OUT_OF_MEMORY) and job.retries > 0:
            job.retries -= 1
            job.attempt += 1
            back.append(job)
            return True
        return False

    def _grows(self, job: Job) -> bool:
        """Give a job that ran out of memory the next larger request, if it has one that somebody here could grant."""
        grown = job.cls.request.grown()
        if grown is None:
            return False
        cls = self.class_of(job.cls.client, grown, job.cls.priority, isolate=job.cls.isolate)
        if self.closed and not self._anybody_fits(cls):
            return False
        job.cls = cls
        return True

    def _current(self, worker: WorkerBook, number: int, attempt: int) -> Job | None:
        """The job, if this worker holds it at this attempt; a late or foreign answer finds nothing."""
        job = worker.held.get(number)
        return job if job is not None and job.attempt == attempt else None

    def _leave_books(self, worker: WorkerBook, job: Job) -> None:
        """Undo what a planned or ahead job was counted as; a leased one is counted by its lease."""
        if job.state is JobState.PLANNED:
            assert job.shape is not None
            worker.give(job.shape)
            self._planner.shares.give(job.cls.client, job.shape)
        elif job.state is JobState.AHEAD:
            worker.leave_ahead(job)

    def _let_go(self, worker: WorkerBook, job: Job) -> None:
        """The worker holds the job no more."""
        self._leave_books(worker, job)
        del worker.held[job.job]
        if job.shape is not None and job.shape.rationed:
            self._planner.rations.give(job.shape)

    def _learn_group(self, job: Job, wall: float) -> None:
        group = None if job.shape is None else job.shape.group
        if group is not None:
            group.add([wall])

    # --- losses ------------------------------------------------------------------------------------------------------

    def _leaving(self, event: WorkerLeaving, out: list[HeadAction]) -> None:
        worker = self.workers.get(event.worker)
        if worker is not None:
            worker.leave()
            self._planner.members += 1
            if self.closed:
                self._fail_impossible(out)

    def _worker_lost(self, event: WorkerLost, out: list[HeadAction]) -> None:
        worker = self.workers.pop(event.worker, None)
        if worker is None:
            return
        worker.gone = True
        self._planner.members += 1
        for lease in worker.leases.values():
            self._planner.shares.give(lease.client, lease.shape)
        back: list[Job] = []
        for job in list(worker.held.values()):
            leased = job.state is JobState.LEASED
            self._let_go(worker, job)
            if job.cancelled:
                del self.jobs[job.job]
            elif leased and not worker.leaving:
                self._lost(job, worker, event.reason, out, back, suspect=False)
            else:
                job.attempt += 1  # it may have started unheard
                back.append(job)
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
    ) -> None:
        """A job was running when its runner or worker died. A suspect runs in a process of its own from now on."""
        job.losses += 1
        job.attempt += 1
        if job.losses >= MAX_LOSSES:
            del self.jobs[job.job]
            out.append(JobsLost([job.job], worker.worker, reason, job.losses))
            return
        if suspect:
            job.cls = self.class_of(job.cls.client, job.cls.request, job.cls.priority, isolate=True)
        back.append(job)

    # --- what can never run ------------------------------------------------------------------------------------------

    def _anybody_fits(self, cls: RequestClass) -> bool:
        return any(worker.fits_ever(shape) for worker in self.workers.values() for shape in cls.shapes)

    def _why_never(self, cls: RequestClass) -> Missing | None:
        return missing(cls.request, [(worker.name, worker.offer) for worker in self._staying()])

    def _staying(self) -> list[WorkerBook]:
        """The workers that may still be given jobs."""
        return [worker for worker in self.workers.values() if not worker.leaving]

    def _fail_impossible(self, out: list[HeadAction]) -> None:
        for cls in self.classes.values():
            live = cls.live()
            if live and not self._anybody_fits(cls):
                cls.queue.clear()
                for job in live:
                    del self.jobs[job.job]
                out.append(JobsUnsatisfiable([job.job for job in live], self._why_never(cls)))

    def _complain(self, now: float, out: list[HeadAction]) -> None:
        """Warn, once per class, of jobs that nobody who is here could run."""
        for cls in self.classes.values():
            if cls.warned or cls.head() is None or self._anybody_fits(cls):
                continue
            due = cls.blocked_since + NOBODY_S
            if now < due and not self._staying():
                self._wake_at(due, out)
                continue
            cls.warned = True
            out.append(JobsPending(cls.request, len(cls.live()), self._why_never(cls)))

    def _wake_at(self, at: float, out: list[HeadAction]) -> None:
        if self._wake is None or at < self._wake:
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
            for shape in planned + [lease.shape for lease in worker.leases.values()]:
                assert shape is not None
                for name, amount in shape.units:
                    used[name] += amount
            for name, capacity in worker.capacity.items():
                assert worker.free[name] == capacity - used[name], (worker.name, name)
        assert places == dict.fromkeys(self.jobs, 1), "a live job is in exactly one place"

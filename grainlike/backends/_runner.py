"""Calls with resources that run on an engine of another kind: Dask, Ray, Celery, threads, or the user's own."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from functools import partial
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from grainlike.backends._admission import AdmissionQueue
from grainlike.backends._job import BackendJob, BackendWorker
from grainlike.backends._protocol import BackendAdapter
from grainlike.calls import BackendAnswer, BackendCall, CallOutcome, perform, run_call
from grainlike.context import JobInfo
from grainlike.engine import QUIET_S, explain_unsubmitted
from grainlike.errors import JobTimeoutError, UnsatisfiableError, WorkerLostError
from grainlike.eventloop import Changes, forget_the_loop, here, soon_from_anywhere
from grainlike.graph import Node, Retry, StreamNode
from grainlike.jobs import NO_PARCEL, Events, Job, JobCounters, LogLine, Observer, WorkerInfo, WorkersFeed
from grainlike.payload import Payload, dump_arguments, dump_error, dump_function, load_error, load_value
from grainlike.resources import EMPTY, Ledger, Request, missing
from grainlike.scheduler import Explanation
from grainlike.system import import_paths
from grainlike.wire import AskHistory, HistoryIs, Totals

__all__ = ["BackendRunner"]

logger = logging.getLogger("grainlike")

WAITERS = 64
"""Number of calls in flight to a backend that needs a waiting thread for each."""

IN_FLIGHT = 1024
"""Number of calls in flight to any other."""

_LOOK_S = 1.0
"""Seconds that a thread waits for a backend's result between two checks of whether it is still wanted."""


class BackendListener(Protocol):
    """Receiver of outcomes of jobs: the engine."""

    def succeeded(self, node: Node, value: object) -> None: ...
    def failed(self, node: Node, error: BaseException) -> None: ...
    def pump(self) -> None: ...
    def take_context(self, node: Node) -> Context: ...


class RunningCount(Observer, Protocol):
    """Observer that also counts: the recorder."""

    def counted(self, unended: int) -> None:
        """Take note of how many calls have not ended."""


class BackendRunner:
    """Runs an executor's jobs on a backend: implements its `JobService`, and is the engine's `JobRunner`.

    Amounts are counted here where the backend declares them (`offer`), and by the backend itself where not. `changes`
    is notified whenever it may have become quiet.
    """

    address: None = None
    """Always None: nothing connects to it."""

    def __init__(self, adapter: BackendAdapter, outcomes: BackendListener, changes: Changes) -> None:
        self._adapter = adapter
        self._outcomes = outcomes
        self._changes = changes
        self._counters = JobCounters(time.monotonic())
        self.name: str = adapter.name
        self.observers: list[Observer] = []
        self._waiting: AdmissionQueue[BackendJob] = AdmissionQueue()
        self._jobs: dict[int, BackendJob] = {}
        """All jobs that were submitted and have not ended, those that are wanted no more too."""
        self._numbers = 0
        self._running = 0
        self._tasks: TaskGroup | None = None
        self._ledger: Ledger | None = None
        self._threads = anyio.CapacityLimiter(WAITERS)
        self._most = IN_FLIGHT if adapter.tells_when_done else WAITERS
        self._site = BackendWorker(adapter.name)
        self._counted: Callable[[int], None] | None = None
        """Called with the number of calls that have not ended, whenever it may have changed."""

    @property
    def runner(self) -> BackendRunner:
        """Receiver of the engine's calls."""
        return self

    # --- from the first moment to the last ---------------------------------------------------------------------------

    def held(self) -> AbstractContextManager[None]:
        """Return a context manager that holds nothing."""
        return nullcontext()

    async def open(self, tasks: TaskGroup) -> None:
        """Get the engine ready, and run calls in `tasks` from now on."""
        if hasattr(self._adapter.backend, "open"):
            await self._adapter.ask("open", limiter=self._threads)
        loop_id = here()
        assert loop_id is not None
        self._loop_id = loop_id
        offer = self._adapter.offer
        if offer is not None:
            self._ledger = Ledger(self._site.of(offer))
        for observer in self.observers:
            observer.joined(self._site)
        self._tasks = tasks

    def detach(self) -> Collection[Node]:
        """Return none: no call goes on without the program."""
        return ()

    async def close(self) -> None:
        """Wait until all calls have ended, for `QUIET_S` at most, and shut the engine down."""
        with anyio.move_on_after(QUIET_S):
            await self._changes.until(lambda: not self._jobs)
        if self._jobs:
            names = ", ".join(f"{job.name} (job {job.id})" for job in self._jobs.values())
            logger.warning(
                "calls on backend %r did not end within %g s of being cancelled: %s", self.name, QUIET_S, names
            )
        self._tasks = None
        await self._adapter.ask("shutdown", limiter=self._threads)

    def closed(self) -> None:
        """Tell observers that nothing follows."""
        for observer in self.observers:
            observer.closed()

    # --- questions ---------------------------------------------------------------------------------------------------

    def workers(self) -> list[WorkerInfo]:
        """Return no workers: they are the backend's own."""
        return []

    def has_workers(self, n: int) -> bool:  # noqa: ARG002 - it says itself how many it has
        """Return True: the backend takes calls from the beginning."""
        return True

    async def explain(self, node: Node) -> Explanation:
        """Return where a call stands; the backend does not say what it waits for."""
        found = explain_unsubmitted(node)
        job = node.record
        if found is None and isinstance(job, Job):
            return Explanation(job.id, node.state.label, job.attempt, node.request or EMPTY)
        assert found is not None
        return found

    def logs(self, node: Node) -> AsyncGenerator[LogLine, None]:  # noqa: ARG002 - of no call
        """Raise `RuntimeError`: the backend keeps what its jobs print."""
        raise RuntimeError(f"what jobs on {self.name!r} print is in its own logs")

    def events(self) -> Events:
        """Iterate over events of calls from now on."""
        feed = WorkersFeed(self)
        self.introduce(feed)
        feed.under_way(self._jobs.values())
        self.observers.append(feed)
        return Events(feed, self._drop)

    def _drop(self, feed: WorkersFeed) -> None:
        if feed in self.observers:
            self.observers.remove(feed)

    def fleet(self) -> Any:
        """Raise: an engine of another kind has workers of its own."""
        raise ValueError(f"the jobs of this executor run on {self.name}, which has workers of its own: no pools")

    def report(self) -> Totals:
        """Return how many calls ended how."""
        return self._counters.totals(time.monotonic())

    async def history(self, asked: AskHistory) -> HistoryIs:  # noqa: ARG002 - of no call
        """Raise `RuntimeError`: what became of its calls is the backend's to keep."""
        raise RuntimeError(f"what became of jobs on {self.name!r} is in its own records")

    # --- what it can not do ------------------------------------------------------------------------------------------

    def refusal(self, request: Request) -> str | None:
        """Return why no call with this request would ever run here, by name; None if one may."""
        why = self._adapter.refusal(request)
        if why is None and self._ledger is not None and not self._ledger.fits_ever(request):
            why = f"backend {self._adapter.name!r}: {missing(request, [(self._adapter.name, self._ledger.capacity)])}"
        return why

    def refusal_of(self, node: Node) -> str | None:
        """Return why one call could never run here: its function may ask for more than resources. None if it may."""
        if node.request is None:
            return None
        options = node.function.options
        why = None
        if isinstance(node, StreamNode):
            why = "a stream: its items would not come before its end"
        elif self._adapter.in_process and options.timeout is not None:
            why = f"timeout={options.timeout:g}: a thread cannot be ended"
        elif self._adapter.in_process and options.isolate:
            why = "isolate=True: its calls share this process"
        elif options.retry not in (Retry(options.retry.times), Retry(options.retry.times, losses=0)):
            why = "more of a Retry than how many attempts there are"
        if why is not None:
            return f"backend {self._adapter.name!r} can not honour {why}"
        return self.refusal(node.request)

    # --- from the engine ---------------------------------------------------------------------------------------------

    def submit(self, nodes: Iterable[Node]) -> None:
        """Queue calls; what can not be honoured, or can not travel, fails at once, alone."""
        for node in nodes:
            try:
                why = self.refusal_of(node)
                if why is not None:
                    raise UnsatisfiableError(f"{node.function.name}: {why}")
                job = self._make_job(node)
            except Exception as error:  # noqa: BLE001 - whatever the user's objects raise belongs to this call's awaiters
                self._counters.failed += 1
                # It was never a job, and is told from one that was never to be made.
                node.record = Job(0, 0, None, NO_PARCEL)
                self._outcomes.failed(node, error)
                continue
            self._jobs[job.id] = job
            self._waiting.add(job)
        self._admit()
        self._count()

    def _make_job(self, node: Node) -> BackendJob:
        args, kwargs = node.arguments()
        function = node.function
        packed: Payload | None = None
        blob = b""
        if not self._adapter.in_process:
            blob = dump_function(function.callable).data
            packed = dump_arguments(args, kwargs, what=function.name).detached()
        self._numbers += 1
        job = BackendJob(self._numbers, node, partial(function.callable, *args, **kwargs), blob, packed)
        if self._adapter.in_process:
            job.context = self._outcomes.take_context(node)
        node.record = job
        return job

    def _admit(self) -> None:
        if self._tasks is None:
            return
        for job in self._waiting.admit(self._take):
            self._running += 1
            job.assigned(self._adapter.name, job.attempt + 1)
            job.start(job.grant.allocation if job.grant is not None else job.request)
            self._tell(started=job)
            self._tasks.start_soon(self._run, job)

    def _take(self, job: BackendJob) -> bool:
        if self._running >= self._most:
            return False
        if self._ledger is None:
            return True
        job.grant = self._ledger.grant(job.request)
        return job.grant is not None

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Cancel jobs that are wanted no more. Slots of one that runs are free when it has ended."""
        for node in nodes:
            job = node.record
            if not isinstance(job, BackendJob) or job.id not in self._jobs:
                if job is None:
                    self._counters.unwanted(skipped=skipped)
                continue
            job.node = None
            if self._waiting.remove(job):
                del self._jobs[job.id]
                self._counters.unwanted(skipped=skipped)
            else:
                self._counters.cancelled += 1
                if self._adapter.cancels and job.future is not None and self._tasks is not None:
                    self._tasks.start_soon(self._cancel, job)
        self._count()
        self._changes.notify()

    async def _cancel(self, job: BackendJob) -> None:
        try:
            await self._adapter.ask("cancel", job.future, limiter=anyio.CapacityLimiter(1))
        except Exception as error:  # noqa: BLE001 - an engine's own; whether the call has ended, its result tells
            job.trouble = error

    # --- one call ----------------------------------------------------------------------------------------------------

    async def _run(self, job: BackendJob) -> None:
        began = time.monotonic()
        outcome: BackendAnswer | CallOutcome | Exception
        try:
            outcome = await self._result(job, await self._send(job))
        except Exception as error:  # noqa: BLE001 - the engine's own: a call's own error comes as an answer
            outcome = error
        job.ran(began, time.monotonic())
        self._running -= 1
        if job.grant is not None:
            assert self._ledger is not None
            self._ledger.release(job.grant)
            job.grant = None
        good, value = self._judge(job, outcome)
        self._tell(ended=job, good=good)
        if job.node is not None and not good and job.may_try_again:
            self._waiting.add(job)
        else:
            del self._jobs[job.id]
            self._settle(job, value, good=good)
        self._admit()
        self._count()
        self._outcomes.pump()
        self._changes.notify()

    async def _send(self, job: BackendJob) -> Any:
        arguments: tuple[Any, ...]
        if self._adapter.in_process:
            info = JobInfo(job.id, job.name, job.attempt, None)
            context = job.context.copy()  # each attempt begins with what its caller had set
            context.run(forget_the_loop)
            arguments = (perform, job.do, info, self._adapter.name, job.slots, context)
        else:
            assert job.packed is not None
            data, buffers = bytes(job.packed.data), tuple(bytes(buffer) for buffer in job.packed.buffers)
            slots = job.slots or ""
            call = BackendCall(
                job.blob, data, buffers, job.id, job.name, job.attempt, "", slots, job.timeout, tuple(import_paths())
            )
            arguments = (run_call, call)
        if self._adapter.hears_requests:
            job.future = await self._adapter.ask("submit_for", job.request, *arguments, limiter=self._threads)
        else:
            job.future = await self._adapter.ask("submit", *arguments, limiter=self._threads)
        if job.node is None and self._adapter.cancels:  # it was cancelled on its way
            await self._cancel(job)
        return job.future

    async def _result(self, job: BackendJob, future: Any) -> Any:
        if self._adapter.tells_when_done:
            done = anyio.Event()
            self._adapter.backend.on_done(future, lambda: soon_from_anywhere(self._loop_id, done.set))
            await done.wait()
            return await self._adapter.ask("result", future, limiter=self._threads)
        while True:
            try:
                return await self._adapter.ask("result", future, _LOOK_S, limiter=self._threads)
            except TimeoutError:
                if job.node is None and self._adapter.cancels:
                    return job.trouble or WorkerLostError("it was cancelled")

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def _judge(self, job: BackendJob, outcome: BackendAnswer | CallOutcome | Exception) -> tuple[bool, Any]:
        """Return whether there is a value, and it or the error."""
        if isinstance(outcome, CallOutcome):
            job.took(self._adapter.name, outcome.wall, outcome.cpu, 0)
            return (True, outcome.value) if outcome.good else (False, _raised(outcome.value, job.note(job.name)))
        if not isinstance(outcome, BackendAnswer):
            return False, self._lost(job, outcome)
        job.took(outcome.worker, outcome.wall, outcome.cpu, outcome.rss)
        if outcome.timed_out:
            error = JobTimeoutError(f"{job.name} ran past its timeout of {job.timeout:g} s")
            error.add_note(job.note(job.name))
            return False, error
        payload = Payload(outcome.data, outcome.buffers)
        try:
            return (True, load_value(payload)) if outcome.good else (False, load_error(payload, job.note(job.name)))
        except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this call's error
            error.add_note(job.note(job.name))
            return False, error

    def _lost(self, job: BackendJob, outcome: Any) -> Exception:
        said = f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else f"{outcome!r}"
        error = WorkerLostError(f"backend {self._adapter.name!r} gave no answer for {job.name}: {said}")
        error.__cause__ = outcome if isinstance(outcome, Exception) else None
        return error

    def _settle(self, job: BackendJob, value: Any, *, good: bool) -> None:
        node, job.node = job.node, None
        if job.usage is not None:
            self._counters.run_seconds += job.usage.wall_s
        if node is None:
            return
        if good:
            self._counters.succeeded += 1
            self._outcomes.succeeded(node, value)
            return
        if isinstance(value, JobTimeoutError):
            self._counters.timed_out += 1
        else:
            self._counters.failed += 1
        self._outcomes.failed(node, value)

    # --- who listens -------------------------------------------------------------------------------------------------

    def record(self, recorder: RunningCount) -> None:
        """Have a recorder told of all that runs."""
        self.observers.append(recorder)
        self._counted = recorder.counted

    def copies(self) -> None:
        """Return None: no values stay at the workers of a backend."""

    def now(self) -> float:
        """Return the time on the clock of the calls' records, in seconds."""
        return time.monotonic()

    def assembles(self, number: int) -> bool:  # noqa: ARG002 - no call has several nodes
        """Return False: no slots are held for a call that has not started."""
        return False

    def live_job(self, number: int, attempt: int) -> BackendJob | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        job = self._jobs.get(number)
        return job if job is not None and job.attempt == attempt else None

    def introduce(self, observer: Observer) -> None:
        """Notify a new observer that the backend has joined."""
        if self._tasks is not None:
            observer.joined(self._site)

    def _count(self) -> None:
        if self._counted is not None:
            self._counted(len(self._jobs))

    def _tell(self, *, started: BackendJob | None = None, ended: BackendJob | None = None, good: bool = True) -> None:
        if self.observers:
            report = self._site.report(started, ended, good=good)
            for observer in self.observers:
                observer.reported(self._site, report)


def _raised(error: BaseException, note: str) -> Exception:
    """Return the exception that a call in this process raised; as from elsewhere, one that would end the program
    becomes a `RemoteError`.
    """
    if not isinstance(error, Exception):
        return load_error(dump_error(error), note)
    error.add_note(note)
    return error

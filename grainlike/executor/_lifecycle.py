"""Lifecycle of an executor: when its engine, and that on which its jobs run, start and stop, and in which order."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NoReturn

import anyio

from grainlike.cache import ResultCache
from grainlike.context import GVAR, JobInfo
from grainlike.engine import BaseResolver, Engine, Fetcher, LocalCalls, log_left_calls
from grainlike.errors import SerializationError
from grainlike.eventloop import EventLoopId, Lifespan, here, is_here, soon
from grainlike.executor._embedded import hooked_streams
from grainlike.executor._forks import end_forked
from grainlike.executor._interactive import is_notebook, is_prompt
from grainlike.executor._registry import Unopened, alone, current, left
from grainlike.executor._settings import Settings
from grainlike.joblogging import marked_records
from grainlike.jobs import Job, Observer
from grainlike.nested import leave_none
from grainlike.resources import Allocation
from grainlike.subprocesses import reserve_standard_descriptors
from grainlike.system import max_message_bytes

if TYPE_CHECKING:
    from grainlike.executor._job_service import JobService
    from grainlike.executor._live_views import LiveViews
    from grainlike.graph import Node
    from grainlike.head import Recorder
    from grainlike.observe import Stretch
    from grainlike.telemetry import ObservedRunner

__all__ = ["ExecutorBase"]


class ExecutorBase(Lifespan, BaseResolver):
    """An engine and a `JobService`, from `_open` to the end of `_close`. Subclasses say which service it is."""

    _task_name = "grainlike executor"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self.offer: Allocation | None = settings.offer
        """Offer of the embedded worker, with ids; None without one."""
        self._recorder: Recorder | None = None
        self._views: LiveViews | None = None
        self._stands = False
        """True while it is open without a block, and was not closed."""
        self._left_in_order = False
        """True once its block was left without an exception."""
        self._observed: ObservedRunner | None = None
        self._unopened = Unopened(self._made_by)

    def __del__(self) -> None:
        """Warn if it was never opened."""
        if "_unopened" in self.__dict__:  # else its `__init__` failed
            self._unopened.dropped()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise SerializationError(
            "an executor cannot travel, and a job needs none: write `await (fn @ Cores(1))(x)` in it, or "
            "`result((fn @ Cores(1))(x))` in a plain function"
        )

    _made_by = "Executor(...)"

    @abstractmethod
    def _make_service(self) -> JobService:
        """Return that on which the jobs run, when engine and `_changes` are there."""

    # --- from the first moment to the last ---------------------------------------------------------------------------

    def _open(self, loop_id: EventLoopId) -> None:
        if self._state != "new":
            raise RuntimeError(f"this executor is {self._state}: make a new one")
        self._unopened.excuse()
        reserve_standard_descriptors()
        self._loop_id = loop_id
        self.opened_in: JobInfo | None = GVAR.job
        self._engine = engine = Engine(self, lambda call: soon(loop_id, call), fail_fast=self._settings.fail_fast)
        engine.keeps_callers = is_notebook()
        engine.fetcher = Fetcher(lambda: self._check_loop("awaited"), self.later, max_message_bytes)
        super()._open(loop_id)
        self._service = self._make_service()
        self._calls = LocalCalls(engine, current, self, loop_id, echo=self._settings.echo)
        self._calls.observers = self._service.observers
        engine.jobs = self._service.runner
        if self._settings.observers:
            self._observe_calls()
        engine.calls = self._calls
        engine.cache = self._result_cache = ResultCache(engine, self.later)
        if self._settings.record:
            self._record()

    def _observe_calls(self) -> None:
        from grainlike.telemetry import ObservedRunner

        engine = self._engine
        observers, hands_on = self._settings.observers, engine.keeps_contexts
        engine.jobs = self._observed = ObservedRunner(engine.jobs, engine, observers, hands_on=hands_on)

    def _record(self) -> None:
        from grainlike.head import MOST, Recorder

        most = MOST if self._settings.record is True else self._settings.record
        self._recorder = recorder = Recorder(self.live_job, self.assembles, most, self._service.now)
        self._service.record(recorder)
        self._engine.applied = recorder.applied

    async def _live(self) -> None:
        with ExitStack() as stack:
            if not self._settings.echo:
                stack.enter_context(hooked_streams())
            if self._settings.logging and self.offer is not None:
                stack.enter_context(marked_records())
            if is_notebook() or is_prompt():
                from grainlike.executor._interrupts import interruptible

                stack.enter_context(interruptible(self.loop_id))
            stack.enter_context(self._service.held())
            async with anyio.create_task_group() as tasks:
                self._calls.open(tasks)
                try:
                    await self._service.open(tasks)
                    self._engine.release_hold()
                    self._opened.set()
                    await self._stop.wait()
                finally:
                    end_forked(self.loop_id, None)
                    with anyio.CancelScope(shield=True):
                        await self._end()
                    tasks.cancel_scope.cancel()

    async def _end(self) -> None:
        """End all work, then all connections."""
        left = self._service.detach()
        if self._observed is not None:
            self._observed.detached = left
        if self._left_in_order:
            log_left_calls(node for node in self._engine.unfinished() if node not in left)
        self._state = "closing"  # also when it was the loop that ended us
        self._engine.cancel_all(left)
        if self._engine.fetcher is not None:
            self._engine.fetcher.close()
        await self._service.close()

    async def _ended(self) -> None:
        self._engine.cancel_all()
        with anyio.CancelScope(shield=True):
            await self._result_cache.aclose()
        self._service.closed()
        if self._observed is not None:
            self._observed.closed()
        left(self, self.loop_id)
        if alone(self.loop_id):
            await leave_none(self.loop_id)
        if self._stands and not (is_notebook() or is_prompt()):
            with suppress(ResourceWarning):  # where warnings are errors: there is no caller to raise it to
                words = f"{self!r} was left to its loop: `await ex.aclose()`"
                warnings.warn(words, ResourceWarning, stacklevel=1, source=self)

    def _check_loop(self, what: str, *, open_only: bool = True) -> None:
        if self._state == "new":
            self._unopened.excuse()
            raise RuntimeError(f"{self!r} is not open: write {self._unopened.how}")
        if open_only and self._state != "open":
            raise RuntimeError(f"{self!r} is not open")
        if not is_here(self._loop_id):
            raise RuntimeError(
                f"this executor lives in the {self._loop_id}; it is {what} from {here() or 'no event loop'}: do so in "
                "an `async def` that runs there, or from a thread with `anyio.from_thread`. Web frameworks run a plain "
                "`def` in a thread"
            )

    def _check_end(self, error: BaseException | None) -> None:
        """Check that its block ends where it began; a child after fork, which `error` ends, gets no further."""
        end_forked(self.loop_id, error)
        self._check_loop("closed", open_only=False)

    def show_live(self, node: Node) -> bool:
        """Show a node in the notebook whose kernel this is, until it has finished; return False if there is none."""
        if not is_notebook() or self.loop_id.backend != "asyncio":
            return False
        if self._views is None:
            from grainlike.executor._live_views import LiveViews

            self._views = LiveViews(self.loop_id, self._engine.watch)
        self._views.show(node)
        return True

    # --- observers ---------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Report all job events to `observer` from now on, beginning with the workers that are connected."""
        self._service.introduce(observer)
        self._service.observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Report no more events to `observer`; no-op if it is not registered."""
        if observer in self._service.observers:
            self._service.observers.remove(observer)

    def copies(self) -> Callable[[], Iterator[Stretch]] | None:
        """Return what gives the copies of large values, of which a record is kept from now on; None where the head is
        elsewhere, or there is none.
        """
        return self._service.copies()

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        return self._service.live_job(number, attempt)

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more: it has not started."""
        return self._service.assembles(number)

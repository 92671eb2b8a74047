"""Lifecycle of an executor: when its head, engine and workers start and stop, and in which order."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from grainlike.cache import ResultCache
from grainlike.context import GVAR, JobInfo
from grainlike.engine import QUIET_S, BaseResolver, Engine, LocalCalls
from grainlike.eventloop import Alarm, EventLoopId, held_up, here, soon, spawn_detached
from grainlike.executor._current import alone, current, left
from grainlike.executor._embedded import embed, hooked_streams
from grainlike.executor._settings import Settings
from grainlike.head import Head
from grainlike.head.server import Acceptor, ClientRegistry
from grainlike.jobs import Job, Observer
from grainlike.nested import leave_none
from grainlike.resources import Allocation
from grainlike.subprocesses import reserve_standard_descriptors
from grainlike.system import import_paths

if TYPE_CHECKING:
    from grainlike.backends import BackendRunner
    from grainlike.head import Recorder
    from grainlike.head.server import Endpoint, OutcomeStore

__all__ = ["QUIET_S", "ExecutorBase"]

logger = logging.getLogger("grainlike")


class ExecutorBase(BaseResolver):
    """A head, an engine, and all that waits for them, from `_open` to the end of `_close`.

    Subclasses define the kind of head, and what clients may do to it: see the last two parts.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.offer: Allocation | None = settings.offer
        """Offer of the embedded worker, with ids; None without one."""
        self._recorder: Recorder | None = None
        self._state: Literal["new", "open", "closing", "closed"] = "new"
        self.opened_in: JobInfo | None = None
        """The job that opened it; jobs inherit the context of a task, which may refer to other executors."""
        self._failure: BaseException | None = None
        self._address: str | None = None

    # --- opening -----------------------------------------------------------------------------------------------------

    def _open(self, loop_id: EventLoopId) -> None:
        if self._state != "new":
            raise RuntimeError(f"this executor is {self._state}: make a new one")
        reserve_standard_descriptors()
        self._state = "open"
        self._loop_id = loop_id
        self.opened_in = GVAR.job
        self._opened = anyio.Event()
        self._stop = anyio.Event()
        self._closed = anyio.Event()
        self._changed = anyio.Event()
        self._engine = Engine(self, lambda call: soon(loop_id, call), fail_fast=self._settings.fail_fast)
        self._alarm = Alarm(self._ring)
        self._head = self._make_head()
        self._calls = LocalCalls(self._engine, current, self, loop_id, echo=self._settings.echo)
        self._calls.observers = self._head.observers
        self._engine.jobs = self._head
        self._foreign: BackendRunner | None = None
        if self._settings.manner is not None:
            from grainlike.backends import BackendRunner

            self._foreign = BackendRunner(
                self._settings.manner, self._engine, self._head.counters, self._head.observers
            )
            self._foreign.changed = self._settled
            self._engine.jobs = self._foreign
            self._engine.keeps_contexts = self._settings.manner.in_process
        self._engine.calls = self._calls
        self._engine.cache = self._result_cache = ResultCache(self._engine, self.later)
        if self._settings.record:
            self._record()
        self._task = spawn_detached(loop_id, "grainlike executor", self._serve)

    def _record(self) -> None:
        from grainlike.head import MOST, Recorder

        most = MOST if self._settings.record is True else self._settings.record
        self._recorder = self._head.recorder = recorder = Recorder(self.live_job, self.assembles, most, self._head.now)
        self._head.observers.append(recorder)
        self._head.counted = recorder.counted
        if self._foreign is not None:
            self._foreign.counted = recorder.counted
        self._engine.applied = recorder.applied

    # --- from the first moment to the last ---------------------------------------------------------------------------

    async def _close(self) -> None:
        if self._state == "open":
            self._state = "closing"
        self._stop.set()
        self._change()
        with anyio.CancelScope(shield=True):
            await self._closed.wait()

    async def _serve(self) -> None:
        """Run all waiting tasks, in one task group of a task of its own. Raises nothing but its cancellation."""
        try:
            await self._live()
        except Exception as error:
            self._failure = _innermost(error)
            if self._opened.is_set():
                logger.error("%r has failed: %r", self, self._failure, exc_info=self._failure)
        finally:
            self._state = "closed"
            self._change()
            self._engine.cancel_all()
            with anyio.CancelScope(shield=True):
                await self._result_cache.aclose()
            self._head.object_store.close()
            for observer in self._head.observers:
                observer.closed()
            left(self, self.loop_id)
            if alone(self.loop_id):
                await leave_none(self.loop_id)
            self._opened.set()
            self._closed.set()

    async def _live(self) -> None:
        # A loop that ends at once ends here: tasks that were made but never ran would be reported as never awaited.
        await anyio.lowlevel.checkpoint()
        with ExitStack() as stack:
            if not self._settings.echo:
                stack.enter_context(hooked_streams())
            endpoint = None
            if self._settings.listen is not None:
                endpoint = stack.enter_context(self._open_endpoint(self._settings.listen))
                self._address = str(endpoint.address)
            cluster = "embedded" if endpoint is None else endpoint.cluster
            clients = self._make_clients(cluster)
            store = None if endpoint is None else self._make_store(clients, cluster)
            if store is not None:
                stack.callback(store.close)
            clients.store = store
            joined = partial(self._joined, clients)
            acceptor = Acceptor(
                self._head, clients, cluster, import_paths(), self._settled, joined, returns=self._returns
            )
            async with anyio.create_task_group() as tasks:
                self._calls.open(tasks)
                tasks.start_soon(self._alarm.run)
                self._restore(acceptor, tasks)
                if store is not None:
                    tasks.start_soon(store.run)
                if endpoint is not None:
                    tasks.start_soon(endpoint.listener.serve, acceptor.admit)
                try:
                    if self.offer is not None:
                        await self._embed(tasks, acceptor, self.offer)
                    if self._foreign is not None:
                        await self._foreign.open(tasks, self.loop_id)
                    self._engine.release_hold()
                    self._opened.set()
                    await self._stop.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(acceptor, endpoint)
                    tasks.cancel_scope.cancel()

    async def _end(self, acceptor: Acceptor, endpoint: Endpoint | None) -> None:
        """End all work, then all connections."""
        acceptor.clients.leave_all()
        await self._quieten()
        if self._foreign is not None:
            await self._foreign.close()
        if endpoint is not None:
            endpoint.withdraw()
        await self._head.farewell()
        await acceptor.clients.farewell()

    async def _embed(self, tasks: TaskGroup, acceptor: Acceptor, offer: Allocation) -> None:
        link, serve = embed(offer, echo=self._settings.echo)
        tasks.start_soon(acceptor.admit, link)
        tasks.start_soon(serve)
        await self._until(lambda: bool(self._head.peers))

    async def _quieten(self) -> None:
        """Cancel everything, and wait until no job is anywhere."""
        self._state = "closing"  # also when it was the loop that ended us, so that each outcome is looked at below
        running = self._head.view.running()
        self._engine.cancel_all()
        with anyio.move_on_after(QUIET_S):
            await self._until(self._is_quiet)
        if not self._is_quiet():
            logger.warning(
                "some jobs did not end within %g s of being cancelled: %s; workers of their own are left, and the "
                "embedded one goes on cancelling",
                QUIET_S,
                "; ".join(self._holding_up(running)) or "calls on another engine",
            )

    def _holding_up(self, running: dict[int, str]) -> list[str]:
        """The jobs that have not ended, by number, and where they stand: their place in this process, or the worker."""
        here = held_up()
        rows = [row for row in self._head.view.rows(None) if row.worker]
        names = {row.job: f"{running.get(row.job) or row.name or 'a job'} (job {row.job})" for row in rows}
        return [f"{names[row.job]} at {here.get(names[row.job], f'worker {row.worker}')}" for row in rows]

    def _is_quiet(self) -> bool:
        return self._head.quiet and (self._foreign is None or self._foreign.quiet)

    # --- who waits for what ------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        self._engine.pump()
        if self._state != "open":
            self._change()

    def _joined(self, clients: ClientRegistry) -> None:
        clients.workers_changed()
        self._change()

    def _change(self) -> None:
        """Wake all waiters in `_until`, which check again."""
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    def _ring(self) -> None:
        self._head.tick()
        self._engine.pump()

    def _check_loop(self, what: str, *, open_only: bool = True) -> None:
        if open_only and self._state != "open":
            raise RuntimeError(f"{self!r} is not open")
        now = here()
        if now != self._loop_id:
            raise RuntimeError(
                f"this executor lives in the {self._loop_id}; it is {what} from {now or 'no event loop'}"
            )

    # --- who looks on ------------------------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """Report all job events to `observer` from now on, beginning with the workers that are connected."""
        for peer in self._head.peers.values():
            observer.joined(peer)
        if self._foreign is not None:
            self._foreign.introduce(observer)
        self._head.observers.append(observer)

    def unobserve(self, observer: Observer) -> None:
        """Report no more events to `observer`; no-op if it is not registered."""
        if observer in self._head.observers:
            self._head.observers.remove(observer)

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job if it is alive and this is its current attempt, else None."""
        if self._foreign is not None:
            return self._foreign.live_job(number, attempt)
        return self._head.view.job(number, attempt)

    def assembles(self, number: int) -> bool:
        """Return True if slots are held for this job on several workers while it waits for more: it has not started."""
        return self._head.view.assembles(number)

    # --- of which kind it is -----------------------------------------------------------------------------------------

    _returns = False
    """True if this head survives its process."""

    _keep: int | None = None
    """Bytes of outcomes that named sessions may keep in all; None for a limit that depends on the disk."""

    def _make_head(self) -> Head:
        return Head(self._engine, closed=self._settings.listen is None, alarm=self._alarm.set)

    def _open_endpoint(self, listen: str) -> AbstractContextManager[Endpoint]:
        from grainlike.head.server import open_endpoint

        return open_endpoint(listen, self._settings.access, insecure=self._settings.insecure)

    def _make_clients(self, cluster: str) -> ClientRegistry:
        return ClientRegistry(self._head, cluster, self._cancel_job, self._stop_asked, self._deserted)

    def _make_store(self, clients: ClientRegistry, cluster: str) -> OutcomeStore:
        """Return the store for outcomes of named calls that do not fit into memory."""
        from grainlike.head.server import OutcomeStore
        from grainlike.net import state_directory

        directory = state_directory() / "outcomes" / f"{cluster}-{secrets.token_hex(4)}"
        return OutcomeStore(lambda: clients.sessions, directory, self._keep, lasting=False)

    def _restore(self, acceptor: Acceptor, tasks: TaskGroup) -> None:
        """Restore the state, before connections are admitted."""

    # --- what clients may do -----------------------------------------------------------------------------------------

    def _cancel_job(self, number: int) -> bool:
        """End a job for everybody; False where there is none."""
        node = self._head.view.node_of(number)
        if node is None:
            return self._head.cancel_nested(number)
        self._engine.cancel([node])
        return True

    def _stop_asked(self) -> bool:
        """Handle a client's request that the head end; return False if clients may not request it."""
        return False

    def _deserted(self) -> None:
        """The last client has left."""


def _innermost(error: Exception) -> BaseException:
    """Return the first plain error inside a task group's exception group: users never see groups of ours."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner

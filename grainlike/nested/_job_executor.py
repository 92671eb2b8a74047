"""The resolver of one job: what runs the placeholders that the job awaits.

It is made when the job awaits its first one, and ends with the job, and what it still runs ends with it. Operators and
calls without resources run here, in the job's process; calls with resources go to the head (`_uplink`).

Stand-in for the workers where there is no connection to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import Context, ContextVar
from typing import Any, cast

import anyio

from grainlike.context import JobInfo, JobView, observers_here
from grainlike.engine import BaseResolver, Engine, LocalCalls, Waitable
from grainlike.errors import GraphError, UnsatisfiableError
from grainlike.eventloop import EventLoopId, here, soon, spawn_detached
from grainlike.graph import Node, fetched
from grainlike.jobs import OutcomeListener, WorkerInfo
from grainlike.nested._uplink import JobUplink
from grainlike.net import Uplink

__all__ = ["JobExecutor", "RejectJobs", "leave_none"]


_serving: dict[EventLoopId, set[JobExecutor]] = {}
"""Executors with calls without resources that have to be run to their end."""


class JobExecutor(BaseResolver):
    """Resolver of placeholders for `job`, in the event loop `loop_id`."""

    def __init__(self, loop_id: EventLoopId, view: JobView, job: JobInfo, current: ContextVar[Any]) -> None:
        self._loop_id = loop_id
        self.opened_in: JobInfo | None = job
        self._open = True
        self._engine = Engine(self, lambda call: soon(loop_id, call), fail_fast=True)
        self._local = LocalCalls(self._engine, current, self, loop_id)
        self._engine.calls = _Calls(self, self._local)
        self._stop: anyio.Event | None = None
        self._stopped: anyio.Event | None = None
        self._task: object = None
        self._uplink = self._attach(view, job)
        self._engine.jobs = RejectJobs(self._engine) if self._uplink is None else self._uplink
        self._observed: Any = None
        observers = observers_here.get()
        if observers and self._uplink is not None:
            self._observed = observers[0].observing(self._uplink, self._engine, observers)
            self._engine.jobs = self._observed
        self._engine.release_hold()

    def _attach(self, view: JobView, job: JobInfo) -> JobUplink | None:
        uplink = cast("Uplink | None", view.uplink)
        if uplink is None:
            return None
        engine = self._engine
        job = (view.carrier or view).job or job  # what the worker knows it as
        own = JobUplink(view, job, uplink, engine, engine.pump, self.soon, self.close)
        return own if uplink.attach(job.id, own) else None

    def __repr__(self) -> str:
        return f"<the executor of job {self.opened_in.id if self.opened_in is not None else 0}>"

    # --- the graph's resolver ----------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """True while its job runs."""
        return self._open

    async def wait(self, node: Node) -> Any:
        """Start what is not started, wait for the node, and return its value or raise its error."""
        self._check_loop("awaited")
        if not node.finished:
            self._engine.start([node])
            if not node.finished:
                arrived = anyio.Event()
                self._engine.watch(node, arrived.set)
                await self.pause(arrived, lambda: [node], lambda: self._release(node, arrived))
                self._release(node, arrived)
        return await fetched(node) if node.stays else node.result()

    def _release(self, node: Node, arrived: anyio.Event) -> None:
        self._engine.unwatch(node, arrived.set)
        self._engine.release([node])

    async def pause(self, event: Waitable, nodes: Callable[[], Iterable[Node]], release: Callable[[], None]) -> None:
        """Wait for an event that comes with the end of one of `nodes`; call `release` if that is cancelled."""
        if self._uplink is not None:
            await self._uplink.wait(event, nodes, release)
            return
        try:
            await event.wait()
        except BaseException:
            release()
            raise

    def workers(self) -> list[WorkerInfo]:
        """Return no workers: a job sees none."""
        return []

    def _check_loop(self, what: str) -> None:
        if not self.is_open:
            raise GraphError(f"{self!r} has ended with its job")
        now = here()
        if now != self.loop_id:
            raise RuntimeError(f"{self!r} lives in the {self.loop_id}; it is {what} from {now or 'no event loop'}")

    # --- calls without resources -------------------------------------------------------------------------------------

    def serve_calls(self) -> None:
        """Start the task in which calls without resources run, if there is none."""
        if self._stop is None:
            self._stop, self._stopped = anyio.Event(), anyio.Event()
            _serving.setdefault(self.loop_id, set()).add(self)
            self._task = spawn_detached(self.loop_id, "grainlike calls of a job", self._serve)

    async def _serve(self) -> None:
        assert self._stop is not None
        assert self._stopped is not None
        try:
            async with anyio.create_task_group() as tasks:
                self._local.open(tasks)
                await self._stop.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._open = False
            self._engine.cancel_all()
            _serving.get(self.loop_id, set()).discard(self)
            self._stopped.set()

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """The job has ended: so does what it has left behind."""
        if self.is_open:
            self._open = False
            self._engine.jobs = RejectJobs(self._engine)
            self._engine.cancel_all()
            if self._observed is not None:
                self._observed.closed()
            if self._stop is not None and self._stopped is not None and not self._stopped.is_set():
                self._stop.set()

    async def gone(self) -> None:
        """Close, and wait until nothing of it runs."""
        self.close()
        if self._stopped is not None:
            await self._stopped.wait()


class _Calls:
    """Calls without resources of a job: most jobs that await make none, and need no task for them."""

    def __init__(self, owner: JobExecutor, local: LocalCalls) -> None:
        self._owner = owner
        self._local = local

    def begin(self, node: Node, context: Context) -> None:
        self._owner.serve_calls()
        self._local.begin(node, context)

    def cancel(self, node: Node) -> None:
        self._local.cancel(node)


async def leave_none(loop_id: EventLoopId) -> None:
    """Run the executors of a loop's jobs to their ends."""
    for executor in list(_serving.pop(loop_id, ())):
        await executor.gone()


class RejectJobs:
    """Rejects calls with resources, with an error that names what to do instead."""

    def __init__(self, outcomes: OutcomeListener) -> None:
        self._outcomes = outcomes

    def submit(self, nodes: Iterable[Node]) -> None:
        """Fail each of them."""
        for node in nodes:
            name = node.function.name
            error = UnsatisfiableError(
                f"{name} asks for {node.request}, and there is no way to the head from here: a job has one in the main "
                "thread of its process, and until it ends"
            )
            self._outcomes.failed(node, error)

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Do nothing: no call ever started."""

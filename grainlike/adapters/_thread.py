"""An executor in a thread of its own, that other threads hand calls to."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

import anyio

from grainlike.errors import GrainlikeError, JobCancelledError
from grainlike.executor import Executor
from grainlike.graph import Delayed, Node, node_behind
from grainlike.net import loop_options

if TYPE_CHECKING:
    from grainlike.executor._job import Job
    from grainlike.executor._observer import Worker
    from grainlike.executor._workers import WorkerInfo
    from grainlike.wire import Report

__all__ = ["ExecutorThread"]


class _Call:
    """A placeholder that was handed in, and the future that tells of it. Of the executor's thread alone."""

    __slots__ = ("_told", "future", "node")

    def __init__(self, node: Node, future: Future[Any]) -> None:
        self.node = node
        self.future = future
        self._told = False

    def begin(self) -> bool:
        """It runs, or has run: it cannot be cancelled any more. False if it was."""
        if self._told:
            return not self.future.cancelled()
        self._told = True
        return self.future.set_running_or_notify_cancel()

    def finish(self) -> None:
        """Tell of the node's outcome."""
        if not self.begin():
            return
        error = self.node.error
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self.node.value)


class ExecutorThread:
    """Runs `Executor(**options)` in an event loop of its own, from when it is made until `end`, and its last call.

    Nothing of it refers to whoever made it, so that a pool which is dropped can be seen to be.

    Raises:
        Whatever opening the executor raises.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a pool may be found to be dropped in the middle of anything
        self._inbox: deque[Callable[[], None]] = deque()
        self._awake = False
        self._ending = False
        self._calls: dict[Node, list[_Call]] = {}
        """Those that have not ended; a placeholder may be started more than once."""
        self._starting: list[_Call] = []
        self._opened: Future[Executor] = Future()
        self._thread = threading.Thread(target=self._run, name="grainlike pool", daemon=True)
        self._thread.start()
        try:
            self.executor = self._opened.result()
        except BaseException:
            self._thread.join()
            raise
        _open.add(self)

    # --- from any thread ---------------------------------------------------------------------------------------------

    def start(self, placeholder: Delayed[Any]) -> Future[Any]:
        """Start a placeholder; the future tells how it ends.

        Raises:
            RuntimeError: it is ending, or lives in another process.
        """
        if os.getpid() != self._pid:
            raise RuntimeError(f"this pool lives in process {self._pid}, and was not forked with this one")
        future: Future[Any] = Future()
        call = _Call(node_behind(placeholder), future)
        with self._lock:
            if self._ending:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._post(lambda: self._starting.append(call))
        future.add_done_callback(lambda done: self._cancelled(call) if done.cancelled() else None)
        return future

    def workers(self) -> list[WorkerInfo]:
        """The workers that are here.

        Raises:
            RuntimeError: it is ending.
        """
        told: Future[list[WorkerInfo]] = Future()
        with self._lock:
            if self._ending:
                raise RuntimeError("this pool was shut down")
            self._post(lambda: told.set_result(self.executor.workers()))
        return told.result()

    def end(self, *, cancel: bool = False) -> None:
        """Take nothing more, and end with the last call; `cancel` those that have not begun. Does not wait."""
        with self._lock:
            self._ending = True
            with suppress(RuntimeError):  # it has ended before, and its loop is closed
                self._post(self._cancel_all if cancel else _nothing)

    def abandon(self, futures: Iterable[Future[Any]]) -> None:
        """End these calls, those that run too, with `JobCancelledError`. Does not wait."""
        unwanted = set(futures)
        with self._lock, suppress(RuntimeError):  # its loop is closed, and nothing runs
            self._post(lambda: self._abandon(unwanted))

    def join(self) -> None:
        """Wait until it has ended, and no thread and no process of it is left."""
        self._thread.join()

    def _cancelled(self, call: _Call) -> None:
        with self._lock, suppress(RuntimeError):  # its loop is closed, and it has told of all there was
            self._post(lambda: self._withdraw(call))

    def _post(self, order: Callable[[], None]) -> None:
        """Have the executor's thread do something; under the lock."""
        self._inbox.append(order)
        if not self._awake:
            self._loop.call_soon_threadsafe(self._wake.set)
            self._awake = True

    # --- in its own --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            anyio.run(self._serve, backend="asyncio", backend_options=loop_options())
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            _open.discard(self)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        try:
            async with Executor(**self._options) as executor:
                executor.observe(self)
                self._opened.set_result(executor)
                while self._inbox or self._calls or not self._ending:
                    await self._wake.wait()
                    self._drain()
        finally:
            self._fail_all()

    def _drain(self) -> None:
        self._wake.clear()
        with self._lock:
            self._awake = False
            orders = list(self._inbox)
            self._inbox.clear()
        for order in orders:
            order()
        starting, self._starting = self._starting, []
        live = [call for call in starting if not call.future.cancelled()]
        try:
            self.executor.start([call.node for call in live])  # all at once: the head takes them as one batch
        except GrainlikeError:  # one of them cannot be started, so none was
            live = [call for call in live if self._may_start(call)]
        for call in live:
            if call.node.finished:
                call.finish()
            elif call.node in self._calls:
                self._calls[call.node].append(call)
            else:
                self._calls[call.node] = [call]
                self.executor.watch(call.node, _End(self, call.node))

    def _may_start(self, call: _Call) -> bool:
        try:
            self.executor.start([call.node])
        except GrainlikeError as error:
            if call.begin():
                call.future.set_exception(error)
            return False
        return True

    def _withdraw(self, call: _Call) -> None:
        call.begin()
        calls = self._calls.get(call.node, [])
        if call in calls:
            calls.remove(call)
            if not calls:
                del self._calls[call.node]
            self.executor.release([call.node])
        self._wake.set()

    def _abandon(self, unwanted: set[Future[Any]]) -> None:
        every = [*self._starting, *chain.from_iterable(self._calls.values())]
        for call in [call for call in every if call.future in unwanted]:
            if not call.future.cancel():
                self._withdraw(call)
                call.future.set_exception(JobCancelledError("its pool was told to end it"))

    def _cancel_all(self) -> None:
        for call in [*self._starting, *chain.from_iterable(self._calls.values())]:
            call.future.cancel()  # its callback withdraws it

    def _fail_all(self) -> None:
        """The executor is gone, though there was work."""
        with self._lock:
            self._ending = True
        for call in chain.from_iterable(self._calls.values()):
            if call.begin():
                call.future.set_exception(RuntimeError("the executor of this pool has failed; see the log"))
        self._calls.clear()

    def finished(self, node: Node) -> None:
        """Calls have their outcome."""
        for call in self._calls.pop(node, ()):
            call.finish()
        if self._ending and not self._calls:
            self._wake.set()

    # --- what its executor tells: see `Observer` ---------------------------------------------------------------------

    def joined(self, peer: Worker) -> None:
        """See `Observer`."""

    def suspected(self, peer: Worker, why: str) -> None:
        """Its leases go on."""

    def quarantined(self, peer: Worker, why: str) -> None:
        """Its leases go on."""

    def left(self, peer: Worker) -> None:
        """See `Observer`."""

    def reported(self, peer: Worker, report: Report) -> None:  # noqa: ARG002 - it does not matter who runs it
        """Calls began: they are running from now on."""
        for start in report.started:
            for number, attempt in zip(start.jobs, start.attempts, strict=True):
                job = self.executor.live_job(number, attempt)
                if job is not None and job.node is not None:
                    self.called(job.node)

    def linked(self, job: Job, *, good: bool) -> None:
        """See `Observer`."""

    def called(self, node: Node) -> None:
        """A call began; those without resources are told of by themselves."""
        for call in self._calls.get(node, ()):
            call.begin()

    def closed(self) -> None:
        """See `Observer`."""


class _End:
    """Tells of the end of a node."""

    __slots__ = ("_node", "_thread")

    def __init__(self, thread: ExecutorThread, node: Node) -> None:
        self._thread = thread
        self._node = node

    def set(self) -> None:
        self._thread.finished(self._node)


def _nothing() -> None:
    """Wakes who waits."""


_open: weakref.WeakSet[ExecutorThread] = weakref.WeakSet()
"""Those that have not ended."""


@atexit.register
def _end_all() -> None:
    """At the end of the program: wait for what was submitted, as the standard library's pools do."""
    for thread in list(_open):
        thread.end()
        thread.join()

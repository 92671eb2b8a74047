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
from contextvars import Context, copy_context
from functools import partial
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import anyio

from grainlike.adapters._calls import InitializerFailedError
from grainlike.adapters._future import BrokenPoolError, PoolCall, PoolFuture, as_library_error, here
from grainlike.engine import bring
from grainlike.errors import GrainlikeError, JobCancelledError
from grainlike.eventloop import loop_options
from grainlike.executor import Executor, connect
from grainlike.graph import Delayed, Node, excuse, node_behind, unfinished_nodes

if TYPE_CHECKING:
    from grainlike.jobs import Job, Worker, WorkerInfo
    from grainlike.wire import Report

__all__ = ["ExecutorThread"]

T = TypeVar("T")


class _Request(NamedTuple):
    """Work for the executor's thread. `answer` fails when the thread ends before the work is done."""

    do: Callable[[], None]
    answer: Future[Any] | None = None


class ExecutorThread:
    """Runs `Executor(**options)`, or with `head` among them `connect(head, **options)`, in an event loop of its own.

    It does from when it is made until `end`, and its last call.

    Nothing of it refers to its maker, so that a dropped pool is collected.

    Raises:
        Whatever opening the executor raises.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a pool may be found to be dropped in the middle of anything
        self._inbox: deque[_Request] = deque()
        self._awake = False
        self._ending = False
        self._broken: BaseException | None = None
        """Error for which it has ended before `end`; None while it has not."""
        self._spells = 0
        """Number of calls of `end_after` and `keep`: the last one holds."""
        self._failed = False
        """True if the executor has closed by itself."""
        self._over = False
        """True once it does nothing more."""
        self._calls: dict[Node, list[PoolCall]] = {}
        """Calls that have not ended; a placeholder may be started more than once."""
        self._starting: list[PoolCall] = []
        self._watched: set[Node] = set()
        """Nodes whose ends are watched; each once."""
        self._keeps_contexts = getattr(options.get("backend"), "in_process", False)
        self._task: asyncio.Task[Any] | None = None
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
        """Start a placeholder; the future receives its outcome.

        Raises:
            RuntimeError: the thread is ending, or lives in another process.
            BrokenPoolError: its thread has died.
        """
        future: PoolFuture[Any] = PoolFuture()
        call = PoolCall(node_behind(placeholder), future, copy_context() if self._keeps_contexts else None)
        # The future outlives its call: a reference back to the call would be a cycle, and would keep the arguments.
        known = weakref.ref(call)
        try:
            self._check_process()
            with self._lock:
                self._check_open()
                self._post(_Request(lambda: self._starting.append(call), future))
        except RuntimeError:
            excuse(unfinished_nodes([call.node]))  # the error says it all
            raise
        future.add_done_callback(lambda done: self._cancelled(known()) if done.cancelled() else None)
        return future

    def call_back(self, future: Future[T], fn: Callable[[Future[T]], object]) -> None:
        """Call `fn(future)` once it is done, in this thread, so that such calls never overlap.

        `Future.add_done_callback` calls it in the thread that asks, where the future is done already.
        """
        future.add_done_callback(partial(self._call_here, fn))

    def _call_here(self, fn: Callable[[Future[T]], object], future: Future[T]) -> None:
        if threading.current_thread() is self._thread:
            fn(future)
            return
        turn: PoolFuture[None] = PoolFuture()
        turn.add_done_callback(lambda _: fn(future))
        with self._lock:
            if not self._over:
                with suppress(RuntimeError):  # its loop is closed: it fails what is in the inbox
                    self._post(_Request(partial(turn.set_result, None), turn))
                return
        turn.set_result(None)

    def workers(self) -> list[WorkerInfo]:
        """Return the workers that are here.

        Raises:
            RuntimeError: the thread is ending.
            BrokenPoolError: its thread has died.
        """
        told: Future[list[WorkerInfo]] = Future()
        self._check_process()
        with self._lock:
            self._check_open()
            self._post(_Request(lambda: told.set_result(self.executor.workers()), told))
        return told.result()

    @property
    def is_open(self) -> bool:
        """True while calls are taken."""
        return not self._ending

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # a lock of its copy may be held for ever
            raise RuntimeError(f"this pool lives in process {self._pid}, and was not forked with this one")

    def _check_open(self) -> None:
        if self._broken is not None:
            raise BrokenPoolError(str(self._broken)) from self._broken.__cause__
        if self._ending:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def end(self, *, cancel: bool = False) -> None:
        """Take nothing more, and end with the last call; `cancel` those that have not begun. Does not wait."""
        with self._lock:
            self._ending = True
            with suppress(RuntimeError):  # it has ended before, and its loop is closed
                self._post(_Request(self._cancel_all if cancel else _nothing))

    def end_after(self, seconds: float) -> bool:
        """End in so many seconds, unless `keep` is called before. False if it is ending."""
        with self._lock:
            if self._ending:
                return False
            self._spells += 1
            spell = self._spells
            self._post(_Request(lambda: self._idle_until(seconds, spell)))
            return True

    def keep(self) -> bool:
        """Undo `end_after`; return False if it is ending."""
        with self._lock:
            self._spells += 1
            return not self._ending

    def abandon(self, futures: Iterable[Future[Any]]) -> None:
        """End these calls, those that run too, with `JobCancelledError`. Does not wait."""
        unwanted = set(futures)
        with self._lock, suppress(RuntimeError):  # its loop is closed, and nothing runs
            self._post(_Request(lambda: self._abandon(unwanted)))

    def join(self) -> None:
        """Wait until it has ended, and no thread and no process of it is left."""
        self._thread.join()

    def _cancelled(self, call: PoolCall | None) -> None:
        if call is not None:
            with self._lock, suppress(RuntimeError):  # its loop is closed, and it has told of all there was
                self._post(_Request(lambda: self._withdraw(call)))

    def _post(self, order: _Request) -> None:
        """Have the executor's thread do something; under the lock."""
        self._inbox.append(order)
        if not self._awake:
            self._loop.call_soon_threadsafe(self._wake.set)
            self._awake = True

    # --- in its own --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        here.in_pool = True
        why: BaseException | None = None
        try:
            anyio.run(self._serve, backend="asyncio", backend_options=loop_options())
        except BaseException as error:  # noqa: BLE001 - a thread has no caller to raise it to
            why = error
            if not self._opened.done():
                self._opened.set_exception(error)
        finally:
            self._fail_all(why)
            _open.discard(self)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._wake = asyncio.Event()
        async with _executor(self._options) as executor:
            executor.observe(self)
            self._opened.set_result(executor)
            while self._has_work():
                await self._wake.wait()
                self._drain()

    def _has_work(self) -> bool:
        with self._lock:
            return not self._failed and bool(self._inbox or self._calls or not self._ending)

    def _idle_until(self, seconds: float, spell: int) -> None:
        def end() -> None:
            with self._lock:
                if self._spells == spell:
                    self.end()

        self._loop.call_later(seconds, end)

    def _drain(self) -> None:
        self._wake.clear()
        with self._lock:
            self._awake = False
            orders = list(self._inbox)
            self._inbox.clear()
        for order in orders:
            order.do()
        self._start_all()

    def _start_all(self) -> None:
        """Start the calls that were handed in and not withdrawn."""
        starting, self._starting = self._starting, []
        live = [call for call in starting if not call.future.cancelled()]
        for call in live:  # known before they start: they may begin at once
            self._calls.setdefault(call.node, []).append(call)
        self._start(live)
        for node in dict.fromkeys(call.node for call in live):
            if node.finished:
                self.finished(node)
            elif node in self._calls and node not in self._watched:
                self._watched.add(node)
                self.executor.watch(node, partial(self.finished, node))

    def _start(self, calls: list[PoolCall]) -> None:
        if self._keeps_contexts:
            for call in calls:
                self._start_alone(call)
            return
        try:
            self.executor.start([call.node for call in calls])  # all at once: the head takes them as one batch
        except GrainlikeError:  # one of them cannot be started, so none was
            for call in calls:
                self._start_alone(call)

    def _start_alone(self, call: PoolCall) -> None:
        context = call.context or _EMPTY
        try:
            context.run(self.executor.start, [call.node])
        except GrainlikeError as error:
            self._forget(call)
            call.fail(error)

    def _forget(self, call: PoolCall) -> bool:
        """Remove a call; return True if it had not ended."""
        calls = self._calls.get(call.node, [])
        if call not in calls:
            return False
        calls.remove(call)
        if not calls:
            del self._calls[call.node]
            self._watched.discard(call.node)
        return True

    def _withdraw(self, call: PoolCall) -> None:
        call.begin()
        if self._forget(call):
            self.executor.release([call.node])
        self._wake.set()

    def _abandon(self, unwanted: set[Future[Any]]) -> None:
        every = [*self._starting, *chain.from_iterable(self._calls.values())]
        for call in [call for call in every if call.future in unwanted]:
            if not call.future.cancel():
                self._withdraw(call)
                call.future.set_exception(JobCancelledError("its pool was told to end it"))

    def _cancel_all(self) -> None:
        self._start_all()  # calls for which there are free threads have begun, as with the standard library's pools
        for call in list(chain.from_iterable(self._calls.values())):
            call.future.cancel()  # its callback withdraws it

    def _fail_all(self, why: BaseException | None) -> None:
        """The thread ends; whatever is still open will never be done."""
        with self._lock:
            self._ending = self._over = True
            calls = [*self._starting, *chain.from_iterable(self._calls.values())]
            answers = [order.answer for order in self._inbox if order.answer is not None]
            self._starting, self._calls, self._inbox = [], {}, deque()
            if why is not None or calls or answers:
                self._broken = _broken(why)
        if self._broken is None:
            return
        for call in calls:
            call.fail(self._broken)
        for answer in answers:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(self._broken)

    def _brought(self, node: Node, error: BaseException | None) -> None:
        """The value of calls is in the program now; `error`: it never will be."""
        if error is None:
            self.finished(node)
            return
        self._watched.discard(node)
        for call in self._calls.pop(node, ()):
            call.fail(error)
        if self._ending and not self._calls:
            self._wake.set()

    def finished(self, node: Node) -> None:
        """Calls have their outcome."""
        if node.stays:  # futures have their values at once
            bring(node, partial(self._brought, node))
            return
        if node.error is not None and self._is_dying():
            return  # it is the thread's end that fails them, and `_fail_all` says so
        self._watched.discard(node)
        calls = self._calls.pop(node, ())
        for call in calls:
            call.finish()
        if calls and isinstance(node.error, InitializerFailedError):
            self._break(as_library_error(node.error))
        if self._ending and not self._calls:
            self._wake.set()

    def _break(self, why: BaseException) -> None:
        """Fail everything that is open, and take nothing more."""
        with self._lock:
            if self._broken is not None:
                return
            self._ending = True
            self._broken = why
        for call in [*self._starting, *chain.from_iterable(self._calls.values())]:
            self._withdraw(call)
            call.fail(why)
        self._starting = []

    def _is_dying(self) -> bool:
        """Return True if the loop or the executor ends without `end`."""
        return self._failed or (self._task is not None and self._task.cancelling() > 0)

    # --- what its executor tells: see `Observer` ---------------------------------------------------------------------

    def joined(self, peer: Worker) -> None:
        """Do nothing when a worker joins."""

    def suspected(self, peer: Worker, why: str) -> None:
        """Do nothing: leases of a suspected worker continue."""

    def quarantined(self, peer: Worker, why: str) -> None:
        """Do nothing: leases of a quarantined worker continue."""

    def left(self, peer: Worker) -> None:
        """Do nothing when a worker leaves."""

    def reported(self, peer: Worker, report: Report) -> None:  # noqa: ARG002 - it does not matter who runs it
        """Calls began: they are running from now on."""
        for start in report.started:
            for number, attempt in zip(start.jobs, start.attempts, strict=True):
                job = self.executor.live_job(number, attempt)
                if job is not None and job.node is not None:
                    self.called(job.node)

    def linked(self, job: Job, *, good: bool) -> None:
        """Do nothing for a call of a chain."""

    def called(self, node: Node) -> None:
        """Mark a call as begun; those without resources are reported separately."""
        for call in self._calls.get(node, ()):
            call.begin()

    def closed(self) -> None:
        """The executor is closed: by `end`, or because it has failed."""
        self._failed = True
        self._wake.set()


def _executor(options: dict[str, Any]) -> Executor:
    if options.get("head") is None:
        return Executor(**{name: value for name, value in options.items() if name != "head"})
    for name in ("local", "listen", "backend"):
        if name in options:
            raise ValueError(f"head= runs the calls on that head's workers: leave {name}= out")
    return connect(options["head"], **{name: value for name, value in options.items() if name != "head"})


def _nothing() -> None:
    """Do nothing: only wakes the loop."""


def _broken(why: BaseException | None) -> BrokenPoolError:
    if why is None:
        return BrokenPoolError("the executor of this pool has failed; see the log. Open a new pool")
    error = BrokenPoolError(f"the thread of this pool was ended by {type(why).__name__}: {why}. Open a new pool")
    error.__cause__ = why
    return error


_EMPTY = Context()

_open: weakref.WeakSet[ExecutorThread] = weakref.WeakSet()
"""Threads that have not ended."""


def _end_all() -> None:
    """At the end of the program: wait for what was submitted, as the standard library's pools do."""
    for thread in list(_open):
        thread.end()
        thread.join()


def _at_exit() -> None:
    """Have `_end_all` called before the standard library's own pools refuse work, which backends run theirs in.

    They refuse it from their hook at the end of threading, which runs before all of `atexit`; hooks run in the reverse
    order of their registration, and theirs is registered when `concurrent.futures.thread` is imported.
    """
    import_module("concurrent.futures.thread")
    getattr(threading, "_register_atexit", atexit.register)(_end_all)


_at_exit()

"""Calls without resources: they run here, in the caller's process, in tasks and threads that end with the executor.

An `async def` call is a task that ends before the executor's group does, in a copy of the context in which its graph
was started. Calls begin in the order in which they are ready. One is cancelled as a job is: see `RepeatedCancellation`.
A plain function gets a thread, at most `THREADS` at a time; a thread cannot be interrupted, so a cancelled call's
answer is thrown away, and closing the executor waits until the function has returned.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.abc import TaskGroup

from grainlike._retrying import backoff_s, tries_again
from grainlike.context import leave_job
from grainlike.engine._interfaces import QUIET_S
from grainlike.engine._streams import buffer_of, stream_here
from grainlike.engine._thread_call import ThreadCall
from grainlike.errors import JobCancelledError, JobTimeoutError
from grainlike.eventloop import Cancellation, EventLoopId, RepeatedCancellation, cancel_once, name_the_loop
from grainlike.graph import Delayed, Node, Record, State, StreamNode
from grainlike.jobs import Observer

__all__ = ["LocalCall", "LocalCalls"]

logger = logging.getLogger("grainlike")

THREADS = 40
"""Number of plain functions that run at once; anyio's own default for worker threads."""


class CallListener(Protocol):
    """Receiver of the outcomes of calls."""

    def succeeded(self, node: Node, value: object) -> None: ...
    def failed(self, node: Node, error: BaseException) -> None: ...
    def pump(self) -> None: ...


class LocalCalls:
    """Runs calls for one engine, once it is `open`. In each, `current` is `owner`, so that nested awaits find it.

    Without `echo`, this program's streams do not show what they print.
    """

    def __init__(
        self,
        outcomes: CallListener,
        current: ContextVar[Any],
        owner: object,
        loop_id: EventLoopId,
        *,
        echo: bool = True,
    ) -> None:
        self.observers: Sequence[Observer] = ()
        self._outcomes = outcomes
        self._current = current
        self._owner = owner
        self._loop_id = loop_id
        self._echo = echo
        self._running: dict[Node, _Task] = {}
        self._starts = _Starts()
        self._ended = anyio.Event()
        self._threads_left: dict[ThreadCall, str] = {}
        self._threads = anyio.CapacityLimiter(THREADS)
        self._tasks: TaskGroup | None = None
        self._early: list[tuple[Node, Context]] = []
        """Calls made before the executor had opened: an implicit one is used without waiting for it to open."""

    def open(self, tasks: TaskGroup) -> None:
        """Run calls in `tasks` from now on, and those that were made before."""
        self._tasks = tasks
        tasks.start_soon(self._see_off)
        early, self._early = self._early, []
        for node, context in early:
            if not node.finished:
                self.begin(node, context)

    def begin(self, node: Node, context: Context) -> None:
        """Run the call of `node`."""
        if self._tasks is None:
            self._early.append((node, context))
            return
        own = context.copy()
        own.run(name_the_loop, self._loop_id)  # this may be a callback of the loop, where no task runs
        task = _ScopedTask(node, self._starts) if self._loop_id.backend == "trio" else _AsyncioTask(node)
        self._running[node] = task
        own.run(task.start, self._tasks, self._loop_id, self._run, self._end)

    def cancel(self, node: Node) -> None:
        """End the call: a coroutine gets its cancellation, a thread's answer is thrown away."""
        task = self._running.get(node)
        if task is not None and task.cancellation is None:
            task.cancellation = task.cancel()

    async def _see_off(self) -> None:
        """Wait until every call has ended when the executor closes, and log once which of them take long."""
        try:
            await anyio.sleep_forever()
        finally:
            for node in list(self._running):
                self.cancel(node)
            with anyio.CancelScope(shield=True):
                with anyio.move_on_after(QUIET_S):
                    await self._all_ended()
                if self._running or self._threads_left:
                    logger.warning("closing waits for calls that were cancelled: %s", "; ".join(self._holding_up()))
                await self._all_ended()

    async def _all_ended(self) -> None:
        while self._running or self._threads_left:
            self._ended = anyio.Event()
            await self._ended.wait()

    def _holding_up(self) -> list[str]:
        """Return the calls that have not ended, and where they stand."""
        calls = [
            f"{node.function.name}, at {task.cancellation.place}" if task.cancellation else node.function.name
            for node, task in self._running.items()
        ]
        return calls + [f"{name}, at {thread.place}" for thread, name in self._threads_left.items()]

    async def _run(self, task: _Task) -> None:
        """Run the call and report its outcome; only cancellation leaves this."""
        node = task.node
        try:
            if not node.finished and task.cancellation is None:  # else its arguments may be gone
                await self._settle(task)
        finally:
            self._end(task)

    def _end(self, task: _Task) -> None:
        """The task has ended; the second time does nothing."""
        if self._running.get(task.node) is not task:
            return
        del self._running[task.node]
        if task.cancellation is not None:
            task.cancellation.settled()
        if isinstance(task.node.record, LocalCall):
            task.node.record.end()
        self._ended.set()
        self._outcomes.pump()

    async def _settle(self, task: _Task) -> None:
        node = task.node
        leave_job(silent=not self._echo)
        self._current.set(self._owner)
        call = self._call if node.function.is_async else self._call_in_thread
        if isinstance(node, StreamNode):
            call = stream_here
        try:
            value = await self._attempts(node, call)
        except anyio.get_cancelled_exc_class():
            if task.cancellation is not None or self._closing():
                raise
            self._outcomes.failed(node, JobCancelledError(f"{node.function.name} cancelled itself"))
        except GeneratorExit:
            raise  # `_in_time` lets it through where the event loop closes this coroutine alone
        except BaseException as error:  # noqa: BLE001 - the call's own, SystemExit included: its awaiters raise it
            self._outcomes.failed(node, error)
        else:
            self._outcomes.succeeded(node, value)

    async def _attempts(self, node: Node, call: Callable[[Node], Coroutine[Any, Any, Any]]) -> Any:
        """Make the call, again while it fails and `retries` are left; each attempt has all of `timeout`."""
        retry = node.function.options.retry
        failures = 0
        while True:
            try:
                return await _in_time(node, call)
            except Exception as error:
                failures += 1
                begun = isinstance(node, StreamNode) and buffer_of(node).begun
                again = tries_again(failures, retry.times, covered=retry.covers(type(error)), committed=begun)
                if node.finished or not again:
                    raise
            if retry.waits is not None:
                await self._back_off(node, backoff_s(retry.waits, failures, random.random()))  # noqa: S311

    async def _back_off(self, node: Node, seconds: float) -> None:
        """Wait for the time of the next attempt."""
        node.state = State.PENDING
        if isinstance(node.record, LocalCall):
            node.record.again_at = time.monotonic() + seconds
        await anyio.sleep(seconds)

    async def _call(self, node: Node) -> Any:
        self._begins(node)
        args, kwargs = node.arguments()
        return _no_placeholder(node, await node.function.callable(*args, **kwargs))

    async def _call_in_thread(self, node: Node) -> Any:
        async with self._threads:
            self._begins(node)
            args, kwargs = node.arguments()
            return _no_placeholder(node, await self._in_thread(node, args, kwargs))

    def _begins(self, node: Node) -> None:
        """An attempt begins now."""
        node.state = State.RUNNING
        node.record = LocalCall(node.record.attempt + 1 if node.record is not None else 1)
        for observer in self.observers:
            observer.called(node)

    async def _in_thread(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a plain function in a thread of its own, with this context; cancelled, leave the thread to its end."""
        call = ThreadCall(node.function.callable, args, kwargs, self._loop_id, self._threads)
        try:
            await call.done.wait()
        except anyio.get_cancelled_exc_class():
            assert self._tasks is not None
            call.abandon()
            self._threads_left[call] = node.function.name
            self._tasks.start_soon(self._outlive, call)
            raise
        return call.result()

    async def _outlive(self, call: ThreadCall) -> None:
        """Wait for the thread of an abandoned call: closing the executor must leave none behind."""
        with anyio.CancelScope(shield=True):
            await call.done.wait()
        call.join()
        del self._threads_left[call]
        self._ended.set()

    def _closing(self) -> bool:
        return self._tasks is None or self._tasks.cancel_scope.cancel_called


_Run: TypeAlias = "Callable[[_Task], Coroutine[Any, Any, None]]"
_Ended: TypeAlias = "Callable[[_Task], None]"


class _Task(ABC):
    """The task of one call."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cancellation: Cancellation | None = None

    @abstractmethod
    def start(self, tasks: TaskGroup, loop_id: EventLoopId, run: _Run, ended: _Ended) -> None:
        """Make the task, in the current context."""

    @abstractmethod
    def cancel(self) -> Cancellation:
        """Cancel the call."""


class _AsyncioTask(_Task):
    def start(self, tasks: TaskGroup, loop_id: EventLoopId, run: _Run, ended: _Ended) -> None:  # noqa: ARG002 - asyncio's own: an anyio scope would cancel each await of a `finally`
        loop: Any = loop_id.loop
        self._task: asyncio.Task[None] = loop.create_task(run(self), name=self.node.function.name)
        # A task that is cancelled before its first step never takes one.
        self._task.add_done_callback(lambda _: ended(self))

    def cancel(self) -> Cancellation:
        name, coroutine = self.node.function.name, self._task.get_coro()
        if self.node.function.options.timeout is None:
            return RepeatedCancellation(self._task, name)
        self._task.cancel()  # repeated by what limits the time: see `cancel_once`
        return Cancellation(name, coroutine)


class _Starts:
    """Starts tasks one after another: those that are made in one turn of a trio loop take their first steps in any."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], object]] = deque()
        self._starting = False

    def add(self, start: Callable[[], object]) -> None:
        """Start a task when all before it have begun; it calls `begun` in its first step."""
        if self._starting:
            self._waiting.append(start)
        else:
            self._starting = True
            start()

    def begun(self) -> None:
        """Start the next."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._starting = False


class _ScopedTask(_Task):
    def __init__(self, node: Node, starts: _Starts) -> None:
        super().__init__(node)
        self._starts = starts

    def start(self, tasks: TaskGroup, loop_id: EventLoopId, run: _Run, ended: _Ended) -> None:  # noqa: ARG002 - asyncio needs it
        self._scope = anyio.CancelScope()
        self._coroutine = run(self)
        context = copy_context()
        self._starts.add(lambda: context.run(tasks.start_soon, self._within))

    async def _within(self) -> None:
        self._starts.begun()
        with self._scope:
            await self._coroutine

    def cancel(self) -> Cancellation:
        self._scope.cancel()
        return Cancellation(self.node.function.name, self._coroutine)


class LocalCall(Record):
    """Times of a call without resources; it has no worker and no slots."""

    __slots__ = ("_attempt", "_began", "_ended", "again_at")

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._began = time.monotonic()
        self._ended: float | None = None
        self.again_at: float | None = None
        """Monotonic time at which the next attempt may begin, while the call waits for that."""

    def end(self) -> None:
        """Record that the call has ended now."""
        self._ended = time.monotonic()

    @property
    def attempt(self) -> int:
        """Attempt of the call, from 1 on."""
        return self._attempt

    @property
    def began(self) -> float | None:
        """Monotonic time at which this attempt started."""
        return self._began

    @property
    def ended(self) -> float | None:
        """Monotonic time at which the call ended; None before it does."""
        return self._ended

    def elapsed_s(self) -> float | None:
        """Return the seconds that the call has run, or ran."""
        return (self._ended or time.monotonic()) - self._began

    def why_pending(self) -> str | None:
        """Return what the call waits for between two attempts; None at other times, since it is never pending."""
        if self.again_at is None:
            return None
        return f"tries again in {max(0.0, self.again_at - time.monotonic()):.1f} s"


def _no_placeholder(node: Node, value: Any) -> Any:
    """Return the value of a call; raise `TypeError` if it is a placeholder, which would never be awaited."""
    if type(value) is not Delayed:
        return value
    name = node.function.name
    write = f"`return await r_` in {name}"
    if not node.function.is_async:
        write = f"`async def {name}(...)`, and `return await r_` in it"
    raise TypeError(f"{name} returned a placeholder ({value!r}), which is no value: write {write}")


async def _in_time(node: Node, call: Callable[[Node], Coroutine[Any, Any, Any]]) -> Any:
    """Run one attempt, within the function's `timeout`."""
    timeout = node.function.options.timeout
    try:
        if timeout is None:
            return await call(node)
        with anyio.move_on_after(timeout):
            return await cancel_once(call(node), node.function.name)
    except GeneratorExit as error:
        if _is_close(error):
            raise
        raise RuntimeError("the function raised GeneratorExit") from error
    raise JobTimeoutError(f"{node.function.name} ran past its timeout of {timeout:g} s")


def _is_close(error: GeneratorExit) -> bool:
    """Return True if the coroutine that caught this is being closed. Python raises a new one in each coroutine that
    waits: its traceback has no frame below, while that of a function's own has the function's.
    """
    return error.__traceback__ is None or error.__traceback__.tb_next is None

"""`result`: wait for a placeholder in code that cannot await, by blocking the calling thread.

The wait itself is a task in the executor's event loop, so it counts as any awaiter does: a job whose thread is blocked
lends its cores, and an awaiter that gives up takes the work with it. A plain job has no event loop; there one is run in
the calling thread for as long as it is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotYetError
from typing import Any, TypeVar

import anyio

from grainlike.context import JobView, this_job
from grainlike.engine import BaseResolver, ThreadCall, this_call
from grainlike.errors import JobCancelledError
from grainlike.eventloop import EventLoopId, here, name_the_loop
from grainlike.executor._current import find, only_open
from grainlike.executor._registry import current
from grainlike.graph import Delayed, Node, State, node_of
from grainlike.nested import JobExecutor

__all__ = ["result"]

T = TypeVar("T")

logger = logging.getLogger("grainlike")

_LOOK_S = 1.0
"""Seconds between two checks of a blocked thread that the event loop it waits for still runs."""

_IDLE_LOOKS = 3
"""Number of checks in a row after which an event loop that does not run has stopped."""

_AWAIT = (
    "result(r_) blocks its thread, and an event loop runs in this one, which would stand still: write `await r_`, or "
    "call the function that needs the value in a thread, `await delayed(fn)(...)`"
)


def result(placeholder: Delayed[T], timeout: float | None = None) -> T:
    """Block the calling thread until a placeholder has its value, and return it: for code that cannot `await`.

    For plain functions in the middle of which a synchronous library needs a value: in a call without resources, which
    has a thread, in a plain job, and in any thread beside the program's event loop. What has not been started begins.
    A job lends its cores while it is blocked, as if it awaited.

    Where the program's event loop has stopped and is not closed, it waits for somebody to run it, and the log says so.
    After `timeout` seconds it gives up, as a cancelled `await` does: a call that nothing else awaits is cancelled,
    and one that was started keeps running. The same happens when the blocked call itself is cancelled.

    Raises:
        TimeoutError: there was no value within `timeout`.
        JobCancelledError: the placeholder or the blocked call was cancelled, or the executor closed.
        RuntimeError: an event loop runs in this thread (write `await r_`); or no executor is open, or several.
        TypeError: `placeholder` is none.
        Exception: what the call raised, as it is.

    Example::

        @delayed
        def relax(atoms):
            atoms.calc = Calculator(lambda positions: result((energy @ Cores(4))(positions)))
            return LBFGS(atoms).run()
    """
    node = node_of(placeholder)
    if here() is not None:
        raise RuntimeError(_AWAIT)
    if not node.finished or node.stays:
        _wait(node, timeout)
    value: T = node.result()
    return value


def _wait(node: Node, timeout: float | None) -> None:
    """Return when `node` has finished."""
    job, executor = this_job(), current.get()
    if executor is not None and executor.is_open and (job is None or executor.opened_in is job.job):
        _beside(executor, node, timeout)
    elif job is None:
        _beside(only_open(), node, timeout)
    else:
        _in_job(job, node, timeout)


def _in_job(job: JobView, node: Node, timeout: float | None) -> None:
    if job.uplink is None or threading.current_thread() is threading.main_thread():
        waiting = _Waiting(node, timeout, find)
        with asyncio.Runner() as runner:
            runner.run(waiting.run_and_leave())
        waiting.check()
        return
    executor = job.resolver
    if not isinstance(executor, JobExecutor) or not executor.is_open:
        assert job.job is not None
        raise RuntimeError(
            f"result(r_) in a thread that {job.job.name} has started itself: its answer could not be heard there. Call "
            "it where a plain job's function runs, or `await r_` in a coroutine; or run the thread's function as "
            "`await delayed(fn)(...)`"
        )
    _beside(executor, node, timeout)


def _beside(executor: BaseResolver, node: Node, timeout: float | None) -> None:
    """Wait in the executor's event loop, which runs in another thread."""
    loop_id: Any = executor.loop_id
    if loop_id.pid != os.getpid():
        raise RuntimeError(f"{executor!r} lives in the process that this one was forked from: open one here")
    if loop_id.thread == threading.get_ident():
        raise RuntimeError(_AWAIT)
    call = this_call()
    own = call if call is not None and call.loop_id == loop_id else None
    waiting = _Waiting(node, timeout, lambda: executor, own)
    if loop_id.backend == "trio":
        import trio

        try:
            trio.from_thread.run(waiting.run, trio_token=loop_id.loop)
        except (trio.RunFinishedError, trio.Cancelled):
            waiting.ended = True
    else:
        _on_asyncio(loop_id, waiting)
    waiting.check()


def _on_asyncio(loop_id: EventLoopId, waiting: _Waiting) -> None:
    async def run() -> None:
        name_the_loop(loop_id)
        await waiting.run()

    loop: Any = loop_id.loop
    coroutine = run()
    try:
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    except RuntimeError:  # the loop is closed
        coroutine.close()
        waiting.ended = True
        return
    idle = 0
    try:
        while True:
            try:
                future.result(_LOOK_S)
            except NotYetError:
                if loop.is_closed():
                    waiting.ended = True
                    return
                idle = 0 if loop.is_running() else idle + 1
                if idle == _IDLE_LOOKS:
                    logger.warning("result(r_) waits for %s, and the event loop does not run: run it", waiting.name)
                if idle >= _IDLE_LOOKS and waiting.is_late():  # a loop that runs looks at the time itself
                    future.cancel()
                    return
            else:
                return
    except CancelledError:
        waiting.ended = True
    except BaseException:  # Ctrl-C in this thread
        future.cancel()
        raise


class _Waiting:
    """Wait for one node in the event loop, on behalf of a blocked thread. Raises nothing there: the thread reads the
    outcome from the node.
    """

    def __init__(
        self, node: Node, timeout: float | None, finds: Callable[[], BaseResolver], call: ThreadCall | None = None
    ) -> None:
        self.ended = False
        """The event loop, or the call that waits, ended before the node did."""
        self._timed_out = False
        self._node = node
        self._timeout = timeout
        self._finds = finds
        self._call = call
        self._error: Exception | None = None
        self._began = time.monotonic()

    @property
    def name(self) -> str:
        """Name of the function that is waited for."""
        return self._node.function.name

    def is_late(self) -> bool:
        """Return True if the time is over, and note that."""
        self._timed_out = self._timeout is not None and time.monotonic() - self._began >= self._timeout
        return self._timed_out

    async def run(self) -> None:
        """Wait for the node, for `timeout` at most, and while the call that is blocked is wanted."""
        with anyio.CancelScope() as scope:
            if self._call is not None and not self._call.block(scope):
                self.ended = True
                return
            try:
                with anyio.move_on_after(self._timeout) as limit:
                    await self._until_finished(self._finds().wait)
            finally:
                if self._call is not None:
                    self._call.unblock(scope)
            self._timed_out = limit.cancelled_caught
        self.ended = scope.cancelled_caught

    async def _until_finished(self, wait: Callable[[Node], Awaitable[Any]]) -> None:
        try:
            await wait(self._node)
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            if isinstance(error, Exception) and (not self._node.finished or self._node.stays):
                self._error = error  # why it could not be started, or fetched
            elif not self._node.finished:
                raise

    async def run_and_leave(self) -> None:
        """Do the same in an event loop that ends with it."""
        await self.run()
        executor = self._finds()
        if isinstance(executor, JobExecutor):
            await executor.gone()

    def check(self) -> None:
        """Raise if the wait did not last until the node had finished."""
        if self._node.state in (State.SUCCEEDED, State.FAILED) and not self._node.stays:
            return  # maybe in the turn in which its time was over
        name = self._node.function.name
        if self._error is not None:
            raise self._error
        if self.ended:
            raise JobCancelledError(f"{name} is not waited for any more: the call that did so was cancelled")
        if self._timed_out:
            raise TimeoutError(f"{name} had no value after {self._timeout:g} s")
        if not self._node.finished or self._node.stays:
            raise JobCancelledError(f"{name} was not waited for to its end: the event loop has ended")

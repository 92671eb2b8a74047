"""Calls without resources: they run here, in the caller's process, in tasks and threads that end with the executor.

An `async def` call is a task of the executor's own group, in a copy of the context in which its graph was started. A
plain function gets a thread, at most `THREADS` at a time; a thread cannot be interrupted, so a cancelled call's answer
is thrown away, and closing the executor waits until the function has returned.
"""

from __future__ import annotations

import threading
from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol

import anyio
import anyio.from_thread
import anyio.lowlevel
from anyio.abc import TaskGroup

from grainlike.context import leave_job
from grainlike.errors import JobCancelledError
from grainlike.executor._home import Home, name_the_loop
from grainlike.graph import Node, State

__all__ = ["LocalCalls"]

THREADS = 40
"""How many plain functions run at once; anyio's own default for worker threads."""


class Outcomes(Protocol):
    """Who hears how calls ended."""

    def succeeded(self, node: Node, value: object) -> None: ...
    def failed(self, node: Node, error: BaseException) -> None: ...
    def pump(self) -> None: ...


class LocalCalls:
    """Runs calls for one engine, once it is `open`. In each, `current` is `owner`, so that nested awaits find it."""

    def __init__(self, outcomes: Outcomes, current: ContextVar[Any], owner: object, home: Home) -> None:
        self._outcomes = outcomes
        self._current = current
        self._owner = owner
        self._home = home
        self._scopes: dict[Node, anyio.CancelScope] = {}
        self._threads = anyio.CapacityLimiter(THREADS)
        self._tasks: TaskGroup | None = None
        self._early: list[tuple[Node, Context]] = []
        """Calls that came before the executor had opened: nobody waits for an implicit one to open."""

    def open(self, tasks: TaskGroup) -> None:
        """Run calls in `tasks` from now on, and those that came before."""
        self._tasks = tasks
        early, self._early = self._early, []
        for node, context in early:
            if not node.finished:
                self.begin(node, context)

    def begin(self, node: Node, context: Context) -> None:
        """Run the call of `node`."""
        if self._tasks is None:
            self._early.append((node, context))
            return
        scope = self._scopes[node] = anyio.CancelScope()
        own = context.copy()
        own.run(name_the_loop, self._home)  # this may be a callback of the loop, where no task runs
        own.run(self._tasks.start_soon, self._run, node, scope)

    def cancel(self, node: Node) -> None:
        """End the call: a coroutine gets its cancellation, a thread's answer is thrown away."""
        scope = self._scopes.pop(node, None)
        if scope is not None:
            scope.cancel()

    async def _run(self, node: Node, scope: anyio.CancelScope) -> None:
        """Make the call and tell of its end; only the executor's own cancellation leaves this task."""
        if node.finished:  # cancelled before it began; its arguments are gone
            return
        leave_job()
        self._current.set(self._owner)
        call = self._call if node.function.is_async else self._call_in_thread
        with scope:
            try:
                value = await call(node)
            except anyio.get_cancelled_exc_class():
                if scope.cancel_called or self._closing():
                    raise
                self._outcomes.failed(node, JobCancelledError(f"{node.function.name} cancelled itself"))
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - the call's own, SystemExit included: its awaiters raise it
                self._outcomes.failed(node, error)
            else:
                self._outcomes.succeeded(node, value)
        self._scopes.pop(node, None)
        self._outcomes.pump()

    async def _call(self, node: Node) -> Any:
        node.state = State.RUNNING
        args, kwargs = node.arguments()
        return await node.function.callable(*args, **kwargs)

    async def _call_in_thread(self, node: Node) -> Any:
        async with self._threads:
            node.state = State.RUNNING
            args, kwargs = node.arguments()
            return await _in_thread(node.function.callable, args, kwargs)

    def _closing(self) -> bool:
        return self._tasks is None or self._tasks.cancel_scope.cancel_called


async def _in_thread(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a plain function in a thread of its own, with this context; wait for the thread even when cancelled."""
    done = anyio.Event()
    outcome: list[Any] = []
    token = anyio.lowlevel.current_token()

    def run() -> None:
        try:
            outcome.append((True, function(*args, **kwargs)))
        except BaseException as error:  # noqa: BLE001 - a thread has nobody to raise it to
            outcome.append((False, error))
        anyio.from_thread.run_sync(done.set, token=token)

    thread = threading.Thread(target=copy_context().run, args=(run,), name=f"grainlike {function!r}", daemon=True)
    thread.start()
    with anyio.CancelScope(shield=True):
        await done.wait()
        thread.join()
    await anyio.lowlevel.checkpoint_if_cancelled()
    good, value = outcome[0]
    if good:
        return value
    if isinstance(value, StopIteration):
        raise RuntimeError("the function raised StopIteration") from value
    raise value

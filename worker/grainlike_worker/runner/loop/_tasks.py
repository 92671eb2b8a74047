"""Tasks for leases, by the loop's own means: this is the hot path, where anyio's task would cost three times as much.

Cancellation is the loop's own too. On asyncio that is one `Task.cancel()`: a job's `finally` may await, as it may in
any asyncio program (in an anyio scope, each such await would be cancelled again); and again every second where that has
not ended it. On trio it is a cancel scope.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import cancel_shielded_checkpoint

from grainlike.eventloop import Cancellation, RepeatedCancellation, on_asyncio
from grainlike_worker.runner.common._lease import RunnerLease

__all__ = ["Tasks", "open_tasks"]

Body = Callable[[RunnerLease], Awaitable[None]]


class Tasks(ABC):
    """The tasks of leases, one for each, which end by themselves or are cancelled one by one."""

    @abstractmethod
    def start(self, lease: RunnerLease) -> None:
        """Run the body for `lease` in a new task, not before the next turn of the loop."""

    @abstractmethod
    def cancel(self, lease: RunnerLease, name: str, coroutine: object, reason: str | None) -> Cancellation:
        """Cancel the job `name`, whose `coroutine` the task of `lease` waits for, until that is settled; it sees the
        reason.
        """

    @abstractmethod
    def disturbance(self, lease: RunnerLease) -> Callable[[], int]:
        """Return a function that tells, from now on, if the task of `lease` was cancelled: what waits next in it would
        be, too.
        """

    @abstractmethod
    async def pause(self) -> None:
        """Let the loop serve others; not a point of cancellation."""


@asynccontextmanager
async def open_tasks(body: Body) -> AsyncIterator[Tasks]:
    """Tasks of the running loop. Leaving waits until all of them have ended; cancelling them is the caller's part."""
    if on_asyncio():
        tasks = _AsyncioTasks(body)
        try:
            yield tasks
        finally:
            with anyio.CancelScope(shield=True):
                await tasks.join()
    else:
        error: BaseException | None = None
        async with anyio.create_task_group() as group:
            # One error that leaves the block stays what it is: a task group would put it into a group.
            try:
                yield _ScopedTasks(body, group)
            except BaseException as raised:  # noqa: BLE001 - raised again below
                error = raised
        if error is not None:
            raise error


class _AsyncioTasks(Tasks):
    def __init__(self, body: Body) -> None:
        self._body = body
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[RunnerLease, asyncio.Task[None]] = {}

    def start(self, lease: RunnerLease) -> None:
        # Not by the loop's factory: that of a user's program may begin a task before this knows it, amid our messages.
        self._tasks[lease] = asyncio.Task(self._run(lease), loop=self._loop)

    def cancel(self, lease: RunnerLease, name: str, coroutine: object, reason: str | None) -> Cancellation:
        return RepeatedCancellation(self._tasks[lease], name, coroutine, reason)

    def disturbance(self, lease: RunnerLease) -> Callable[[], int]:
        return self._tasks[lease].cancelling

    async def pause(self) -> None:
        # Only a job that had this task can have cancelled it; `disturbance` tells.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    async def join(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                await asyncio.wait(self._tasks.values())
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _run(self, lease: RunnerLease) -> None:
        try:
            await self._body(lease)
        finally:
            del self._tasks[lease]


class _ScopedTasks(Tasks):
    def __init__(self, body: Body, group: TaskGroup) -> None:
        self._body = body
        self._group = group
        self._scopes: dict[RunnerLease, anyio.CancelScope] = {}

    def start(self, lease: RunnerLease) -> None:
        self._scopes[lease] = anyio.CancelScope()
        self._group.start_soon(self._run, lease)

    def cancel(self, lease: RunnerLease, name: str, coroutine: object, reason: str | None) -> Cancellation:
        self._scopes[lease].cancel(reason)
        return Cancellation(name, coroutine)

    def disturbance(self, lease: RunnerLease) -> Callable[[], int]:  # noqa: ARG002 - each has a scope of its own
        return int

    async def pause(self) -> None:
        await cancel_shielded_checkpoint()

    async def _run(self, lease: RunnerLease) -> None:
        try:
            with self._scopes[lease]:
                await self._body(lease)
        finally:
            del self._scopes[lease]

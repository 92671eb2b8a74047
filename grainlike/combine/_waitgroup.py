"""Jobs and subtasks side by side in a block that ends when all of them have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup

from grainlike.graph import Delayed, cancel, delayed, start
from grainlike.resources import Request

__all__ = ["WaitGroup", "exec1", "open_waitgroup"]


@asynccontextmanager
async def open_waitgroup() -> AsyncIterator[WaitGroup]:
    """Open a block whose jobs and subtasks run in parallel, and which ends when all of them have. Blocks may be
    nested.

    The first error of a task interrupts the body, if that still runs, and is raised where the block ends, as
    itself, once the others are cancelled; so they are when the body raises or is cancelled.

    Example::

        async with open_waitgroup() as wg:
            for x in range(10):
                wg.submit(Cores(1), square, x)
            wg.start_subtask(frame, 3)  # a coroutine of this program, which may open groups of its own
        print(wg.results)  # in the order of submission
    """
    tasks = anyio.create_task_group()
    group = WaitGroup(tasks)
    try:
        async with tasks:
            yield group
        group._succeeded = True
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None  # the group is ours: no user wrote one
    finally:
        group._close()


async def exec1(request: Request | None, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run one job, wait for it, and return its value or raise its error; cancellation ends the job.

    Without a request (None) it runs in this program.

    Example::

        energy = await exec1(Cores(4) & Memory("2Gi"), relax, molecule)
    """
    return await _call(request, fn, args, kwargs)


class WaitGroup:
    """Wait-group made by `open_waitgroup`."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._jobs: list[Delayed[Any]] = []
        self._results: list[Any] = []
        self._open = True
        self._succeeded = False

    def submit(self, request: Request | None, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Start `fn(*args, **kwargs)` on `request`; without one (None) it runs in this program.

        Raises:
            RuntimeError: the block has ended.
        """
        self._check_open()
        job = start(_call(request, fn, args, kwargs))
        self._jobs.append(job)
        self._add(lambda: job)

    def start_subtask(self, fn: Callable[..., Awaitable[Any]], /, *args: Any, **kwargs: Any) -> None:
        """Run the coroutine `fn(*args, **kwargs)` beside the block, in this event loop, holding no slots.

        It may submit jobs, to this group or to groups of its own. What it returns is among the results.

        Raises:
            RuntimeError: the block has ended.
        """
        self._check_open()
        self._add(lambda: fn(*args, **kwargs))

    @property
    def results(self) -> list[Any]:
        """The values of jobs and subtasks, in the order of submission.

        Raises:
            RuntimeError: the block has not ended, or ended with an error.
        """
        if not self._succeeded:
            raise RuntimeError("a wait-group has results when its block has ended without an error")
        return list(self._results)

    def _add(self, part: Callable[[], Awaitable[Any]]) -> None:
        place = len(self._results)
        self._results.append(None)
        self._tasks.start_soon(self._fill, place, part)

    async def _fill(self, place: int, part: Callable[[], Awaitable[Any]]) -> None:
        self._results[place] = await part()

    def _close(self) -> None:
        """Take nothing more; what has not ended is cancelled."""
        self._open = False
        for job in self._jobs:
            cancel(job)

    def _check_open(self) -> None:
        if not self._open:
            raise RuntimeError("jobs and subtasks are added inside the block of their wait-group")


def _call(
    request: Request | None, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Delayed[Any]:
    function = delayed(fn)
    placeholder: Delayed[Any] = (function if request is None else function @ request)(*args, **kwargs)
    return placeholder

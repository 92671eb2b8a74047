"""Notices a coroutine that blocks the event loop of its runner, and with it every other coroutine there.

The runner itself cannot tell: its loop does not turn. The daemon looks at the page that says which step is on.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from anyio.abc import TaskGroup

from grainlike.wire import Blocked
from grainlike_worker.daemon._runners import RunnerBody
from grainlike_worker.ipc._steps import BLOCKED_S

__all__ = ["users_part", "watched"]

LOOK_S = 1.0
"""How often the daemon looks."""

STACK_BYTES = 8192


@contextmanager
def watched(runner: RunnerBody, tell: Callable[[Blocked], None], tasks: TaskGroup) -> Iterator[None]:
    """Watch a runner in a task of `tasks` while the block lasts; `tell` of a job that blocks, and when it is over."""
    scope = anyio.CancelScope()
    tasks.start_soon(_watch, scope, runner, tell)
    try:
        yield
    finally:
        scope.cancel()


async def _watch(scope: anyio.CancelScope, runner: RunnerBody, tell: Callable[[Blocked], None]) -> None:
    with scope:
        while (step := runner.stepping()) is not None:
            job, seconds = step
            if job and seconds >= BLOCKED_S:
                stack = await runner.stack()
                tell(Blocked(job, round(seconds, 1), users_part(stack) or "(its stack cannot be told)"))
                await _over(runner, job, seconds)
                tell(Blocked(job, 0.0, ""))
            await anyio.sleep(LOOK_S)


def users_part(stack: str) -> str:
    """Return the user's part of each thread's stack, told from its innermost frame on: it ends where our own begins.

    >>> users_part('Thread 1:\\n  File "a.py", line 1\\n  File "/x/grainlike_worker/_b.py", line 2\\n  File "c"')
    'Thread 1:\\n  File "a.py", line 1'
    """
    kept: list[str] = []
    for thread in re.split(r"\n(?! )", stack.strip()):
        lines = thread.splitlines()
        ours = next((at for at, line in enumerate(lines) if "/grainlike_worker/" in line), len(lines))
        if ours > 1:  # more than whose stack it is
            kept += lines[:ours]
    return "\n".join(kept)[:STACK_BYTES]


async def _over(runner: RunnerBody, job: int, seconds: float) -> None:
    """Wait until that step, which has lasted so long, is over."""
    while True:
        await anyio.sleep(LOOK_S)
        step = runner.stepping()
        if step is None or step[0] != job or step[1] < seconds:
            return

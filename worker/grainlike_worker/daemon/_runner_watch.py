"""Watch over runners, of what they cannot tell themselves: that they do not go on.

A coroutine that blocks the event loop of its runner holds up every other coroutine there. The loop does not turn, so
the daemon looks at the page that says which step is on.

A process that was stopped (SIGSTOP), is traced, or waits in the kernel looks to all others as if its jobs ran. It is
looked at when the worker shows that it lives: no timer of its own, and one read for each process that has jobs.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
from anyio.abc import TaskGroup

from grainlike.wire import HALTS, Blocked, Halted, HaltedProcess
from grainlike.wire import HaltedState as State
from grainlike_worker.daemon._runners import RunnerBody
from grainlike_worker.ipc._steps import BLOCKED_S

__all__ = ["HaltedWatch", "users_part", "watched"]

logger = logging.getLogger("grainlike.worker")

_LEAST_S = {"D": 30.0}
"""Seconds before a state is told of: what reads from a slow disk is seen in the kernel twice, too."""

LOOK_S = 1.0
"""Seconds between two looks of the daemon at the steps of a loop."""

STACK_BYTES = 8192

_UTIME, _STIME = 11, 12
"""Positions in `/proc/PID/stat` of the time on a core, behind the name of the program."""


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


class _Sight(NamedTuple):
    """State of a process and its time on a core; equal twice, it has done nothing between."""

    state: State
    ticks: int


class HaltedWatch:
    """The processes that did not go on between two looks.

    Example::

        watch = HaltedWatch(print)
        watch.look([(4711, [1, 2])])  # nothing: one look tells nothing
        watch.look([(4711, [1, 2])])  # Halted(...), if it was stopped all the time
    """

    def __init__(self, tell: Callable[[Halted], object]) -> None:
        self._tell = tell
        self._since: dict[int, tuple[_Sight, float]] = {}
        """By process: how it was seen that does not go on, and when first so."""
        self._told: dict[int, tuple[State, Sequence[int]]] = {}
        self._again = False

    def tell_again(self) -> None:
        """Tell all at the next look, also that there is none: the head may be another, or know what goes on by now."""
        self._again = True

    def look(self, processes: Iterable[tuple[int, Sequence[int]]]) -> None:
        """Look at processes with their jobs; `tell` of those that do not go on, if that is new."""
        now, before, told_before = time.monotonic(), self._since, self._told
        self._since, self._told = {}, {}
        rows: list[HaltedProcess] = []
        for pid, jobs in processes:
            sight = _sight(pid) if jobs else None
            if sight is None:
                continue
            seen, since = before.get(pid, (None, now))
            self._since[pid] = sight, since if seen == sight else now
            if seen == sight and now - self._since[pid][1] >= _LEAST_S.get(sight.state, 0.0):
                self._told[pid] = sight.state, jobs
                rows.append(HaltedProcess(pid, sight.state, now - since, list(jobs)))
        self._log(rows, told_before)
        if self._again or self._told != told_before:
            self._again = False
            self._tell(Halted(rows))

    def _log(self, rows: list[HaltedProcess], before: dict[int, tuple[State, Sequence[int]]]) -> None:
        for row in rows:
            if row.pid not in before:
                words = "process %d, which runs job %s, is %s: for %.0f s so far"
                logger.warning(words, row.pid, ", ".join(map(str, row.jobs[:5])), HALTS[row.state], row.seconds)
        for pid in before.keys() - self._told.keys():
            logger.info("process %d is not halted any more", pid)


def _sight(pid: int) -> _Sight | None:
    """Return how a process is seen that does not go on; None for others, and for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        state, ticks = fields[0].decode(), int(fields[_UTIME]) + int(fields[_STIME])
    except (OSError, IndexError, ValueError):
        return None
    return _Sight(state, ticks) if state in HALTS else None

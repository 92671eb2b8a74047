"""Output of a program's jobs at a head elsewhere, which is passed to a logger of the program."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
from anyio.abc import TaskGroup

from grainlike.errors import GrainlikeError
from grainlike.eventloop import Changes
from grainlike.joblogging import LogEntry, log_entry
from grainlike.jobs import Job, LogLine, WorkerInfo

__all__ = ["OutputToLogger"]

_FOLLOWED = 500
"""Number of jobs whose output is asked for at the same time; a head refuses a client more than twice as many."""

_LAST_S = 1.0
"""Seconds for which a program that leaves waits for the last output of jobs that have ended."""

_Lines = Callable[[int], AbstractAsyncContextManager[AsyncIterator[LogLine]]]


class OutputToLogger:
    """Passes the lines that jobs print to `logger`, at level INFO, once `tasks` is set. `lines(number)` asks the head
    for those of a job, until it has ended.

    It is told of the jobs as the feeds of events are. Records of `logging` reach the program's loggers by themselves,
    and a traceback reaches who awaits the job: neither is passed on here.
    """

    def __init__(self, logger: logging.Logger, lines: _Lines) -> None:
        self.tasks: TaskGroup | None = None
        self._logger = logger
        self._lines = lines
        self._following: set[Job] = set()
        self._ended: set[Job] = set()
        """Those of them that have ended: the rest of their lines is on the way."""
        self._room = anyio.Semaphore(_FOLLOWED)
        self._changes = Changes()

    def started(self, job: Job) -> None:
        """An attempt of a job has begun: follow the job, if it is the first."""
        if self.tasks is not None and job not in self._following and self._logger.isEnabledFor(logging.INFO):
            self._following.add(job)
            self.tasks.start_soon(self._follow, job)

    def ended(self, job: object, outcome: str) -> None:
        """A job has ended, or an attempt of it. One that was quick is told of by its end alone."""
        if not isinstance(job, Job) or not job.id or outcome in ("cancelled", "lost", "retried"):
            return
        self.started(job)
        if job in self._following:
            self._ended.add(job)

    def workers(self, workers: Sequence[WorkerInfo]) -> None:
        """Do nothing: output is of jobs."""

    def closed(self) -> None:
        """Do nothing: what is left ends with its tasks."""

    async def drain(self) -> None:
        """Wait for the last lines of jobs that have ended, for `_LAST_S` at most."""
        with anyio.move_on_after(_LAST_S):
            await self._changes.until(lambda: not self._ended)

    async def _follow(self, job: Job) -> None:
        name = "" if job.node is None else job.node.function.name
        try:
            async with self._room, self._lines(job.id) as lines:
                async for line in lines:
                    if line.stream not in ("log", "traceback") and line.attempt:
                        self._log(line, job.id, name, job.worker or "")
        except GrainlikeError:
            pass  # the head is lost, and the job with it; or it has forgotten the job
        finally:
            self._following.discard(job)
            self._ended.discard(job)
            self._changes.notify()

    def _log(self, line: LogLine, job: int, name: str, worker: str) -> None:
        extra = {"stream": line.stream}
        entry = LogEntry(job, name, line.attempt, self._logger.name, logging.INFO, line, time.time(), extra=extra)
        log_entry(self._logger, entry, worker)

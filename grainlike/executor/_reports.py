"""Questions to an executor about its calls as a whole: how many wait, run and have ended, and what became of each."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from os import PathLike
from typing import NamedTuple

from grainlike.executor._lifecycle import ExecutorBase
from grainlike.executor._settings import moment_of
from grainlike.graph import RunsIn, State
from grainlike.jobs import ended_jobs
from grainlike.wire import OUTCOMES, AskHistory, EndedJob, Totals, checked_pattern

__all__ = ["ExecutorReports", "UnendedCalls"]


class UnendedCalls(NamedTuple):
    """Number of calls with resources that have been started or awaited and not ended, by state as in `info`.

    Attributes:
        waiting: those that wait, for inputs, for a worker or to be tried again: `info(r_).state` is `"pending"`.
        running: those that run.
    """

    waiting: int
    running: int


class ExecutorReports(ExecutorBase):
    """Questions about all calls of an executor."""

    def counts(self) -> UnendedCalls:
        """Return how many calls of this program wait, and how many run; `report` counts those that have ended. It never
        waits, and asks no head: it costs about a microsecond for each of those calls.

        Calls without resources do not count, nor do calls that were not started or awaited yet. In a session, those
        count that this program has submitted or taken over.

        Raises:
            RuntimeError: the executor is not open, or lives in another event loop.

        Example::

            waiting, running = executor.counts()
        """
        self._check_loop("asked")
        states = [
            node.state
            for node in self._engine.unfinished()
            if node.place is RunsIn.REMOTE and not node.function.internal
        ]
        running = states.count(State.RUNNING)
        return UnendedCalls(len(states) - running, running)

    def report(self) -> Totals:
        """Return how many jobs of this executor ended how so far, and their run times in seconds. Calls without
        resources do not count. `.moved`, `.fetched` and others on large values are not in what `print` shows.

        Raises:
            RuntimeError: the executor was never opened, or lives in another event loop.

        Example::

            print(executor.report())
            # 98 succeeded, 2 failed in 12.4 s
        """
        self._check_loop("asked", open_only=False)
        return self._service.report()

    async def history(
        self,
        *,
        name: str | None = None,
        outcomes: Collection[str] = (),
        since: datetime | timedelta | float | None = None,
        most: int = 1000,
    ) -> list[EndedJob]:
        """Return jobs that have ended, the latest first: what became of each, where, and what it used.

        The head remembers the last 100 000, those of all its programs, in at most 20 MB. It can be asked after an
        executor with a head of its own has closed, too.

        Args:
            name: only of functions whose names match this shell pattern, of at most 200 characters.
            outcomes: only with these: `"succeeded"`, `"failed"`, `"timed_out"`, `"cancelled"`, `"skipped"`.
            since: only those that ended from then on: a `time.time()`, a `datetime`, or how long ago.
            most: how many at most.

        Raises:
            ValueError: an outcome is none, `most` is below 1, or the pattern is too long.
            RuntimeError: the executor was never opened, or lives in another event loop; or it has `backend=`.
            HeadLostError: the head of a connected executor is lost.

        Example::

            for job in await executor.history(outcomes=["failed", "timed_out"]):
                print(job.job, job.name, job.worker, job.error)
        """
        self._check_loop("asked", open_only=False)
        unknown = [outcome for outcome in outcomes if outcome not in OUTCOMES]
        if unknown:
            raise ValueError(f"outcomes are {', '.join(OUTCOMES)}; {unknown[0]!r} is none")
        if most < 1:
            raise ValueError(f"most is how many jobs to return, 1 or more; {most!r} is not")
        asked = AskHistory(0, most, checked_pattern(name), list(dict.fromkeys(outcomes)), moment_of(since))
        return await ended_jobs(self._service.history, asked)

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write what ran so far as a trace for ui.perfetto.dev and chrome://tracing. The executor must `record`.

        Each core and each GPU of a worker has a row, with a bar for each attempt of a job, in true times; so have calls
        without resources, and bytes that came, went, or were written to disk. Arrows lead from jobs to those that were
        given their values, counters show how many jobs waited and ran, and what memory was held. What still runs is
        drawn to this moment. It may be called at any time, also after the executor has closed.

        A job on several nodes is drawn on the first of them. Calls that `amap` puts together are one bar. Of jobs
        that other programs submit, or other jobs, the inputs are unknown: they have no arrows. It keeps the event
        loop for about a second for 100 000 jobs.

        Raises:
            RuntimeError: the executor was made without `record=`, or was never opened.
            OSError: the file cannot be written.

        Example::

            async with Executor(local=Cores(4), record=True) as executor:
                await main()
                executor.write_trace("trace.json")
        """
        if self._recorder is None:
            raise RuntimeError(f"{self!r} has recorded nothing: open it with Executor(..., record=True)")
        from grainlike.observe import trace
        from grainlike.system import LateFile

        with LateFile(path) as file:
            file.write(trace(self._recorder.stretches(), self._recorder.depths()))

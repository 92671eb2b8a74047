"""`Dag`: a named graph that can be run."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from time import monotonic
from typing import Literal

from grainlike.dag._callbacks import Callbacks
from grainlike.dag._partitioned_run import PartitionedRun
from grainlike.dag._report import DagReport
from grainlike.dag._run import DagRun
from grainlike.errors import UnsatisfiableError
from grainlike.executor import Executor, find
from grainlike.graph import NamedGraph, NamedJob, Partition
from grainlike.resources import Request
from grainlike.system import LateFile

__all__ = ["Dag"]


class Dag(NamedGraph):
    """A graph whose jobs have names: a mapping of names to placeholders, to which `add` adds.

    A value flows if a placeholder of the graph is among a job's arguments; `after=` sets only the order. A job can need
    only jobs that were added before, so there are no cycles; `from_edges` takes edges in any order, and refuses those
    that form a cycle. Nothing runs before `run`, or before a placeholder is awaited.

    Example::

        dag = Dag()
        dag.add("clean", clean, path, request=Cores(2), cost=5.0)
        dag.add("fit_a", fit, dag["clean"], "a", request=GPUs(1) & Cores(4), timeout=3600)
        dag.add("notify", notify, after=["fit_a"])
        report = await dag.run()
        print(report, report["fit_a"].value)
    """

    async def run(
        self,
        *,
        on_failure: Literal["fail_fast", "continue"] = "fail_fast",
        timeout: float | None = None,
        callbacks: Callbacks | None = None,
        partition: Partition | None = None,
        trace: str | PathLike[str] | None = None,
    ) -> DagReport:
        """Run all jobs in the executor that an `await` here uses, and return how each ended.

        It raises nothing for a job's failure; the report has it. A job starts as soon as all that it needs has
        succeeded and there is room: there are no levels that wait for each other. It returns when no job of it runs
        any more and their slots are free.

        Placeholders run at most once. So a second run of the same graph reports the same outcomes, and runs only what
        was added since, or not ended; build the graph in a function to run it again. Cancelling `run` cancels what
        has not finished and nothing else awaits.

        Args:
            on_failure: when a job fails or runs past its own timeout, `"fail_fast"` cancels those that run and skips
                those that have not started; `"continue"` skips only those that need it.
            timeout: seconds after which those that run are ended, as timed out, and the others are skipped.
            callbacks: functions that are called as jobs progress.
            partition: cut the graph into parts, each of which is sent as one job that asks for the element-wise
                maximum of what its jobs ask for. They give the same values; sending them costs less. Jobs of a part
                start together, and their outcomes arrive together, when the part has ended; so fail-fast ends a part
                at its first failure, and the others when that outcome arrives. Calls without resources, jobs with a
                timeout, and jobs whose requests have more than amounts and tokens run by themselves beside the parts.
            trace: a file to write to at the end, for ui.perfetto.dev and chrome://tracing: which job ran when on
                which core or GPU of which worker, and which bytes of large values moved then, by a head in this
                process. It is opened before anything starts. If it cannot be written at the
                end, as the disk is full by then, a warning says so, and the report's `trace_error` has the reason.

        Raises:
            UnsatisfiableError: no worker could ever give what some job asks for, and none can join; nothing was
                started.
            ValueError: `on_failure` or `timeout` is none.
            TypeError: `partition` is none, or `callbacks` are none.
            GraphError: one of the jobs was started by another executor, and has not finished.
            OSError: the trace's file cannot be opened, as its folder is missing; nothing was started.
            RuntimeError: there is no executor here, or this is a job on a worker.

        Example::

            report = await dag.run(on_failure="continue", trace="trace.json")
            report = run(dag.run, local=Cores(4))    # from a plain script
        """
        if on_failure not in ("fail_fast", "continue"):
            raise ValueError(f"on_failure= is 'fail_fast' or 'continue', not {on_failure!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout= is a positive number of seconds, not {timeout!r}")
        if partition is not None and not isinstance(partition, Partition):
            raise TypeError(f"partition= takes a Partition, as Partition(k=4), not {partition!r}")
        if callbacks is not None and not isinstance(callbacks, Callbacks):
            raise TypeError(f"callbacks= takes Callbacks(on_start=...), not {callbacks!r}")
        executor = find()
        if not isinstance(executor, Executor):
            raise RuntimeError("a named graph runs in the program, which hears of all its jobs, and not inside a job")
        if trace is None:
            return await self._run_on(executor, on_failure, timeout, callbacks, partition)
        with LateFile(trace) as file:
            await executor.ready()
            copies, began = executor.copies(), monotonic()
            report = await self._run_on(executor, on_failure, timeout, callbacks, partition)
            moved = () if copies is None else [one for one in copies() if one.ended >= began]
            return report.traced_to(file, str(trace), moved)

    async def _run_on(
        self,
        executor: Executor,
        on_failure: str,
        timeout: float | None,
        callbacks: Callbacks | None,
        partition: Partition | None,
    ) -> DagReport:
        await executor.ready()
        jobs = self._prioritise()
        _refuse_impossible(executor, jobs)
        kind = DagRun if partition is None else PartitionedRun
        run = kind(executor, self._jobs, fail_fast=on_failure == "fail_fast", callbacks=callbacks)
        if partition is not None and isinstance(run, PartitionedRun):
            _refuse_impossible_parts(executor, run.cut(jobs, partition))
        return await run.run(jobs, timeout)


def _refuse_impossible_parts(executor: Executor, requests: Iterable[Request]) -> None:
    for request in dict.fromkeys(requests):
        refusal = executor.refusal(request)
        if refusal is not None:
            raise UnsatisfiableError(
                f"a part that asks for {request}, the most of each that its jobs ask for: {refusal}"
            )


def _refuse_impossible(executor: Executor, jobs: list[NamedJob]) -> None:
    asking = [job for job in reversed(jobs) if job.node.request is not None]
    first = {(job.node.request, job.node.function.options): job for job in asking}
    for job in reversed(first.values()):
        refusal = executor.refusal_of(job.node)
        if refusal is not None:
            raise UnsatisfiableError(f"{job.name}: {refusal}")

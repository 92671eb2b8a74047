"""Report of a run: how each job ended, what it used, and the totals."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

from grainlike.graph import Node, Status
from grainlike.head import HERE
from grainlike.observe import Depth, Stretch, depths, trace
from grainlike.resources import NO_ALLOCATION, Allocation, Usage, held_amounts
from grainlike.system import LateFile
from grainlike.wire import Totals

__all__ = ["DagReport", "EndedJobState", "JobReport"]

logger = logging.getLogger("grainlike")

_MOST_LINES = 10
"""Number of failures that the text lists by name; the others are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReport:
    """Outcome of one job.

    Attributes:
        name: the job's name in the graph.
        status: `"succeeded"`, `"failed"`, `"skipped"` (it never started, for what it needs did not succeed or the run
            ended), `"timed_out"` (past its own limit or the run's), or `"cancelled"`.
        value: the returned value; None unless it succeeded, and for a large one that stays at workers, as other jobs
            needed it: `await dag[name]` brings that here.
        error: the exception if it did not succeed; of a skipped job, the error for which it was skipped.
        worker: the worker of its last attempt; None where it never ran, or ran in the caller's process.
        allocation: the slots of its last attempt.
        attempt: number of attempts; 0 for one that never started.
        queued_s: seconds from when its inputs were there to when its last attempt started; None without one.
        run_s: seconds that its last attempt ran; None without one.
        usage: usage of the last attempt; None in the caller's process, and where it was cancelled.
    """

    name: str
    status: Status
    value: Any
    error: BaseException | None
    worker: str | None
    allocation: Allocation | None
    attempt: int
    queued_s: float | None
    run_s: float | None
    usage: Usage | None


class EndedJobState(NamedTuple):
    """Finished job of a run; `needs` are its dependencies, `stopped` is when it was ended early."""

    status: Status
    error: BaseException | None
    node: Node
    needs: tuple[Node, ...]
    stopped: float | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class DagReport(Totals, Mapping[str, JobReport]):
    """Report of a run of a named graph: a mapping of names to `JobReport`s, and the totals.

    `print(report)` shows a summary.

    Attributes:
        backend: name of the backend that ran the jobs: `"grainlike"`, its own workers, or the name of the executor's
            `backend=`.
        peak_utilization: for each resource of the workers, the largest part that jobs of the run held at one moment,
            from 0 to 1.
        trace_error: the error for which `run(trace=...)` could not write its file at the end; None where it did, or
            there was none to write. `write_trace` may be tried again, with another path.

    Example::

        report = await dag.run()
        report.succeeded, [(name, job.status, job.run_s) for name, job in report.items()]
        report.write_trace("trace.json")
    """

    backend: str
    peak_utilization: dict[str, float]
    _began: float
    _jobs: dict[str, EndedJobState]
    trace_error: Exception | None = None

    @classmethod
    def of(
        cls, jobs: dict[str, EndedJobState], backend: str, *, began: float, ended: float, peaks: dict[str, float]
    ) -> Self:
        """Return the report of jobs that have all ended; times are on this process's monotonic clock."""
        counts = Counter(job.status for job in jobs.values())
        return cls(
            succeeded=counts["succeeded"],
            failed=counts["failed"],
            skipped=counts["skipped"],
            timed_out=counts["timed_out"],
            cancelled=counts["cancelled"],
            total_seconds=ended - began,
            run_seconds=sum(_seconds(job.node, job.stopped) or 0.0 for job in jobs.values()),
            backend=backend,
            peak_utilization=peaks,
            _began=began,
            _jobs=jobs,
        )

    def __getitem__(self, name: str) -> JobReport:
        # Made when somebody asks: most jobs of a large graph are never asked about.
        status, error, node, needs, stopped = self._jobs[name]
        record = node.record
        began = None if record is None else record.began
        return JobReport(
            name=name,
            status=status,
            value=node.value,
            error=error,
            worker=None if record is None else record.worker,
            allocation=None if record is None else record.allocation,
            attempt=0 if record is None or began is None else record.attempt,
            queued_s=None if began is None else max(0.0, began - self._ready(needs)),
            run_s=_seconds(node, stopped),
            usage=None if record is None else record.usage,
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def __len__(self) -> int:
        return len(self._jobs)

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    def __repr__(self) -> str:
        return f"<DagReport: {Totals.__str__(self)}>"

    def __str__(self) -> str:
        bad = [
            f"  {name} {job.status.replace('_', ' ')}: {type(job.error).__name__}: {job.error}"
            for name, job in self._jobs.items()
            if job.status in ("failed", "timed_out")
        ]
        more = [f"  and {len(bad) - _MOST_LINES:,} others"] if len(bad) > _MOST_LINES else []
        if self.trace_error is not None:
            more.append(f"  its trace was not written: {self.trace_error}")
        return "\n".join([Totals.__str__(self), *bad[:_MOST_LINES], *more])

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write the run as a trace that ui.perfetto.dev and chrome://tracing open: a row for each core and each GPU.

        Arrows lead from each job to those that needed it; counters show how many of the jobs that ran had what they
        needed and waited, how many ran, and what memory was held for them.

        Raises:
            OSError: the file cannot be written.
        """
        with LateFile(path) as file:
            file.write(trace(self._stretches(), self._depths()))

    def traced_to(self, file: LateFile, name: str, moved: Iterable[Stretch] = ()) -> Self:
        """Write the trace, with the bytes that moved, to a file and return the report; a failure to write is recorded
        in it, since the report is worth more than a trace.
        """
        try:
            file.write(trace([*self._stretches(), *moved], self._depths()))
        except Exception as error:  # noqa: BLE001 - whatever it is, hours of work have a report
            logger.warning("the trace %s was not written: %s", name, error)
            return replace(self, trace_error=error)
        return self

    def _stretches(self) -> Iterator[Stretch]:
        for name, job in self._jobs.items():
            record = job.node.record
            seconds = _seconds(job.node, job.stopped)
            if record is None or record.began is None or seconds is None:
                continue
            slots = record.allocation or NO_ALLOCATION
            details: dict[str, str | int | float] = {"status": job.status, "attempt": record.attempt}
            if record.allocation is not None:
                details["slots"] = str(slots)
            worker = record.worker or HERE
            ended, held = record.began + seconds, held_amounts(slots.units)
            yield Stretch(
                name, worker, slots.cores, record.began, ended, details, slots.gpus, job.node, job.needs, held
            )

    def _depths(self) -> Iterator[Depth]:
        return depths(self._times())

    def _times(self) -> Iterator[tuple[float, float, float]]:
        """Iterate over (ready, began, ended) of each job that ran."""
        for job in self._jobs.values():
            record = job.node.record
            seconds = _seconds(job.node, job.stopped)
            if record is not None and record.began is not None and seconds is not None:
                ready = min(record.began, self._ready(job.needs))
                yield ready, record.began, record.began + seconds

    def _ready(self, needs: Iterable[Node]) -> float:
        """Return when all inputs of a job were available."""
        return max([self._began, *(need.record.ended or 0.0 for need in needs if need.record is not None)])


def _seconds(node: Node, stopped: float | None) -> float | None:
    """Return how many seconds a job ran: to its end, or until it was stopped; None if it did not."""
    record = node.record
    if record is None or record.began is None:
        return None
    ended = record.ended if record.ended is not None else stopped
    return None if ended is None else max(0.0, ended - record.began)

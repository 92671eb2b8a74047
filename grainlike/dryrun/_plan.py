"""Plan of a dry run: which job would run where and when, in figures, as a trace and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from grainlike import observe
from grainlike.resources import Allocation, Request

__all__ = ["Plan", "PlannedJob", "Unsatisfiable"]

_MOST_LINES = 12
"""Number of functions, and of reasons, that the text lists; the others are only counted."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """Planned attempt of a call. Times are seconds since the beginning.

    Attributes:
        name: the function's name.
        request: its request.
        worker: its worker: `"n1"` is the first of the workers that were given.
        allocation: the ids and amounts that it gets.
        start_s: when it starts, in seconds since the beginning.
        end_s: when it ends, in seconds since the beginning.
        queued_s: seconds that it waited for slots: since its inputs were there, or the attempt before it had ended.
        attempt: 1, and more for a function with retries that runs past its timeout, or after its worker has left.
        status: `"succeeded"`, `"timed_out"`, or `"stopped"` where its worker left.
        nodes: of a job on several nodes, the worker and what it gives for each, the one that runs it first; else
            empty.
        call: the number of the call among those of the plan; attempts of one call have the same.
    """

    name: str
    request: Request
    worker: str
    allocation: Allocation
    start_s: float
    end_s: float
    queued_s: float
    attempt: int
    status: str
    nodes: tuple[tuple[str, Allocation], ...] = ()
    call: int = 0

    @property
    def places(self) -> tuple[tuple[str, Allocation], ...]:
        """Workers and slots that it holds: of one worker, or of all its nodes."""
        return self.nodes or ((self.worker, self.allocation),)


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """Calls that would never run.

    Attributes:
        name: the name of their function.
        request: their request.
        jobs: how many calls they are.
        why: why they never run.
    """

    name: str
    request: Request
    jobs: int
    why: str


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """Plan of `dry_run`. `print(plan)` shows a summary.

    Attributes:
        makespan_s: seconds from the beginning to the end of the last job.
        utilisation: the share of all workers' cores that jobs hold until then, from 0 to 1.
        core_hours: cores times hours that jobs hold.
        jobs: every attempt of every call that runs, in the order in which they start.
        unsatisfiable: the calls that would never run, by function and request.
        skipped: number of calls of each function that would not run because what they need fails or never runs.
        workers: offer of each worker, by its name.
        moved: bytes of large values that go from worker to worker; 0 without `sizes=`.

    Example::

        plan = await dry_run(report_, workers=[Node(16, "64Gi")] * 4, durations={"fit": 40.0, "merge": 5.0})
        print(plan)
        plan.picture("plan.svg")
    """

    makespan_s: float
    utilisation: float
    core_hours: float
    jobs: tuple[PlannedJob, ...]
    unsatisfiable: tuple[Unsatisfiable, ...]
    skipped: Mapping[str, int]
    workers: Mapping[str, Allocation]
    moved: int = 0

    def trace(self, path: str | PathLike[str]) -> None:
        """Write the plan as a trace that ui.perfetto.dev and chrome://tracing open: a row for each core.

        Raises:
            OSError: the file cannot be written.

        Example::

            plan = await dry_run((fit @ Cores(4))(1), workers=[Cores(4)], durations={"fit": 40.0})
            plan.trace("plan.json")
        """
        stretches = (
            observe.Stretch(job.name, worker, allocation.cores, job.start_s, job.end_s, _details(job))
            for job in self.jobs
            for worker, allocation in job.places
        )
        Path(path).write_text(observe.trace(stretches), encoding="utf-8")

    def picture(self, path: str | PathLike[str]) -> None:
        """Draw the plan as an SVG file: a row for each core of each worker, a bar for each job.

        Raises:
            ValueError: no job holds cores, so there is nothing to draw.
            OSError: the file cannot be written.
        """
        spans = [
            observe.Span(
                tuple(observe.Lane(worker, core) for worker, allocation in job.places for core in allocation.cores),
                job.start_s,
                job.end_s,
                job.name,
                job.name,
            )
            for job in self.jobs
            if job.allocation.cores
        ]
        if not spans:
            raise ValueError("there is nothing to draw: no job of the plan holds cores")
        lanes = [observe.Lane(name, core) for name, offer in self.workers.items() for core in offer.cores]
        drawn = observe.timeline(spans, title="Dry run", subtitle=self._headline(), lanes=lanes)
        Path(path).write_text(drawn, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Plan: {_count_calls(self.jobs)} in {_time(self.makespan_s)} on {self._where()}>"

    def __str__(self) -> str:
        return "\n".join([self._headline(), *self._functions(), *self._nevers()])

    def _headline(self) -> str:
        return (
            f"{_count_calls(self.jobs)} in {_time(self.makespan_s)} on {self._where()}: "
            f"{self.utilisation:.1%} of the cores' time, {self.core_hours:.3g} core-hours"
            f"{f', {self.moved:,} bytes moved' if self.moved else ''}"
        )

    def _where(self) -> str:
        cores = sum(len(offer.cores) for offer in self.workers.values())
        return f"{_count(len(self.workers), 'worker')} with {_count(cores, 'core')}"

    def _functions(self) -> Iterator[str]:
        by_name: dict[str, list[PlannedJob]] = {}
        for job in self.jobs:
            by_name.setdefault(job.name, []).append(job)
        ranked = sorted(by_name, key=lambda name: -sum(job.end_s - job.start_s for job in by_name[name]))
        width = max(map(len, ranked[:_MOST_LINES]), default=0)
        for name in ranked[:_MOST_LINES]:
            yield f"  {name:<{width}}  {_of_function(by_name[name])}"
        if len(ranked) > _MOST_LINES:
            yield f"  and {_count(len(ranked) - _MOST_LINES, 'other function')}"

    def _nevers(self) -> Iterator[str]:
        for never in self.unsatisfiable[:_MOST_LINES]:
            yield f"  never runs: {_count(never.jobs, 'call')} of {never.name}: {never.why}"
        if len(self.unsatisfiable) > _MOST_LINES:
            yield f"  never run: {len(self.unsatisfiable) - _MOST_LINES} other kinds of calls"
        for name, count in self.skipped.items():
            yield f"  skipped: {_count(count, 'call')} of {name}, for what they need will not be there"


def _details(job: PlannedJob) -> dict[str, str | int | float]:
    return {
        "request": str(job.request),
        "slots": str(job.allocation),
        "queued_s": job.queued_s,
        "attempt": job.attempt,
        "status": job.status,
    }


def _of_function(jobs: list[PlannedJob]) -> str:
    runs, waits = [job.end_s - job.start_s for job in jobs], [job.queued_s for job in jobs]
    said = [f"{_count_calls(jobs)} of {_spread(runs)}", f"queued for {_spread(waits)}"]
    ends = Counter(job.status for job in jobs)
    for status, words in {"timed_out": "timed out", "stopped": "stopped"}.items():
        said += [f"{ends[status]:,} {words}"] if ends[status] else []
    return ", ".join(said)


def _count_calls(jobs: Sequence[PlannedJob]) -> str:
    """Return how many calls these attempts are of, and how many attempts, where those are more."""
    calls = len({job.call for job in jobs})
    attempts = f" ({_count(len(jobs), 'attempt')})" if len(jobs) > calls else ""
    return f"{_count(calls, 'job')}{attempts}"


def _spread(seconds: list[float]) -> str:
    """Return one time where all look the same, else the mean and the longest, as text."""
    longest = _time(max(seconds))
    return (
        longest
        if _time(min(seconds)) == longest
        else f"{_time(sum(seconds) / len(seconds))} on average and {longest} at most"
    )


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h" if hours else f"{minutes}:{rest:02} min"

"""Usage by function: what the jobs of each asked for beside what they used, from the head's memory of ended jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grainlike.observe._suggest import LEAST_S, percentile, suggested_request, why_unsuggested
from grainlike.wire import OUTCOMES, EndedJob

__all__ = ["FunctionUsage", "UsageSpread", "usage_by_function"]

_OUT_OF_MEMORY = ("MemoryError", "JobMemoryError")


@dataclass(frozen=True, slots=True)
class UsageSpread:
    """UsageSpread of a figure over jobs: its median, its 95th percentile, and the most."""

    median: float
    p95: float
    most: float


@dataclass(frozen=True, slots=True)
class FunctionUsage:
    """Usage of the jobs of one function with one request.

    Attributes:
        name: the function's.
        asked: the request, as `parse` reads it; empty if the head does not know.
        outcomes: how many ended how, but for outcomes that none had.
        ran: how many ran to an end, or until they were stopped.
        cores: cores that a job kept busy on average, of those that ran for 0.1 s or longer and whose CPU time is known;
            None if none did.
        memory: bytes that a job had at most, of those of which that is known; None if it is of none.
        ran_s: seconds that a job ran; None if none did.
        cpu_s: CPU seconds of all of them together.
        suggested: what to ask for next time; None without evidence. `suggested_request` has the rule.
        unsuggested: why there is none, in words; empty where there is one.
    """

    name: str
    asked: str
    outcomes: Mapping[str, int]
    ran: int
    cores: UsageSpread | None
    memory: UsageSpread | None
    ran_s: UsageSpread | None
    cpu_s: float
    suggested: str | None
    unsuggested: str = ""


def usage_by_function(jobs: Iterable[EndedJob]) -> list[FunctionUsage]:
    """Return the usage of each function and request among `jobs`, those that ran the longest in all first.

    Jobs that ended otherwise than by their own end, such as cancelled ones, are counted by outcome, and are no evidence
    of what one needs. Of coroutines, which share a process, the memory that each needs is not known.
    """
    groups: dict[tuple[str, str], _Samples] = {}
    for job in jobs:
        groups.setdefault((job.name, job.request), _Samples()).add(job)
    by_time = sorted(groups.items(), key=lambda item: (-sum(item[1].walls), item[0]))
    return [group.usage(name, asked) for (name, asked), group in by_time]


class _Samples:
    """Jobs of one function with one request: their figures, in columns."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.walls: list[float] = []
        self.busy: list[float] = []
        self.peaks: list[int] = []
        self.cpu_s = 0.0
        self.out_of_memory = False

    def add(self, job: EndedJob) -> None:
        """Take the figures of a job."""
        self.outcomes[job.outcome] += 1
        self.out_of_memory |= job.error.partition(":")[0].rpartition(".")[2] in _OUT_OF_MEMORY
        if job.ran_s is None or job.outcome not in ("succeeded", "failed"):
            return
        self.walls.append(job.ran_s)
        self.cpu_s += job.cpu_s
        if job.ran_s >= LEAST_S and job.cpu_s:
            self.busy.append(job.cpu_s / job.ran_s)
        if job.peak_memory and not job.coroutine:
            self.peaks.append(job.peak_memory)

    def usage(self, name: str, asked: str) -> FunctionUsage:
        """Return what they make together."""
        suggested = suggested_request(asked, self.busy, self.peaks, out_of_memory=self.out_of_memory)
        return FunctionUsage(
            name,
            asked,
            {outcome: self.outcomes[outcome] for outcome in OUTCOMES if self.outcomes[outcome]},
            len(self.walls),
            _spread(self.busy),
            _spread(self.peaks),
            _spread(self.walls),
            self.cpu_s,
            suggested,
            "" if suggested else why_unsuggested(asked, self.busy, self.peaks),
        )


def _spread(values: Iterable[float]) -> UsageSpread | None:
    found = sorted(values)
    return UsageSpread(percentile(found, 0.5), percentile(found, 0.95), found[-1]) if found else None

"""Outcome of a world: figures, and promises that were broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from grainlike.resources import Allocation, Request
from grainlike.simulation import Workload

__all__ = ["Outcome", "lower_bound"]


class Outcome(msgspec.Struct, frozen=True):
    """Outcome of a world. Times are virtual seconds since its beginning.

    Attributes:
        makespan: when the last job ended.
        lower_bound: the earliest end that any scheduler could have reached.
        utilisation: fraction of all cores that jobs used until then.
        starts: when each job began (the last time), by its position in the workload.
        widest_start: when the job with the most cores began (of several, the first to begin); None if it never did.
        values_most: the most values that were there at once for jobs without an outcome.
        passed_over: the longest time for which a job was passed over, and its number at the head.
        steps: number of calls of the clock.
        seen: number of occurrences of each kind of event.
        violations: promises that were broken; empty is good.
        moved: bytes of values that went from worker to worker.
        digest: of all events and actions of the schedulers; empty where that was not computed.
    """

    seed: int
    workload: str
    workers: int
    jobs: int
    makespan: float
    lower_bound: float
    utilisation: float
    starts: dict[int, float]
    widest_start: float | None
    values_most: int
    passed_over: tuple[float, int]
    steps: int
    seen: dict[str, int]
    violations: tuple[str, ...]
    digest: str
    moved: int = 0

    @property
    def ratio(self) -> float:
        """Makespan over lower bound."""
        return self.makespan / self.lower_bound if self.lower_bound else 1.0


def lower_bound(workload: Workload, offers: Sequence[Allocation]) -> float:
    """Return the longest chain of jobs, or the work on the scarcest resource: whichever takes longer."""
    work: dict[str, float] = {}
    ends: list[float] = []
    for plan in workload.jobs:
        start = max((ends[before] for before in plan.after), default=0.0)
        ends.append(max(start, plan.at) + plan.seconds)
        for name, units in _least(plan.request).items():
            work[name] = work.get(name, 0.0) + units * plan.seconds
    have = {name: sum(offer.units.get(name, 0) for offer in offers) for name in work}
    return max([*ends, *(work[name] / have[name] for name in work if have[name])], default=0.0)


def _least(request: Request) -> Mapping[str, int]:
    """Return the amounts that every way to satisfy the request takes."""
    first, *others = request.options
    if not others:
        return first.units if first.nodes == 1 else {name: units * first.nodes for name, units in first.units.items()}
    least = {name: min(units, *(other.units.get(name, 0) for other in others)) for name, units in first.units.items()}
    nodes = min(option.nodes for option in request.options)
    return {name: units * nodes for name, units in least.items()}

"""Planning of a workload: the schedulers go through it in virtual time, on workers, wherever it comes from. A command
that plans equal jobs loads no graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite

from grainlike.dryrun._plan import Plan, PlannedJob, Unsatisfiable
from grainlike.resources import Allocation, Request, as_request, offer_of
from grainlike.simulation import FunctionPlan, JobPlan, NodePlan, Rehearsal, Workload

__all__ = ["DryRunWorkload", "checked_seconds", "plan_equal_jobs", "planned"]

_STEPS = 200
"""Number of events between two pauses: some milliseconds' worth."""

_CORE_SECOND = 10**9
_HOUR_S = 3600.0


class DryRunWorkload:
    """Calls made ready to be tried out.

    Attributes:
        workload: the calls that can be tried, and the joints between them.
        names: of each job of the workload, what its function is called.
        skipped: number of calls of a function whose inputs will never be there.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.workload: Workload = Workload("dry run", (), ())


def plan_equal_jobs(name: str, request: Request, seconds: float, *, jobs: int, offer: Request, workers: int) -> Plan:
    """Return a plan of calls of one function, without options, on equal workers; without an event loop.

    Raises:
        ResourceSpecError: `request` is none, or `offer` is none.
        TypeError: `seconds` is no number.
        ValueError: it is negative or not finite.

    Example::

        plan = plan_equal_jobs("fit", Cores(4), 40.0, jobs=100, offer=Node(16, "64Gi"), workers=4)
    """
    job = JobPlan(0, as_request(request), checked_seconds(seconds, "seconds"))
    tried = DryRunWorkload()
    tried.names = [name] * jobs
    tried.workload = Workload("dry run", (FunctionPlan(name),), (job,) * jobs)
    return next(plan for plan in planned(tried, [offer_of(offer, own_cores=())] * workers) if plan is not None)


def planned(tried: DryRunWorkload, workers: Sequence[Allocation | NodePlan]) -> Iterator[Plan | None]:
    """Yield None every few milliseconds, and in the end the plan."""
    rehearsal = Rehearsal(tried.workload, workers)
    while rehearsal.advance(_STEPS):
        yield None
    yield _plan(tried, rehearsal, [work if isinstance(work, Allocation) else work.offer for work in workers])


def _plan(tried: DryRunWorkload, rehearsal: Rehearsal, offers: Sequence[Allocation]) -> Plan:
    makespan = rehearsal.makespan
    busy = rehearsal.busy("cores") / _CORE_SECOND
    cores = sum(len(offer.cores) for offer in offers)
    return Plan(
        makespan_s=makespan,
        utilisation=busy / (cores * makespan) if cores and makespan else 0.0,
        core_hours=busy / _HOUR_S,
        jobs=_jobs(tried, rehearsal),
        unsatisfiable=_unsatisfiable(tried, rehearsal),
        skipped=_skipped(tried, rehearsal),
        moved=rehearsal.moved,
        workers={f"n{number}": offer for number, offer in enumerate(offers, 1)},
    )


def _jobs(tried: DryRunWorkload, rehearsal: Rehearsal) -> tuple[PlannedJob, ...]:
    plans, names = tried.workload.jobs, tried.names
    return tuple(
        PlannedJob(
            name=names[at],
            request=plans[at].request,
            worker=f"n{run.worker}",
            allocation=run.allocation,
            nodes=tuple((f"n{worker}", allocation) for worker, allocation in run.nodes),
            start_s=run.began,
            end_s=run.ended,
            queued_s=run.began - run.ready,
            attempt=run.attempt,
            status=run.status,
            call=at,
        )
        for at, run in rehearsal.runs()
    )


def _unsatisfiable(tried: DryRunWorkload, rehearsal: Rehearsal) -> tuple[Unsatisfiable, ...]:
    found: dict[tuple[str, Request], tuple[int, str]] = {}
    for at, why in rehearsal.stuck().items():
        key = (tried.names[at], tried.workload.jobs[at].request)
        count, first = found.get(key, (0, why))
        found[key] = count + 1, first
    return tuple(Unsatisfiable(*key, *told) for key, told in found.items())


def _skipped(tried: DryRunWorkload, rehearsal: Rehearsal) -> dict[str, int]:
    skipped = tried.skipped.copy()
    skipped.update(tried.names[at] for at in rehearsal.never_submitted())
    return dict(skipped)


def checked_seconds(seconds: object, where: str) -> float:
    """Return seconds that a user gave; `where` is how an error names them.

    Raises:
        TypeError: they are no number.
        ValueError: they are negative or not finite.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{where} is a number of seconds, not {type(seconds).__name__}")
    if seconds < 0 or not isfinite(seconds):
        raise ValueError(f"{where} is {seconds!r}: seconds are finite and not negative")
    return float(seconds)

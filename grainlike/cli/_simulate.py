"""`simulate`: how long equal jobs would take on equal workers, by a dry run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grainlike import DelayedFn, Request, ResourceSpecError, delayed, parse
from grainlike.cli._exits import OK, REFUSED
from grainlike.dryrun import Plan, dry_run_blocking

__all__ = ["simulate"]


def simulate(
    *, jobs: int, request: str, seconds: float, workers: int, resources: str, as_json: bool, picture: Path | None
) -> int:
    """Plan, draw if asked, and print; refused when no worker could ever run the jobs.

    Raises:
        ResourceSpecError: `request` or `resources` is no request, or asks for nothing.
    """
    job = _job() @ _wanted(request, "--request")
    offers = [_wanted(resources, "--resources")] * workers
    plan = dry_run_blocking([job() for _ in range(jobs)], offers, {job.function.name: seconds})
    if picture is not None:
        _draw(plan, picture)
    print(json.dumps(_facts(plan)) if as_json else plan)  # noqa: T201 - a command line speaks
    return REFUSED if plan.unsatisfiable else OK


def _draw(plan: Plan, picture: Path) -> None:
    try:
        plan.picture(picture)
    except ValueError as error:  # the figures are worth having all the same
        print(f"grainlike: {picture}: {error}", file=sys.stderr)  # noqa: T201


def _wanted(text: str, option: str) -> Request:
    try:
        found = parse(text)
    except ResourceSpecError as error:
        raise ResourceSpecError(f"{option}: {error}") from error
    if not found:
        raise ResourceSpecError(f"{option} names no resource: write it as cores=4")
    return found


def _job() -> DelayedFn[[], None]:
    return delayed(_nothing, name="job")


def _nothing() -> None:
    """Do nothing: never called."""


def _facts(plan: Plan) -> dict[str, object]:
    queued = [job.queued_s for job in plan.jobs]
    return {
        "jobs": len(plan.jobs),
        "workers": len(plan.workers),
        "makespan_s": plan.makespan_s,
        "utilisation": plan.utilisation,
        "core_hours": plan.core_hours,
        "longest_queued_s": max(queued, default=0.0),
        "unsatisfiable": [{"name": one.name, "jobs": one.jobs, "why": one.why} for one in plan.unsatisfiable],
    }

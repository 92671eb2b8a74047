"""`simulate`: how long equal jobs would take on equal workers, by a dry run."""

from __future__ import annotations

import sys
from pathlib import Path

from grainlike.cli._exits import OK, REFUSED
from grainlike.dryrun import Plan, plan_equal_jobs
from grainlike.errors import ResourceSpecError
from grainlike.resources import Request, parse

__all__ = ["simulate"]


def simulate(
    *, jobs: int, request: str, seconds: float, workers: int, resources: str, as_json: bool, picture: Path | None
) -> int:
    """Plan, draw if asked, and print; refused when no worker could ever run the jobs.

    Raises:
        ResourceSpecError: `request` or `resources` is no request, or asks for nothing.
    """
    asked, offer = _wanted(request, "--request"), _wanted(resources, "--resources")
    plan = plan_equal_jobs("job", asked, seconds, jobs=jobs, offer=offer, workers=workers)
    if picture is not None:
        _draw(plan, picture)
    print(_json(plan) if as_json else plan)  # noqa: T201 - a command line speaks
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


def _json(plan: Plan) -> str:
    import json  # people are told in words

    queued = [job.queued_s for job in plan.jobs]
    facts = {
        "jobs": len(plan.jobs),
        "workers": len(plan.workers),
        "makespan_s": plan.makespan_s,
        "utilisation": plan.utilisation,
        "core_hours": plan.core_hours,
        "longest_queued_s": max(queued, default=0.0),
        "unsatisfiable": [{"name": one.name, "jobs": one.jobs, "why": one.why} for one in plan.unsatisfiable],
    }
    return json.dumps(facts)

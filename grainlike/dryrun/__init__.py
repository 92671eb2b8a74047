"""Dry run: what would run where and when, by the schedulers in virtual time."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.dryrun._dry_run import dry_run, rehearse, roots_of
    from grainlike.dryrun._plan import Plan, PlannedJob, Unsatisfiable
    from grainlike.dryrun._planning import plan_equal_jobs
    from grainlike.dryrun._workload import rehearsed

__all__ = [
    "Plan",
    "PlannedJob",
    "Unsatisfiable",
    "dry_run",
    "plan_equal_jobs",
    "rehearse",
    "rehearsed",
    "roots_of",
]

if not TYPE_CHECKING:  # else any name would be there
    __getattr__ = later(
        __name__,
        {
            "Plan": "_plan",
            "PlannedJob": "_plan",
            "Unsatisfiable": "_plan",
            "dry_run": "_dry_run",
            "plan_equal_jobs": "_planning",
            "rehearse": "_dry_run",
            "rehearsed": "_workload",
            "roots_of": "_dry_run",
        },
    )

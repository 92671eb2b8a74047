"""Dry run: what would run where and when, by the schedulers in virtual time."""

from typing import TYPE_CHECKING

from grainlike._later import later

if TYPE_CHECKING:
    from grainlike.dryrun._dry_run import dry_run, rehearse, roots_of
    from grainlike.dryrun._plan import Plan, PlannedJob, Unsatisfiable

__all__ = [
    "Plan",
    "PlannedJob",
    "Unsatisfiable",
    "dry_run",
    "rehearse",
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
            "rehearse": "_dry_run",
            "roots_of": "_dry_run",
        },
    )

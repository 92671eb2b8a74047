"""`Totals`: how many jobs ended how, and in what time."""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.graph import Status

__all__ = ["Totals"]

_STATUSES: tuple[Status, ...] = ("succeeded", "failed", "skipped", "timed_out", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Number of jobs by outcome, and their times. `print` shows it in a line.

    Attributes:
        succeeded: jobs that gave a value.
        failed: jobs that raised, were lost with their workers, or could not be sent.
        skipped: jobs that never started, for what they needed did not succeed, or their graph had failed.
        timed_out: jobs that were ended because they ran past a limit.
        cancelled: jobs that were cancelled or had no awaiter left, and those that ran when their graph failed.
        total_seconds: from beginning to end; of a head with a journal, from its first start.
        run_seconds: the times that all jobs ran, added up.
    """

    succeeded: int
    failed: int
    skipped: int
    timed_out: int
    cancelled: int
    total_seconds: float
    run_seconds: float

    def __str__(self) -> str:
        counts = [(status, getattr(self, status)) for status in _STATUSES]
        said = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts if count)
        return f"{said or 'no jobs'} in {self.total_seconds:.3g} s"

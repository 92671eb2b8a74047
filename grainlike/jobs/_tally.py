"""Counters of how the jobs of one executor ended."""

from __future__ import annotations

from grainlike.jobs._totals import Totals

__all__ = ["Tally"]


class Tally:
    """Counts jobs as they end. Successes, the most frequent, are counted by the batch.

    `opened` is when that began, on the head's clock. Where it has a journal, the next head continues count and clock.
    """

    def __init__(self, opened: float) -> None:
        self.succeeded = 0
        self.failed = 0
        self.skipped = 0
        self.timed_out = 0
        self.cancelled = 0
        self.run_seconds = 0.0
        self.opened = opened

    @property
    def bad(self) -> int:
        """Number of jobs that failed or timed out."""
        return self.failed + self.timed_out

    def unwanted(self, *, skipped: bool) -> None:
        """Count a job that is wanted no more: skipped because of a failure, or cancelled."""
        if skipped:
            self.skipped += 1
        else:
            self.cancelled += 1

    def totals(self, now: float) -> Totals:
        """The figures at this moment."""
        return Totals(
            succeeded=self.succeeded,
            failed=self.failed,
            skipped=self.skipped,
            timed_out=self.timed_out,
            cancelled=self.cancelled,
            total_seconds=now - self.opened,
            run_seconds=self.run_seconds,
        )

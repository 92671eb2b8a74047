"""`Totals`: how many jobs ended how, and in what time.

Counters of how the jobs of one executor ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from grainlike.graph import Status

__all__ = ["JobCounters", "Totals"]


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


class JobCounters:
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

"""Number of jobs by outcome, as heads count them and tell of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Totals"]

_STATUSES = ("succeeded", "failed", "skipped", "timed_out", "cancelled")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Totals:
    """Number of jobs by outcome, and their times. `print` shows it in a line.

    Internal jobs, which take parts of large values, or write and read copies at URLs, are not counted. If one fails,
    the jobs that need it count as failed.

    Attributes:
        succeeded: jobs that gave a value.
        failed: jobs that raised, were lost with their workers, or could not be sent; or needed an internal job that
            failed.
        skipped: jobs that never started, for what they needed did not succeed, or their graph had failed.
        timed_out: jobs that were ended because they ran past a limit.
        cancelled: jobs that were cancelled or had no awaiter left, and those that ran when their graph failed.
        total_seconds: seconds from beginning to end; of a head with a journal, from its first start.
        run_seconds: seconds that all jobs ran, internal ones too, added up.
        moved: bytes of values that were copied from worker to worker.
        relayed: bytes of them that passed through the head.
        sent: bytes of arguments that went from programs to workers, other than through shared memory.
        fetched: bytes of values that stayed at workers, and came to programs later.
        recomputed: jobs that ran again because their values were lost.
    """

    succeeded: int
    failed: int
    skipped: int
    timed_out: int
    cancelled: int
    total_seconds: float
    run_seconds: float
    moved: int = 0
    relayed: int = 0
    sent: int = 0
    fetched: int = 0
    recomputed: int = 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of jobs by outcome, in the order of the attributes, without times and bytes."""
        return tuple(getattr(self, status) for status in _STATUSES)

    def __str__(self) -> str:
        counts = zip(_STATUSES, self.counts, strict=True)
        said = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in counts if count)
        return f"{said or 'no jobs'} in {self.total_seconds:.3g} s"

"""How the jobs of one executor ended, in figures."""

from __future__ import annotations

from grainlike.jobs._totals import Totals

__all__ = ["Tally"]


class Tally:
    """Counts jobs as they end. Successes are counted by the batch: they are what there are many of.

    `opened` is when that began, on the head's clock. Where it has a journal, count and clock go on in the next one.
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
        """How many of those that were answered for gave no value."""
        return self.failed + self.timed_out

    def unwanted(self, *, skipped: bool) -> None:
        """Nobody wants a job any more: it was never to begin for what has failed, or somebody gave it up."""
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

"""Batch systems as the fleet scheduler knows them: when they were asked, and whether they answer."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SystemState"]

ANSWER_S = 120.0
"""Seconds after which a question counts as lost. Native commands have 30 s; other steps take the rest."""

FRESH_S = 30.0
"""Seconds for which a listing says whether a system answers."""


@dataclass(slots=True)
class SystemState:
    """State of a batch system.

    Attributes:
        name: its key.
        submitting: label of the block whose submission has no answer yet; empty if there is none.
        submitted_at: time of the last submission.
        asked_at: time at which the system was last asked for its blocks; None if never, or if it is to be asked now.
        waiting: True while the answer to that is outstanding.
        list_before: time by which it is to be asked again, earlier than usual; None for the usual time.
        failing_since: time since which it does not list its blocks; None if it does.
        failing: its words for that.
    """

    name: str
    submitting: str = ""
    submitted_at: float | None = None
    asked_at: float | None = None
    waiting: bool = False
    list_before: float | None = None
    failing_since: float | None = None
    failing: str = ""

    def ask_anew(self, now: float) -> None:
        """Ask the system now, if its last answer is of some time ago, or was none: it may be there again."""
        if self.waiting or self.asked_at is None:
            return
        if self.failing_since is not None or now >= self.asked_at + FRESH_S:
            self.asked_at = None

    def hurry(self, at: float) -> None:
        """Ask the system by this time."""
        self.list_before = at if self.list_before is None else min(at, self.list_before)

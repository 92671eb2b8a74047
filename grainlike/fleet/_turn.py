"""Turn of the fleet scheduler: the actions that follow from one event, and when to look again."""

from __future__ import annotations

from grainlike.fleet._events import FleetAction, Wake
from grainlike.fleet._records import FleetRecords

__all__ = ["Turn"]


class Turn:
    """Actions of one event, on the records, at one time."""

    __slots__ = ("actions", "now", "records", "wake")

    def __init__(self, records: FleetRecords, now: float) -> None:
        self.records = records
        self.now = now
        self.actions: list[FleetAction] = []
        self.wake: float | None = None

    def do(self, action: FleetAction) -> None:
        """Add an action."""
        self.actions.append(action)

    def at(self, when: float) -> None:
        """Look again at this time, if it is in the future and no other look is earlier."""
        if when > self.now and (self.wake is None or when < self.wake):
            self.wake = when

    def due(self, when: float) -> bool:
        """Return True if this time has come; otherwise look again then."""
        if when <= self.now:
            return True
        self.at(when)
        return False

    def ended(self) -> list[FleetAction]:
        """Return the actions, with a `Wake` for the next look."""
        return [*self.actions, Wake(self.wake)] if self.wake is not None else self.actions

"""Replication: each value has as many replicas as it should have, at workers that stay, even when workers go.

One replica is enough unless a program asked for more; a value that may not be made again has two. Values that only
leaving workers have are copied first, the largest before others.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._value_events import ReplicationReached
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["EVERYWHERE", "SAFE_COPIES", "Replication"]

EVERYWHERE = 1 << 30
"""Number of replicas that means one at each worker."""

SAFE_COPIES = 2
"""Number of replicas of a value that may not be made again."""

ENDS_SOON_S = 600.0
"""Seconds before its end in which a worker gets replicas for safety only if no other worker can."""


class Replication:
    """Asks for copies where replicas are too few. The arguments are the scheduler's own objects, not copies.

    Attributes:
        due: values to look at before the turn ends, by number.
        kept: values that keep more than one replica, by number.
    """

    __slots__ = ("_leaving", "_table", "_transfers", "_workers", "due", "kept")

    def __init__(
        self, workers: dict[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = workers
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self.due: dict[int, ValueState] = {}
        self.kept: dict[int, ValueState] = {}

    def keep(self, value: ValueState, copies: int) -> None:
        """Keep at least this many replicas of a value from now on."""
        value.copies = max(value.copies, copies)
        self.kept[value.id] = value
        self.look_at(value)

    def look_at(self, value: ValueState | None) -> None:
        """Look at a value before the turn ends, because its replicas have changed; None stands for an unknown value."""
        if value is not None and (value.copies > 1 or value.unreached or self._leaving.workers):
            self.due[value.id] = value
            self._table.stirred = True
            self._table.shift(value)

    def look_at_all(self) -> None:
        """Look at all values whose replicas may be too few, because workers have come or will go."""
        for value in self.kept.values():
            self.look_at(value)
        if self._leaving.workers:
            for value in self._leaving.refill():
                self.look_at(value)

    def forget(self, values: Iterable[int]) -> None:
        """Forget values that are not known any more."""
        for number in values:
            self.kept.pop(number, None)
            self.due.pop(number, None)

    def make_good(self, now: float, out: list[HeadAction]) -> None:
        """Ask for the copies that are missing, and answer the programs whose values have their replicas."""
        due, self.due = self.due, {}
        able = [worker for worker in self._workers.values() if self._leaving.is_able(worker)]
        reached: list[int] = []
        for value in due.values():
            if not (value.is_needed and (value.replicas or value.origin)):
                continue
            if self._has_enough(value, able, now) and value.unreached:
                value.unreached = False
                reached.append(value.id)
                self._table.look_at(value)
        if reached:
            out.append(ReplicationReached(reached))

    def _has_enough(self, value: ValueState, able: list[WorkerState], now: float) -> bool:
        """Ask for the copies that a value lacks. Return True if it has all replicas that it can have now."""
        here = sum(self._leaving.stays(worker) for worker in value.replicas)
        if here >= value.copies:
            return True
        known, first = self._transfers.known, not here
        others = [worker for worker in able if worker.id not in value.replicas]
        coming = [worker for worker in others if (value.id, worker.id) in known]
        new = [worker for worker in others if (value.id, worker.id) not in known]
        lacking = value.copies - here - len(coming)
        if 0 < lacking < len(new):
            new.sort(key=lambda worker: self._rank(value, worker, now))
        chosen = coming + new[: max(0, lacking)]
        for worker in chosen:
            self._transfers.copy(value, worker.id, first=first)
        return not chosen

    def _rank(self, value: ValueState, worker: WorkerState, now: float) -> tuple[bool, bool, bool, int, int, int]:
        """Return the order in which workers get replicas for safety: the fewest bytes first, after workers that should
        get any.
        """
        rests = bool(self._transfers.rests(value, worker.id, now))
        ends_soon = worker.until < now + ENDS_SOON_S
        held = self._table.stored.get(worker.id, 0) + self._transfers.coming.get(worker.id, 0)
        return rests, bool(worker.shut), ends_soon, held, len(worker.held), worker.id

    def check(self) -> None:
        """Raise `AssertionError` unless each value has its replicas, or they are on their way. For tests."""
        assert not self.due, "a turn ended before all replicas were looked at"
        able = [worker for worker in self._workers.values() if self._leaving.is_able(worker)]
        for value in self._table.values.values():
            if not (value.is_needed and (value.replicas or (value.origin and value.unreached))):
                continue
            here = sum(self._leaving.stays(worker) for worker in value.replicas)
            others = [worker.id for worker in able if worker.id not in value.replicas]
            coming = sum((value.id, worker) in self._transfers.known for worker in others)
            assert here + coming >= min(value.copies, here + len(others)), f"value {value.id} has too few replicas"
            assert not value.unreached or coming, f"value {value.id} has its replicas, and nobody was told"
            assert value.copies == 1 or value.id in self.kept, f"value {value.id} is not kept"

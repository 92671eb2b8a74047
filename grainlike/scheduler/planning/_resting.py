"""Resting: which classes near a worker need no look for now, and what has them looked at again.

What a vain look depended on is with the class (`_dormant`). Here is what a pass does with that: it lets classes rest,
and rouses those that something may help, at its start and whenever it has placed or reserved something itself. So each
look that is left out would have found what the last one found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from grainlike.scheduler._records import HeadJob, RequestClass, Shape
from grainlike.scheduler._workers import ChangeLog, WorkerState
from grainlike.scheduler.planning._dormant import Look
from grainlike.scheduler.planning._reservation import patience_of
from grainlike.scheduler.planning._reservations import Reservations
from grainlike.scheduler.planning._search import Search
from grainlike.scheduler.planning._waiting import WaitingClasses
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["Resting"]


class Resting:
    """Rest of the classes of one head. The arguments are the planner's own, not copies."""

    __slots__ = ("_known", "_log", "_read", "_reserving", "_transfers", "_version", "_waiting", "_workers")

    def __init__(
        self,
        workers: dict[int, WorkerState],
        transfers: Transfers,
        log: ChangeLog,
        waiting: WaitingClasses,
        reserving: Reservations,
    ) -> None:
        self._workers = workers
        self._transfers = transfers
        self._log = log
        self._waiting = waiting
        self._reserving = reserving
        self._known = (0, 0, 0)
        """Members, workers that were shut or opened, and changes of ways between workers, as of the last pass."""
        self._read = 0
        self._version = 0

    @property
    def next_due(self) -> float | None:
        """When the first class that rests may go elsewhere; None if that is known of none."""
        return self._waiting.dormant.next_due

    def let_rest(self, cls: RequestClass, job: HeadJob, look: Look, now: float) -> None:
        """Let a class rest that was looked at in vain, if only what `look` names can help it."""
        passed, dormant = cls.passed_since, self._waiting.dormant
        is_patient = passed is not None and now - passed >= patience_of(job)
        may = look.is_settled and not self._transfers.table.tight
        may = may and not (is_patient or cls.root or cls.id in self._reserving.by_class)
        if may and not any(map(self._needs_looks, cls.shapes)):
            look.passed = passed
            self._waiting.let_rest(cls, job, look)
        elif cls in dormant:
            self._waiting.rouse(cls)

    def _needs_looks(self, shape: Shape) -> bool:
        """Return True if a job of a shape waits for more than values and amounts, or may be reserved for at once."""
        return shape.rationed or shape.nodes > 1 or shape.group is not None or self._reserving.is_wide(shape)

    def skip(self) -> None:
        """Forget what has changed: a pass looks at all classes, as there are few."""
        self._transfers.turned, self._transfers.table.placed = [], []
        self._transfers.table.filled.clear()

    def rouse(self, changed: Collection[WorkerState], now: float) -> None:
        """Have those classes looked at that something may help which has changed since the last pass."""
        transfers, dormant = self._transfers, self._waiting.dormant
        placed, transfers.table.placed = transfers.table.placed, []
        before, self._known = self._known, (self._reserving.members, self._log.shifts, transfers.reach.changes)
        if dormant.records and (before[:2] != self._known[:2] or transfers.table.crowded):
            self._rouse(dormant.all())
        elif dormant.records:
            self._rouse(dormant.over(now))
            self._rouse(dormant.of_values(placed))
            self._rouse(self._waiting.patience.passed)
            if before[2] != self._known[2]:
                self._rouse(dormant.of_rates())
            workers = dict.fromkeys([*changed, *self._turned()])
            for worker in workers:
                self._rouse(dormant.of_worker(worker, transfers.has_turn))
            for worker in workers | self._filled():
                self._rouse(dormant.of_room(worker, transfers.rooms.has_room))
        transfers.table.filled.clear()
        transfers.turned, self._waiting.patience.passed = [], []
        self._read, self._version = len(self._log.entries), 0

    def rouse_meanwhile(self, search: Search) -> float | None:
        """Have those classes looked at that something may help which a pass itself has changed: in this pass if their
        turn is still to come. Return when the first of the others was due, None if that is known of none.
        """
        dormant = self._waiting.dormant
        workers = dict.fromkeys(self._log.entries[self._read :])
        workers.update(dict.fromkeys(self._turned()))
        self._transfers.turned = []
        self._read = len(self._log.entries)
        if search.version != self._version:
            self._version = search.version
            numbers = [*self._reserving.by_worker, *self._reserving.reopened]
            workers.update(dict.fromkeys(self._workers[number] for number in numbers))
        first: float | None = None
        for worker in workers:
            first = self._rouse_now(dormant.of_worker(worker, self._transfers.has_turn), search, first)
        if workers or self._transfers.table.filled:
            for worker in workers | self._filled():
                first = self._rouse_now(dormant.of_room(worker, self._transfers.rooms.has_room), search, first)
            self._transfers.table.filled.clear()
        return first

    def _rouse_now(self, classes: Iterable[RequestClass], search: Search, first: float | None) -> float | None:
        """Rouse classes in a pass; return the earlier of `first` and when one was due whose turn is over."""
        for cls in classes:
            due = self._waiting.dormant.due(cls)
            if due is not None and search.has_passed(cls) and (first is None or due < first):
                first = due
            self._waiting.rouse(cls)
        return first

    def _filled(self) -> dict[WorkerState, None]:
        """Return the workers that may have less room than before."""
        here = self._workers
        return {here[number]: None for number in self._transfers.table.filled if number in here}

    def _turned(self) -> list[WorkerState]:
        """Return the workers whose claims have changed."""
        here = self._workers
        return [here[number] for number in self._transfers.turned if number in here]

    def _rouse(self, classes: Iterable[RequestClass]) -> None:
        for cls in classes:
            if cls in self._waiting.dormant:
                self._waiting.rouse(cls)

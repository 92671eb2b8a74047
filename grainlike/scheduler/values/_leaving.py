"""Departures: workers that leave, and the values that no other worker has.

A worker that drains or stops gives its values away at once. A worker whose end is known starts in time to copy them. A
drained worker is released when its jobs have ended and its values are elsewhere, or when that took too long.
"""

from __future__ import annotations

from collections.abc import Iterator

from grainlike.scheduler._events import HeadAction, ReleaseWorker
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["Departures"]

EARLY_S = 10.0
"""Seconds before a worker's end by which its values must be elsewhere; at most a tenth of the worker's lifetime."""

SLOWER = 2.0
"""Factor by which copies may be slower than measured."""

DRAIN_S = 60.0
"""Seconds for which a drained worker is held for its values at most, besides `SLOWER` times the time to copy them."""

_FOREVER = float("inf")


class _LeavingWorker:
    """Record of a worker that leaves.

    Attributes:
        owes: values that may have no replica at a worker that stays, by number.
        until: time until which the worker is held for these values; None until its jobs have ended.
        held: True if the worker drains, until it is released.
    """

    __slots__ = ("held", "owes", "until")

    def __init__(self, *, held: bool) -> None:
        self.owes: dict[int, ValueState] = {}
        self.until: float | None = None
        self.held = held


class Departures:
    """Workers of one head that leave. The arguments are the scheduler's own objects, not copies.

    Attributes:
        workers: workers that give their values away, by number.
        held: number of workers that are still to be released.
        wake: time of the next `look`, for a worker whose end is known or that is held; None without one.
    """

    __slots__ = ("_table", "_transfers", "_workers", "held", "wake", "workers")

    def __init__(self, workers: dict[int, WorkerState], table: ValueTable, transfers: Transfers) -> None:
        self._workers = workers
        self._table = table
        self._transfers = transfers
        self.workers: dict[int, _LeavingWorker] = {}
        self.held = 0
        self.wake: float | None = None

    def stays(self, worker: int) -> bool:
        """Return True for a worker that does not leave."""
        return worker not in self.workers

    def is_able(self, worker: WorkerState) -> bool:
        """Return True if a worker may get replicas for safety."""
        return worker.id not in self.workers and not worker.leaving and not worker.over and "suspect" not in worker.shut

    def holds(self, worker: int) -> bool:
        """Return True while a worker that drains is held for its values."""
        leaving = self.workers.get(worker)
        return leaving is not None and leaving.held

    # --- who leaves --------------------------------------------------------------------------------------------------

    def begin(self, worker: WorkerState, *, held: bool = False) -> None:
        """Let a worker give its values away; release it then if `held`. The caller looks at all values afterwards."""
        leaving = self.workers.get(worker.id)
        if leaving is None:
            leaving = self.workers[worker.id] = _LeavingWorker(held=False)
        self.held += held - leaving.held
        leaving.held = held

    def lost(self, worker: int) -> None:
        """Forget a worker that is lost."""
        leaving = self.workers.pop(worker, None)
        if leaving is not None:
            self.held -= leaving.held

    def watch(self, worker: WorkerState, now: float) -> None:
        """Plan a look at a worker in time to copy its values, if its end is known."""
        if worker.until == _FOREVER or worker.leaving:
            return
        if worker.id in self._table.stored:
            self._wake_at(max(self._due(worker), now))

    def retimed(self, worker: WorkerState, now: float) -> None:
        """Record that the end of a worker has changed. The caller looks at all values then."""
        leaving = self.workers.get(worker.id)
        if leaving is not None and not worker.leaving and self._due(worker) > now:
            for value in self._fill(worker.id, leaving):
                self._table.shift(value)
            self.lost(worker.id)
        self.watch(worker, now)

    def look(self, now: float) -> bool:
        """Let the workers whose time has come give their values away; return True if there are any."""
        self.wake = None
        before = len(self.workers)
        for worker in self._workers.values():
            if worker.until != _FOREVER and worker.id in self._table.stored and worker.id not in self.workers:
                if self._due(worker) <= now:
                    self.begin(worker)
                else:
                    self._wake_at(self._due(worker))
        for leaving in self.workers.values():
            if leaving.held and leaving.until is not None:
                self._wake_at(leaving.until)
        return len(self.workers) > before

    def _due(self, worker: WorkerState) -> float:
        """Return the time at which a worker whose end is known starts to give its values away."""
        seconds = SLOWER * self._table.stored.get(worker.id, 0) / self._transfers.reach.slowest
        return worker.until - min(EARLY_S, worker.lasts / 10) - seconds

    def _wake_at(self, at: float) -> None:
        self.wake = at if self.wake is None else min(self.wake, at)

    # --- what they have ----------------------------------------------------------------------------------------------

    def refill(self) -> Iterator[ValueState]:
        """Iterate over all values of the leaving workers. The workers owe them again: they may fit elsewhere now."""
        for number, leaving in self.workers.items():
            yield from self._fill(number, leaving)

    def _fill(self, number: int, leaving: _LeavingWorker) -> list[ValueState]:
        found = [value for value in self._table.values.values() if number in value.replicas]
        leaving.owes.update((value.id, value) for value in found)
        return found

    def has(self, value: ValueState, worker: int) -> None:
        """Record that a worker has a value; a worker that leaves owes it."""
        leaving = self.workers.get(worker)
        if leaving is not None:
            leaving.owes[value.id] = value

    def _is_owed(self, value: ValueState, worker: int) -> bool:
        """Return True if no worker that stays has a value of a worker, and another worker could get it."""
        if not value.is_needed or worker not in value.replicas or any(map(self.stays, value.replicas)):
            return False
        return any(self.is_able(other) for other in self._workers.values())

    # --- when they go ------------------------------------------------------------------------------------------------

    def release(self, now: float, out: list[HeadAction]) -> None:
        """Release each drained worker whose jobs have ended, and whose values are elsewhere or took too long."""
        for number, leaving in self.workers.items():
            if leaving.held and self._workers[number].is_idle and self._is_done(number, leaving, now):
                leaving.held = False
                self.held -= 1
                out.append(ReleaseWorker(number))

    def _is_done(self, number: int, leaving: _LeavingWorker, now: float) -> bool:
        owes = leaving.owes
        while owes and not self._is_owed(next(iter(owes.values())), number):
            del owes[next(iter(owes))]
        if not owes:
            return True
        if leaving.until is None:
            seconds = SLOWER * sum(value.size for value in owes.values()) / self._transfers.reach.slowest
            leaving.until = min(now + DRAIN_S + seconds, self._workers[number].until)
            self._wake_at(leaving.until)
        return now >= leaving.until

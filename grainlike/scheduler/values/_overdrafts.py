"""Overdrafts: workers whose values exceed their stores.

Nothing is copied to such a worker. Values that only this worker has, and that no job there uses, are copied to workers
with room, the largest first, until enough replicas are spare here.
"""

from __future__ import annotations

from collections.abc import Mapping

from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["Overdrafts"]


class Overdrafts:
    """Overdrafts of one head's workers. The arguments are the scheduler's own objects, not copies.

    Attributes:
        workers: workers whose values exceed their stores, by number.
    """

    __slots__ = ("_leaving", "_table", "_transfers", "_workers", "workers")

    def __init__(
        self, everybody: Mapping[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = everybody
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self.workers: dict[int, WorkerState] = {}

    def changed(self, worker: WorkerState, over: int) -> None:
        """Record by how many bytes a worker's values exceed its store."""
        if bool(over) != bool(worker.over):
            for value in self._table.values.values():  # a different replica may be spare now
                if worker.id in value.replicas:
                    self._table.shift(value)
        worker.over = over
        self._table.filled[worker.id] = None
        self._table.unsettled = True
        if over:
            self.workers[worker.id] = worker
        else:
            self.workers.pop(worker.id, None)

    def lost(self, worker: int) -> None:
        """Forget a worker that is lost."""
        self.workers.pop(worker, None)

    def pay_back(self) -> None:
        """Ask for copies at other workers of values that exceed a worker's store."""
        for worker in self.workers.values():
            self._relieve(worker)

    def _relieve(self, worker: WorkerState) -> None:
        spare = self._table.spare.get(worker.id, {})
        here = [value for value in self._table.values.values() if worker.id in value.replicas and value.is_needed]
        copied = {number for number, _ in self._transfers.known}
        lacking = worker.over - sum(spare.values())
        lacking -= sum(value.size for value in here if value.id in copied and value.id not in spare)
        movable = [value for value in here if value.id not in copied and value.id not in spare]
        for value in sorted(movable, key=lambda value: (-value.size, value.id)):
            if lacking <= 0:
                return
            target = None if self._transfers.rooms.is_used(value, worker.id) else self._target(value)
            if target is not None:
                self._transfers.copy(value, target.id)
                lacking -= value.size

    def _target(self, value: ValueState) -> WorkerState | None:
        """Return the worker with the most room for a value; None if no worker has enough."""
        rooms = self._transfers.rooms
        others = (worker for worker in self._workers.values() if worker.id not in value.replicas)
        able = [worker for worker in others if self._leaving.is_able(worker) and not worker.shut]
        free = {worker.id: rooms.free(worker) for worker in able}
        with_room = [worker for worker in able if free[worker.id] >= value.size and worker.id not in rooms.claims]
        return max(with_room, key=lambda worker: (free[worker.id], -worker.id), default=None)

    def check(self) -> None:
        """Raise `AssertionError` unless exactly the workers with overdrafts are known. For tests: walks over all."""
        assert self.workers == {worker.id: worker for worker in self._workers.values() if worker.over}

"""Overdrafts: workers whose values exceed their stores.

Nothing is copied to such a worker. Values that only this worker has, and that no job there uses, are copied to workers
with room, the largest first, until enough replicas are spare here. A job that waits for that is given up where nothing
can pay the overdraft back: no job computes, nothing is under way, and the values that jobs need exceed the store alone,
whatever programs let go of. If it would have room once its program's own values travelled, they do, even where nothing
exceeds a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from grainlike.scheduler._records import HeadJob, order
from grainlike.scheduler._workers import UNLIMITED, WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._rooms import KEPT_SCHEMA
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["PAYBACK_S", "Overdrafts"]

UNPAID_SCHEMA = 6
"""Schema of journals from which on jobs are given up that wait for an overdraft which nothing pays back."""

PAYBACK_S = 5.0
"""Seconds for which jobs wait for room that nothing can make, as a worker might join."""


class Overdrafts:
    """Overdrafts of one head's workers. The arguments are the scheduler's own objects, not copies.

    Attributes:
        workers: workers whose values exceed their stores, by number.
        still: since when jobs wait for room that nothing can make; None without such jobs.
    """

    __slots__ = ("_leaving", "_table", "_transfers", "_workers", "still", "workers")

    def __init__(
        self, everybody: Mapping[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = everybody
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self.workers: dict[int, WorkerState] = {}
        self.still: float | None = None

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
            self.lost(worker.id)

    def lost(self, worker: int) -> None:
        """Forget a worker that is lost, or whose values do not exceed its store any more."""
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
        with_room = [worker for worker in able if free[worker.id] >= value.size and not rooms.is_kept(worker)]
        return max(with_room, key=lambda worker: (free[worker.id], -worker.id), default=None)

    # --- what nothing makes room for ---------------------------------------------------------------------------------

    def stuck(self) -> list[HeadJob]:
        """Return the jobs that can have room nowhere, whatever programs let go of, the oldest first. Return none if
        another job that waits for room could have some so.
        """
        rooms, needed = self._transfers.rooms, _NeededValues(self._workers, self._table)
        found: list[HeadJob] = []
        for job in rooms.parked.values():
            hosts = rooms.hosts(job)
            if any(needed.shortage(worker.id, job.inputs) <= 0 for worker in hosts):
                return []
            if hosts:
                found.append(job)
        return sorted(found, key=lambda job: (order(job), job.id))

    def to_travel(self, stuck: list[HeadJob], travelling: Callable[[HeadJob], list[int]]) -> HeadJob | None:
        """Return the oldest job that would have room for its other inputs once its own values are `travelling`."""
        if not stuck or self._transfers.rules < KEPT_SCHEMA:
            return None
        hosts, needed = self._transfers.rooms.hosts, _NeededValues(self._workers, self._table)
        for job in stuck:
            own = travelling(job)
            others = [number for number in job.inputs if number not in own]
            if own and any(needed.shortage(worker.id, others) <= 0 for worker in hosts(job)):
                return job
        return None

    def to_give_up(self, stuck: list[HeadJob]) -> HeadJob | None:
        """Return the job to give up for an overdraft that nothing can pay back: the youngest one whose end lets the
        oldest go on; the youngest of all without one.
        """
        hosts = self._transfers.rooms.hosts
        unpaid = [job for job in stuck if any(worker.over for worker in hosts(job))]
        if not unpaid or self._transfers.rules < UNPAID_SCHEMA:
            return None
        oldest, needed = unpaid[0], _NeededValues(self._workers, self._table)
        for job in reversed(unpaid[1:]):
            if any(needed.shortage(one.id, oldest.inputs) <= needed.freed(one.id, job) for one in hosts(oldest)):
                return job
        return unpaid[-1]

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless exactly the workers with overdrafts are known. For tests: walks over all."""
        assert self.workers == {worker.id: worker for worker in self._workers.values() if worker.over}


class _NeededValues:
    """Values at each worker that unfinished jobs need, and that are not spare: it keeps these even if programs let go
    of all others. Made for one look at them.
    """

    __slots__ = ("_free", "_kept", "_movable", "_table")

    def __init__(self, workers: Mapping[int, WorkerState], table: ValueTable) -> None:
        self._table = table
        self._kept: dict[int, dict[int, int]] = {number: {} for number in workers}
        for value in table.values.values():
            for number in value.replicas if value.users else ():
                if value.id not in table.spare.get(number, {}):
                    self._kept[number][value.id] = value.size
        stores = {number: UNLIMITED if one.store is None else sum(one.store) for number, one in workers.items()}
        self._free = {number: size - sum(self._kept[number].values()) for number, size in stores.items()}
        self._movable = {number: self._find_movable(number) for number in workers}

    def shortage(self, worker: int, inputs: Iterable[int]) -> int:
        """Return the bytes that a job with these inputs lacks at a worker which keeps its needed values alone, and has
        moved those of them away for which others would have room then; 0 or less if the job would have room, or has all
        inputs there.
        """
        table, here = self._table, self._kept[worker]
        if not table.missing(inputs, worker):
            return 0
        lacking = table.total(value for value in inputs if value not in here)
        return lacking - self._free[worker] - self._movable[worker]

    def freed(self, worker: int, job: HeadJob) -> int:
        """Return the bytes that a worker need not keep any more once a job has ended."""
        here = [self._table.values[number] for number in job.inputs if number in self._kept[worker]]
        return sum(value.size for value in here if not value.owned and self._table.last_user(value.id) is job)

    def _find_movable(self, source: int) -> int:
        """Return how many bytes could move to others: the largest value first, to the worker with the most room."""
        free = {number: size for number, size in self._free.items() if number != source}
        total = 0
        for value, size in sorted(self._kept[source].items(), key=lambda item: -item[1]):
            others = [number for number in free if value not in self._kept[number]]
            target = max(others, key=free.__getitem__, default=None)
            if target is not None and free[target] >= size:
                free[target] -= size
                total += size
        return total

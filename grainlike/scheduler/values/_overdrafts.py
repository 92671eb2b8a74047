"""Overdrafts: workers whose values exceed their stores.

Nothing is copied to such a worker. Values that only this worker has, and that no job there uses, are copied to workers
with room, the largest first, until enough replicas are spare here. Jobs that wait for that are given up where nothing
can pay the overdraft back: no job computes, and nothing is under way.
"""

from __future__ import annotations

from collections.abc import Mapping

from grainlike.scheduler._records import HeadJob, order
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["PAYBACK_S", "Overdrafts"]

PAYBACK_S = 5.0
"""Seconds for which jobs wait for an overdraft while nothing can pay it back."""


class Overdrafts:
    """Overdrafts of one head's workers. The arguments are the scheduler's own objects, not copies.

    Attributes:
        workers: workers whose values exceed their stores, by number.
        gives_up: False if jobs wait for ever for what nothing pays back.
        still: since when nothing could pay an overdraft back, and a job that has waited since then; None while
            something can, or no job waits.
    """

    __slots__ = ("_leaving", "_table", "_transfers", "_workers", "gives_up", "still", "workers")

    def __init__(
        self, everybody: Mapping[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = everybody
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self.workers: dict[int, WorkerState] = {}
        self.gives_up = True
        self.still: tuple[float, HeadJob] | None = None

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

    # --- what nothing pays back --------------------------------------------------------------------------------------

    def note(self, now: float, *, is_still: bool) -> float | None:
        """Record whether nothing could pay an overdraft back now. Return when jobs are given up for that."""
        parked = self._transfers.rooms.parked
        if not (is_still and self.gives_up and self.workers and parked):
            self.still = None
            return None
        if self.still is None or parked.get(self.still[1].id) is not self.still[1]:
            self.still = now, next(iter(parked.values()))
        return self.still[0] + PAYBACK_S

    def to_give_up(self, now: float) -> list[HeadJob]:
        """Return the jobs to give up now: the youngest of those that wait for an overdraft whose ends pay one back; all
        of them if that is not enough.
        """
        if self.still is None or now < self.still[0] + PAYBACK_S:
            return []
        parked = self._transfers.rooms.parked
        waits = parked.get(self.still[1].id) is self.still[1]
        if not waits or any(value.givers for value in self._table.values.values()):  # a program may let those go
            self.still = None
            return []
        waiting = [job for job in parked.values() if self._waits(job)]
        return self._paying(sorted(waiting, key=lambda job: (order(job), job.id), reverse=True)) or waiting

    def _waits(self, job: HeadJob) -> bool:
        """Return True if a parked job has room at no worker, and could have some at one with an overdraft."""
        rooms = self._transfers.rooms
        able = rooms.able(job)
        return any(worker.over for worker in able) and not any(rooms.has_room(worker, job) for worker in able)

    def _paying(self, waiting: list[HeadJob]) -> list[HeadJob]:
        """Return the first of these jobs whose ends let so many bytes go that an overdraft is paid back; none if all of
        them do not.
        """
        gone: dict[int, HeadJob] = {}
        freed: dict[int, ValueState] = {}
        for job in waiting:
            gone[job.id] = job
            values = (self._table.values[number] for number in job.inputs)
            freed.update((value.id, value) for value in values if self._goes_with(value, gone))
            for worker in self.workers.values():
                if worker.over <= sum(value.size for value in freed.values() if worker.id in value.replicas):
                    return [one for one in gone.values() if not freed.keys().isdisjoint(one.inputs)]
        return []

    def _goes_with(self, value: ValueState, gone: Mapping[int, HeadJob]) -> bool:
        """Return True if nothing but these jobs needs the bytes of a value."""
        is_read = value.owned or value.asked or value.givers or value.unreached
        return not is_read and (value.users or {}).keys() <= gone.keys()

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless exactly the workers with overdrafts are known. For tests: walks over all."""
        assert self.workers == {worker.id: worker for worker in self._workers.values() if worker.over}

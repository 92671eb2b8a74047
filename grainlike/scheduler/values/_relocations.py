"""Relocations: primaries that move to other workers, because a job can get room for its inputs in no other way.

A turn moves one value at most: the largest primary that no job uses at its worker, if all movable values together would
make enough room. The next value leaves that worker when this one has arrived. While a job is unfinished, a value that
was moved for it goes back only for an older job: so moves for a job come to an end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping

from grainlike.scheduler._records import HeadJob, order
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["Relocations"]

PLANNED_MOST = 64
"""Most values in the plan for a job. A plan that is full counts as enough, even if its values are too small."""

PASSED_MOST = 256
"""Most values at a worker for which one plan looks for another worker in vain."""

PLANS_MOST = 16
"""Most plans of a turn that come to nothing, each for a job and a worker; then the turn looks at no further job."""

_Rank = tuple[tuple[int, int], int]

_NOBODY: _Rank = (0, 0), 0


class Relocation:
    """Record of a value that was moved, or is on its way: its target, and the job for which it moves."""

    __slots__ = ("job", "target")

    def __init__(self, target: int, job: HeadJob) -> None:
        self.target = target
        self.job = job


class Relocations:
    """Relocations of one head. The arguments are the scheduler's own objects, not copies.

    Attributes:
        jobs: unfinished jobs for which a value was moved, by number.
        moves: the last move of each value away from a worker, by value and that worker.
        under_way: worker that each value under way leaves, by value and target.
    """

    __slots__ = ("_last", "_leaving", "_table", "_transfers", "_workers", "jobs", "moves", "under_way")

    def __init__(
        self, workers: Mapping[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = workers
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self._last = _NOBODY
        """Order of the job at which the last turn stopped, after `PLANS_MOST` plans that came to nothing."""
        self.jobs: dict[int, HeadJob] = {}
        self.moves: dict[tuple[int, int], Relocation] = {}
        self.under_way: dict[tuple[int, int], int] = {}

    def make_room(self, jobs: Iterable[HeadJob], now: float) -> bool:
        """Move one value, for the oldest of these jobs for which a value can move; they have room nowhere. Return True
        if the target had the value already, so that there is more room at once.
        """
        self._forget_failed()
        free, vain, plans = self._free(), set[int](), 0
        for job in self._in_turn(jobs):
            vain.add(job.id)
            may_get = self._may_get_now(free, vain)
            for source, lacking in self._sources(job, may_get):
                found = self._first_of_plan(source, job, lacking, may_get, now)
                if found is not None:
                    return self._move(*found, source, job)
                plans += 1
            if plans >= PLANS_MOST:
                self._last = _rank(job)
                break
        return False

    def arrived(self, number: int, target: int) -> None:
        """Record that a worker has a value. If it was moved there for a waiting job, count the old replica last."""
        source = self.under_way.pop((number, target), None)
        value = self._table.values.get(number)
        if source is None or value is None or target not in value.replicas:
            return
        if self._transfers.rooms.waits(self.moves[number, source].job):
            self._table.count_last(value, source)

    def ended(self, job: HeadJob) -> None:
        """Forget the moves for a job that has ended."""
        del self.jobs[job.id]
        self.moves = {key: move for key, move in self.moves.items() if move.job is not job}
        self._forget_failed()

    def _forget_failed(self) -> None:
        """Forget the values under way whose copies came to nothing."""
        known = self._transfers.known
        self.under_way = {
            (number, target): source
            for (number, target), source in self.under_way.items()
            if (number, target) in known and (number, source) in self.moves
        }

    def _in_turn(self, jobs: Iterable[HeadJob]) -> list[HeadJob]:
        """Return the jobs for which nothing is under way, the oldest first; jobs that the last turn left out stand
        before others.
        """
        helped = {self.moves[number, source].job.id for (number, _), source in self.under_way.items()}
        found = sorted((job for job in jobs if job.id not in helped), key=_rank)
        last, self._last = self._last, _NOBODY
        return sorted(found, key=lambda job: _rank(job) <= last)

    # --- where ------------------------------------------------------------------------------------------------------

    def _free(self) -> dict[int, int]:
        """Return the free bytes of each worker that may get values, has free bytes, and keeps its room for no job."""
        rooms = self._transfers.rooms
        able = [worker for worker in self._workers.values() if self._may_get(worker)]
        found = {worker.id: rooms.free(worker) for worker in able if rooms.claimant(worker) is None}
        return {worker: size for worker, size in found.items() if size > 0}

    def _may_get_now(self, free: Mapping[int, int], vain: Collection[int]) -> dict[int, int]:
        """Return the bytes that may move to each worker. A worker where room was made for a job that still waits gets
        nothing, unless that job is in `vain`.
        """
        waits = self._transfers.rooms.waits
        made = {
            source
            for (_, source), move in self.moves.items()
            if source in free and move.job.id not in vain and waits(move.job)
        }
        return {worker: size for worker, size in free.items() if worker not in made}

    def _sources(self, job: HeadJob, free: Mapping[int, int]) -> list[tuple[WorkerState, int]]:
        """Return the workers where values can move away for a job, and the bytes that the job lacks there, the fewest
        first. The other workers have that many bytes free.
        """
        rooms, emptied, whole = self._transfers.rooms, set(self.under_way.values()), sum(free.values())
        found: list[tuple[int, int]] = []
        for worker in rooms.able(job):
            oldest = rooms.claimant(worker)
            if (
                worker.id in emptied
                or not self._may_get(worker)
                or (oldest is not None and order(oldest) <= order(job))
            ):
                continue
            lacking = rooms.shortage(worker, job)
            if 0 < lacking <= whole - free.get(worker.id, 0):
                found.append((lacking, worker.id))
        return [(self._workers[number], lacking) for lacking, number in sorted(found)[:PLANS_MOST]]

    def _may_get(self, worker: WorkerState) -> bool:
        return self._leaving.is_able(worker) and not worker.shut

    # --- what -------------------------------------------------------------------------------------------------------

    def _first_of_plan(
        self, source: WorkerState, job: HeadJob, lacking: int, may_get: Mapping[int, int], now: float
    ) -> tuple[ValueState, int] | None:
        """Return the value to move first, and its target, so that a job gets room at a worker. Return None if all
        movable values are too small together, or if jobs that have begun will free as much when they end.
        """
        values, spare = self._table.values, self._table.spare.get(source.id, {})
        stays = self._staying(source, job)
        kept = self._table.stored.get(source.id, 0) - sum(spare.values())
        soon = sum(value.size for value in stays.values() if self._is_soon_free(value))
        if soon >= lacking or kept - sum(value.size for value in stays.values()) < lacking:
            return None
        copied = {number for number, _ in self._transfers.known}
        free = {worker: size for worker, size in may_get.items() if worker != source.id}
        first: tuple[ValueState, int] | None = None
        planned = passed = 0
        listed = self._table.primaries.of(source.id, values, spare)
        at = len(listed)
        while (at := bisect_right(listed, (max(free.values()), 0), 0, at) - 1) >= 0 and passed < PASSED_MOST:
            value = values[-listed[at][1]]
            if value.id in stays or value.id in copied:
                continue
            target = self._target(value, source.id, job, free, now)
            if not target:
                passed += 1
                continue
            first = first or (value, target)
            planned += 1
            lacking -= value.size
            if lacking <= 0 or planned >= PLANNED_MOST:
                return first
            free[target] -= value.size
        return None

    def _staying(self, worker: WorkerState, job: HeadJob) -> dict[int, ValueState]:
        """Return the primaries at a worker that cannot move. They are inputs of this job, of jobs that are there or on
        their way, or of the job for which the worker's room is kept.
        """
        known, spare = self._table.values, self._table.spare.get(worker.id, {})
        copies = [copy for (_, target), copy in self._transfers.known.items() if target == worker.id]
        jobs = [job, *worker.held.values(), *(coming for copy in copies for coming in copy.jobs.values())]
        claimant = self._transfers.rooms.claims.get(worker.id)
        jobs += [claimant] if claimant is not None else []
        found = {number: known[number] for one in jobs for number in one.inputs if number in known}
        return {number: value for number, value in found.items() if worker.id in value.replicas and number not in spare}

    def _is_soon_free(self, value: ValueState) -> bool:
        """Return True if one last job needs a value, and that job has begun or is on its way to a worker."""
        last = None if value.owned else self._table.last_user(value.id)
        return last is not None and bool(last.worker or (last.data is not None and last.data.target))

    def _target(self, value: ValueState, source: int, job: HeadJob, free: Mapping[int, int], now: float) -> int:
        """Return the worker to which a value may move for a job; 0 without one. A worker with a spare replica goes
        first, then the worker with the most free bytes.
        """
        dependents = [worker for worker in value.replicas if value.id in self._table.spare.get(worker, {})]
        others = dependents or [worker for worker in free if worker not in value.replicas]
        may = [worker for worker in others if free.get(worker, 0) >= value.size]
        may = [worker for worker in may if not self._is_barred(value.id, worker, job)]
        if not may or self._transfers.rooms.is_used(value, source):
            return 0
        if dependents:
            return may[0]
        rests = {worker: bool(self._transfers.rests(value, worker, now)) for worker in may}
        return min(may, key=lambda worker: (rests[worker], -free[worker], worker))

    def _is_barred(self, number: int, target: int, job: HeadJob) -> bool:
        """Return True if a value was moved away from a worker for this job, or for a job that goes before it."""
        move = self.moves.get((number, target))
        return move is not None and order(move.job) <= order(job)

    def _move(self, value: ValueState, target: int, source: WorkerState, job: HeadJob) -> bool:
        self.moves.pop((value.id, target), None)
        self.moves[value.id, source.id] = Relocation(target, job)
        self.jobs[job.id] = job
        if target in value.replicas:
            self._table.count_last(value, source.id)
            return True
        self.under_way[value.id, target] = source.id
        self._transfers.copy(value, target)
        return False

    # --- invariants -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless each value under way was moved for an unfinished job. For tests."""
        assert all((number, source) in self.moves for (number, _), source in self.under_way.items())
        sources = list(self.under_way.values())
        assert len(sources) == len(set(sources)), "more than one value is on its way from a worker"
        assert {move.job.id for move in self.moves.values()} <= self.jobs.keys(), "moves for a job that has ended"


def _rank(job: HeadJob) -> _Rank:
    return order(job), job.id

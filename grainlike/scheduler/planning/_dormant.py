"""Dormant classes: those of jobs near a worker for which another look would find what the last one found.

A look at such a class costs some twenty microseconds, for values, copies and workers are compared. What a vain look
depended on is kept (`Look`), and the class is looked at again when that changes: when it is due elsewhere, or when a
worker, a value, a rate or a function's run times have changed, or a store has room no more. Of a store that has none
nothing is kept, for room comes in many ways: such a look is not settled, nor is one while workers are crowded, where it
counts what all consumers do. Free amounts are the index's business (`_waiting`): a dormant class stands in a line
there, so it is found when a worker that has changed has room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import TypeVar

from grainlike.scheduler._records import HeadJob, RequestClass
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._reservation import patience_of

__all__ = ["DormantClasses", "Look"]

_STALE_MOST = 1024
"""Entries of a heap beyond two for each dormant class until those of classes that are awake are dropped."""

_NOT_KNOWN = -1.0
"""Mean beyond which a function matters of which nothing is known yet: any."""

Units = tuple[tuple[str, int], ...]

_Turn = tuple[Units, bool]
"""Amounts of a job that needs a turn to be sent to a worker, and True if room there would do as well."""

_Due = tuple[float, int, int]
"""A time or a mean, the class, and the number of its dormancy."""

_K = TypeVar("_K")

_HasTurn = Callable[[WorkerState, Units], bool]

_HasRoom = Callable[[WorkerState, HeadJob], bool]


class Look:
    """Vain look at a class: what its result depends on, beside workers into which the class does not fit.

    Attributes:
        is_settled: False if it depends on more than is kept here, so each pass has to look.
        elsewhere: the worker to which the job goes when it is due; 0 without one.
        due: when that is, if nothing changes; None where it is not known, or nowhere.
        ends: when that worker has too little time left for the job.
        passed: since when the job was passed over, which it bears for a while; None if it was not.
        rooms: workers that have room for its inputs, which counts.
        turns: workers to which the job would have to be let go first.
        near: the preferred worker, if a change there counts; 0 if not.
        shape: a shape that matters as soon as the preferred worker, `shape[0]`, runs it; 0 for none.
        mean: mean run time of the job's function from which on it matters; None if it does not.
    """

    __slots__ = ("due", "elsewhere", "ends", "is_settled", "mean", "near", "passed", "rooms", "shape", "turns")

    def __init__(self) -> None:
        self.is_settled = True
        self.elsewhere = 0
        self.due: float | None = None
        self.ends: float | None = None
        self.passed: float | None = None
        self.rooms: list[int] = []
        self.turns: list[tuple[int, _Turn]] = []
        self.near = 0
        self.shape: tuple[int, int] = (0, 0)
        self.mean: float | None = None

    def needs_turn(self, worker: int, units: Units, *, or_room: bool) -> None:
        """Record that no more such jobs may be sent to a worker for now; room there would do, too, or not."""
        self.turns.append((worker, (units, or_room)))

    def needs_room(self, worker: WorkerState) -> None:
        """Record that it counts that a worker has room for the job's inputs; it always has where it sets no limit."""
        if worker.store is not None:
            self.rooms.append(worker.id)

    def when_known(self) -> None:
        """Record that run times of the function matter as soon as they are known."""
        self.mean = _NOT_KNOWN


class Dormancy:
    """Record of one dormant class."""

    __slots__ = ("cls", "job", "look", "number")

    def __init__(self, number: int, cls: RequestClass, job: HeadJob, look: Look) -> None:
        self.number = number
        self.cls = cls
        self.job = job
        self.look = look


class DormantClasses:
    """All dormant classes of one head, by what wakes them.

    Each step costs what it wakes, and a test for each of what could wake: never the number of classes.
    """

    def __init__(self) -> None:
        self.records: dict[int, Dormancy] = {}
        """By class; empty if none rests."""
        self._last = 0
        self._of_worker: dict[int, dict[int, RequestClass]] = {}
        self._of_turn: dict[int, dict[_Turn, dict[int, RequestClass]]] = {}
        self._of_shape: dict[tuple[int, int], dict[int, RequestClass]] = {}
        self._of_room: dict[int, dict[int, RequestClass]] = {}
        self._of_value: dict[int, dict[int, RequestClass]] = {}
        self._of_rates: dict[int, RequestClass] = {}
        self._of_fn: dict[int, tuple[HeadJob, list[_Due], list[_Due]]] = {}
        """By function: a job of it, and heaps by the mean that matters, and by when a job was passed over."""
        self._dues: list[_Due] = []
        self._ends: list[_Due] = []

    def __len__(self) -> int:
        return len(self.records)

    def __contains__(self, cls: RequestClass) -> bool:
        return cls.id in self.records

    def due(self, cls: RequestClass) -> float | None:
        """Return when a dormant class may go elsewhere; None where that is not known."""
        return self.records[cls.id].look.due

    # --- falling asleep and waking -----------------------------------------------------------------------------------

    def add(self, cls: RequestClass, job: HeadJob, look: Look) -> None:
        """Let a class rest whose first job was looked at in vain."""
        self.discard(cls)
        self._last += 1
        record = self.records[cls.id] = Dormancy(self._last, cls, job, look)
        for worker in filter(None, (look.elsewhere, look.near)):
            self._of_worker.setdefault(worker, {})[cls.id] = cls
        for worker in look.rooms:
            self._of_room.setdefault(worker, {})[cls.id] = cls
        if look.shape[0]:
            self._of_shape.setdefault(look.shape, {})[cls.id] = cls
        for value in job.inputs:
            self._of_value.setdefault(value, {})[cls.id] = cls
        for worker, turn in look.turns:
            self._of_turn.setdefault(worker, {}).setdefault(turn, {})[cls.id] = cls
        if look.elsewhere:
            self._of_rates[cls.id] = cls
        keys = [(self._dues, look.due), (self._ends, look.ends)]
        if look.mean is not None or look.passed is not None:
            _, means, passed = self._of_fn.setdefault(job.fn.id, (job, [], []))
            keys += [(means, look.mean), (passed, look.passed)]
        for heap, at in keys:
            if at is not None:
                heappush(heap, (at, cls.id, record.number))
                self._tidy(heap)

    def discard(self, cls: RequestClass) -> None:
        """Forget a class that is looked at again, or has no jobs; nothing happens for one that is awake."""
        record = self.records.pop(cls.id, None)
        if record is None:
            return
        look = record.look
        for worker in (look.elsewhere, look.near):
            _take(self._of_worker, worker, cls)
        for worker in look.rooms:
            _take(self._of_room, worker, cls)
        _take(self._of_shape, look.shape, cls)
        for value in record.job.inputs:
            _take(self._of_value, value, cls)
        for worker, turn in look.turns:
            groups = self._of_turn.get(worker, {})
            _take(groups, turn, cls)
            if not groups:
                self._of_turn.pop(worker, None)
        self._of_rates.pop(cls.id, None)

    def _tidy(self, heap: list[_Due]) -> None:
        if len(heap) > 2 * len(self.records) + _STALE_MOST:
            heap[:] = [entry for entry in heap if self._is_live(entry)]
            heapify(heap)

    def _is_live(self, entry: _Due) -> bool:
        record = self.records.get(entry[1])
        return record is not None and record.number == entry[2]

    # --- what wakes them ---------------------------------------------------------------------------------------------

    def all(self) -> list[RequestClass]:
        """Return all of them: a worker has come, gone, shut or opened."""
        return [record.cls for record in self.records.values()]

    def of_rates(self) -> list[RequestClass]:
        """Return those for which it counts how long copies take."""
        return list(self._of_rates.values())

    def of_worker(self, worker: WorkerState, has_turn: _HasTurn) -> list[RequestClass]:
        """Return those for which a change of a worker, or of the jobs on their way to it, counts."""
        found = dict(self._of_worker.get(worker.id, {}))
        for (units, or_room), group in self._of_turn.get(worker.id, {}).items():
            if has_turn(worker, units) or (or_room and all(worker.free[name] >= amount for name, amount in units)):
                found.update(group)
        if self._of_shape:
            for shape in worker.using:
                found.update(self._of_shape.get((worker.id, shape), {}))
        return list(found.values())

    def of_room(self, worker: WorkerState, has_room: _HasRoom) -> list[RequestClass]:
        """Return those for which it counted that a worker has room, which it has no more."""
        found = self._of_room.get(worker.id)
        return [] if not found else [cls for cls in found.values() if not has_room(worker, self.records[cls.id].job)]

    def of_values(self, values: Iterable[int]) -> list[RequestClass]:
        """Return those whose first job needs one of these values."""
        return [cls for value in values for cls in self._of_value.get(value, {}).values()]

    def over(self, now: float) -> list[RequestClass]:
        """Return those that are due or out of patience, or whose function is now so slow, or known, that it counts."""
        found: list[RequestClass] = []
        for heap in (self._dues, self._ends):
            found += self._taken(heap, now)
        for number, (job, means, passed) in list(self._of_fn.items()):
            found += self._taken(passed, now - patience_of(job))
            if job.fn.times.known:
                found += self._taken(means, job.fn.times.mean)
            if not (means or passed):
                del self._of_fn[number]
        return found

    def _taken(self, heap: list[_Due], limit: float) -> list[RequestClass]:
        found: list[RequestClass] = []
        while heap and heap[0][0] <= limit:
            entry = heappop(heap)
            if self._is_live(entry):
                found.append(self.records[entry[1]].cls)
        return found

    @property
    def next_due(self) -> float | None:
        """When the first of them may go elsewhere; None if that is known of none."""
        heap = self._dues
        while heap and not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None


def _take(index: dict[_K, dict[int, RequestClass]], key: _K, cls: RequestClass) -> None:
    """Remove a class from an index, where it stands there."""
    found = index.get(key)
    if found is not None and found.pop(cls.id, None) is not None and not found:
        del index[key]

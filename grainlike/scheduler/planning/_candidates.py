"""Candidates: the workers that are the tightest fit for a shape, without a look at every worker for every job.

One heap per shape, fed from the log of changes: an entry is (room left, worker, its version then, its record), and one
whose worker has changed since is dropped when it comes up. A job costs a few heap steps however many workers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from itertools import repeat
from operator import le

from grainlike.scheduler._records import HeadJob, RequestClass, Shape
from grainlike.scheduler._workers import ChangeLog, WorkerState

__all__ = ["ROOMS_MOST", "Candidates", "FreeRooms", "nobody_has_room", "tightest_of"]

ROOMS_MOST = 8
"""The most different rooms that are compared; where there are more, the maximum of each resource stands for all of
them.
"""

FreeRooms = dict[tuple[str, ...], list[tuple[int, ...]]]
"""Free amounts by names when a class with these is first compared: the most of each resource, then each worker's."""

_Entry = tuple[int, int, int, WorkerState]

_Admits = Callable[[WorkerState, HeadJob, Shape, float], bool]
"""Returns True if a job may start on a worker on which it fits."""


class Candidates:
    """The workers into which one shape fits now, the tightest first."""

    __slots__ = ("_admits", "_epoch", "_heap", "_log", "_read", "_shape", "_workers")

    def __init__(self, shape: Shape, workers: dict[int, WorkerState], log: ChangeLog, admits: _Admits) -> None:
        self._shape = shape
        self._workers = workers
        self._log = log
        self._admits = admits
        self._epoch = -1
        self._read = 0
        self._heap: list[_Entry] = []

    def tightest(self, count: int, job: HeadJob, now: float) -> list[WorkerState]:
        """Return `count` different workers that admit the job, the tightest first; fewer if there are fewer."""
        if self._epoch != self._log.epoch or self._read != len(self._log.entries):
            self._catch_up()
        heap, shape = self._heap, self._shape
        passed: list[_Entry] = []
        found: list[WorkerState] = []
        while heap:
            _, _, version, worker = heap[0]
            if worker.gone or worker.version != version:
                heappop(heap)
                continue
            if self._admits(worker, job, shape, now):
                found.append(worker)
                if len(found) == count:
                    break
            passed.append(heappop(heap))
        for entry in passed:
            heappush(heap, entry)
        return found

    def _catch_up(self) -> None:
        """Read the changes since the last time; build the heap again where that is less work."""
        log = self._log
        if self._epoch != log.epoch or len(self._heap) > 4 * len(self._workers) + 1024:
            self._epoch = log.epoch
            self._heap = [self._entry(worker) for worker in self._workers.values() if worker.fits_now(self._shape)]
            heapify(self._heap)
        else:
            changed = log.entries[self._read :]
            for worker in changed if len(changed) == 1 else dict.fromkeys(changed):
                if not worker.gone and worker.fits_now(self._shape):
                    heappush(self._heap, self._entry(worker))
        self._read = len(log.entries)

    def _entry(self, worker: WorkerState) -> _Entry:
        return worker.room_left(self._shape), worker.id, worker.version, worker

    def check(self) -> None:
        """Raise `AssertionError` unless the shape fits into all workers that have not changed since. For tests."""
        for _, _, version, worker in self._heap:
            assert worker.gone or worker.version != version or worker.fits_now(self._shape), worker.name


def nobody_has_room(cls: RequestClass, workers: dict[int, WorkerState], rooms: FreeRooms) -> bool:
    """Return True if no worker has free what each job of a class needs; False where one may have it.

    `rooms` is kept during a pass, where free amounts only shrink. A pass over few classes finds most of them blocked,
    and a look at one costs many times as much as this.
    """
    free = rooms.get(cls.names)
    if free is None:
        found = {tuple(map(worker.free.get, cls.names, repeat(-1))) for worker in workers.values()}
        most = tuple(map(max, zip(*found, strict=True)))
        free = rooms[cls.names] = [most, *(found if len(found) <= ROOMS_MOST else (most,))]
    for room in free[1:] if all(map(le, cls.needs, free[0])) else ():
        if all(map(le, cls.needs, room)):
            return False
    return True


def tightest_of(
    workers: Iterable[WorkerState], shape: Shape, job: HeadJob, now: float, admits: _Admits
) -> list[WorkerState]:
    """Return what `Candidates.tightest` would, as many as the shape has nodes, by a look at all workers.

    For a shape that few jobs have, that costs less than a heap.
    """
    # Most shapes are looked at when nothing has room: that costs no call for any worker.
    fitting: list[WorkerState] = []
    for worker in workers:
        free = worker.free
        for name, amount in shape.units:
            if free.get(name, 0) < amount:
                break
        else:
            if not worker.shut and worker.fits_ever(shape):
                fitting.append(worker)
    if len(fitting) > 1:
        ranked = [(worker.room_left(shape), worker.id, worker) for worker in fitting]
        ranked.sort()
        fitting = [worker for _, _, worker in ranked]
    count, found = shape.nodes, []
    for worker in fitting:
        if not worker.gone and admits(worker, job, shape, now):
            found.append(worker)
            if len(found) == count:
                break
    return found

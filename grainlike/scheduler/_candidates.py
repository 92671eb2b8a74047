"""Which worker is the tightest fit for a shape, without a look at every worker for every job.

One heap per shape, fed from the log of changes: an entry is (room left, worker, the worker's version then), and one
whose worker has changed since is dropped when it comes up. A job costs a few heap steps however many workers there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from grainlike.scheduler._books import ChangeLog, Shape, WorkerBook

__all__ = ["Candidates"]


class Candidates:
    """The workers into which one shape fits now, the tightest first."""

    __slots__ = ("_epoch", "_heap", "_log", "_read", "_shape", "_workers")

    def __init__(self, shape: Shape, workers: dict[int, WorkerBook], log: ChangeLog) -> None:
        self._shape = shape
        self._workers = workers
        self._log = log
        self._epoch = -1
        self._read = 0
        self._heap: list[tuple[int, int, int]] = []

    def best(self, admitted: Callable[[WorkerBook], bool]) -> WorkerBook | None:
        """The tightest fit of those that `admitted` says yes to; None if there is none."""
        found = self.tightest(1, admitted)
        return found[0] if found else None

    def tightest(self, count: int, admitted: Callable[[WorkerBook], bool]) -> list[WorkerBook]:
        """As many different ones, the tightest first; fewer if there are fewer."""
        self._catch_up()
        heap, shape = self._heap, self._shape
        seen: list[tuple[int, int, int]] = []
        found: list[WorkerBook] = []
        while heap and len(found) < count:
            entry = heap[0]
            worker = self._workers.get(entry[1])
            if worker is None or worker.version != entry[2]:
                heappop(heap)
                continue
            if admitted(worker):
                found.append(worker)
                if len(found) == count:
                    break
            seen.append(heappop(heap))
        for entry in seen:
            heappush(heap, entry)
        for worker in found:
            assert worker.fits_now(shape)
        return found

    def _catch_up(self) -> None:
        """Read what changed since the last time; start anew where that is less work."""
        log = self._log
        if self._epoch != log.epoch or len(self._heap) > 4 * len(self._workers) + 1024:
            self._epoch = log.epoch
            self._heap = [self._entry(worker) for worker in self._workers.values() if worker.fits_now(self._shape)]
            heapify(self._heap)
        else:
            if self._read == len(log.entries):
                return
            self._push(log.entries[self._read :])
        self._read = len(log.entries)

    def _push(self, changed: Iterable[WorkerBook]) -> None:
        for worker in dict.fromkeys(changed):
            if not worker.gone and worker.fits_now(self._shape):
                heappush(self._heap, self._entry(worker))

    def _entry(self, worker: WorkerBook) -> tuple[int, int, int]:
        return worker.room_left(self._shape), worker.worker, worker.version

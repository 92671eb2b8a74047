"""Stores of workers, as far as they tell of them: bytes on disk, and what was evicted."""

from __future__ import annotations

from collections.abc import Callable, Container

from grainlike.scheduler import HeadEvent, ReplicasGone, WorkerStored
from grainlike.wire import Evicted, Stored

__all__ = ["WorkerStores"]


class WorkerStores:
    """Last words of each worker about its disk, by its number; `tell` takes events for the scheduler.

    Example::

        stores = WorkerStores(tell)
        stores.hear(1, Stored(spilled=200_064))
        stores.said[1].spilled                      # 200064
    """

    def __init__(self, tell: Callable[[HeadEvent], object]) -> None:
        self.said: dict[int, Stored] = {}
        self._tell = tell

    def hear(self, worker: int, message: Stored | Evicted) -> None:
        """Take what a worker says of its store."""
        if isinstance(message, Stored):
            self.said[worker] = message
            self._tell(WorkerStored(worker, message.over, bool(message.lost)))
        else:
            self._tell(ReplicasGone(worker, message.values, message.attempts))

    def keep(self, workers: Container[int]) -> None:
        """Forget all workers but these."""
        self.said = {worker: said for worker, said in self.said.items() if worker in workers}

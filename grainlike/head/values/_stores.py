"""Reports of workers about their stores: bytes on disk, and evicted replicas."""

from __future__ import annotations

from collections.abc import Callable, Container

from grainlike.scheduler import HeadEvent, ReplicasGone, WorkerStored
from grainlike.wire import Evicted, Stored

__all__ = ["WorkerStores"]


class WorkerStores:
    """Last report of each worker about its disk, by the worker's number; `tell` takes events for the scheduler.

    Example::

        stores = WorkerStores(tell)
        stores.hear(1, Stored(spilled=200_064))
        stores.said[1].spilled                      # 200064
    """

    def __init__(self, tell: Callable[[HeadEvent], object]) -> None:
        self.said: dict[int, Stored] = {}
        self._tell = tell

    def hear(self, worker: int, message: Stored | Evicted) -> None:
        """Take a worker's report about its store."""
        if isinstance(message, Stored):
            self.said[worker] = message
            self._tell(WorkerStored(worker, message.over, bool(message.lost)))
        else:
            self._tell(ReplicasGone(worker, message.values, message.attempts))

    def keep(self, workers: Container[int]) -> None:
        """Forget all other workers."""
        self.said = {worker: said for worker, said in self.said.items() if worker in workers}

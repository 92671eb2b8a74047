"""Work of a world: jobs that wait for workers, and the count of workers that would be of use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grainlike.fleet import FleetPool
from simtest.fleet._batch_system import SimWorker

__all__ = ["MARGIN_S", "Work", "WorkItem"]

MARGIN_S = 30.0
START_S = 300.0
"""Time that a block may take from its start until its workers have joined; what is left of it then is for jobs."""


@dataclass(slots=True)
class WorkItem:
    """Job of a world: how long it takes, on how many workers, of which pools."""

    number: int
    seconds: float
    width: int
    pools: frozenset[str]
    done: bool = False
    running: bool = False


def serves(pool: FleetPool, item: WorkItem) -> bool:
    """Return True if an empty pool could run a job."""
    fits = pool.walltime_s is None or item.seconds + START_S <= pool.walltime_s
    return fits and item.width <= pool.max and pool.name in item.pools


class Work:
    """Jobs that wait and run. Jobs start in order; the first gang that waits keeps idle workers."""

    def __init__(self, items: Sequence[WorkItem]) -> None:
        self.items = {item.number: item for item in items}

    def waiting(self) -> Iterable[WorkItem]:
        """Return the jobs that wait, in order."""
        return [item for item in self.items.values() if not item.done and not item.running]

    def placements(self, workers: Sequence[SimWorker], now: float) -> list[tuple[WorkItem, list[SimWorker]]]:
        """Return the jobs that can start, and where."""
        free = [worker for worker in workers if _takes(worker)]
        placed: list[tuple[WorkItem, list[SimWorker]]] = []
        reserved = False
        for item in self.waiting():
            usable = [worker for worker in free if _could(worker, item, now)]
            if len(usable) >= item.width:
                chosen = usable[: item.width]
                placed.append((item, chosen))
                free = [worker for worker in free if worker not in chosen]
            elif item.width > 1 and not reserved:
                reserved = True
                free = [worker for worker in free if worker not in usable]
        return placed

    def wanted(
        self, pools: Sequence[FleetPool], room: Mapping[str, int], workers: Sequence[SimWorker], now: float
    ) -> tuple[dict[str, int], frozenset[str]]:
        """Return how many workers of each pool would be of use beside those that are there, and the blocks kept."""
        wanted = {pool.name: 0 for pool in pools}
        kept: frozenset[str] = frozenset()
        for item in self.waiting():
            usable = [worker for worker in workers if _takes(worker) and _could(worker, item, now)]
            missing = item.width
            if item.width > 1 and not kept:
                missing -= min(item.width, len(usable))
                kept = frozenset(worker.label for worker in usable)
            for pool in pools:
                if serves(pool, item) and wanted[pool.name] + missing <= room[pool.name]:
                    wanted[pool.name] += missing
                    break
        return wanted, kept


def _takes(worker: SimWorker) -> bool:
    return worker.alive and worker.connected and not worker.leaving and worker.job is None


def _could(worker: SimWorker, item: WorkItem, now: float) -> bool:
    left = worker.native.left_s(now)
    return worker.native.pool.name in item.pools and (left is None or item.seconds + MARGIN_S <= left)

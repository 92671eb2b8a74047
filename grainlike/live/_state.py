"""State of a head by the updates that have come: its workers, and which job holds which of their slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from grainlike.jobs import allocation_of
from grainlike.live._throughput import Throughput
from grainlike.resources import Allocation
from grainlike.wire import LiveIs, RunningRow, Totals, WorkerRow

__all__ = ["LiveState", "Slot"]


class Slot(NamedTuple):
    """A core or a GPU of a worker, by `kind` (`"cores"` or `"gpus"`) and id, with the jobs that hold some of it.

    Several jobs share a slot where they hold fractions of a GPU, or where one lends its cores while it waits for the
    other.
    """

    kind: str
    id: int
    jobs: tuple[RunningRow, ...]


class LiveState:
    """State of a head, made of the updates that `take` is given.

    Attributes:
        at: moment of the last update, as `time.time()` has it at the head; 0.0 before the first.
        up_s: seconds for which the head had been up then.
        jobs: number of jobs that have not ended, by state.
        totals: how jobs have ended since the head was first started; None before the first update.
        clients: number of connected clients.
        workers: the workers by name, in the order in which they joined.
        throughput: how many jobs ended in the last seconds.

    Example::

        state = LiveState()
        async for told in client.live(1.0):
            if state.take(told):
                print(state.jobs, state.throughput.rate(state.at))
    """

    def __init__(self) -> None:
        self.at: float = 0.0
        self.up_s: float = 0.0
        self.jobs: dict[str, int] = {}
        self.totals: Totals | None = None
        self.clients: int = 0
        self.workers: dict[str, WorkerRow] = {}
        self.throughput: Throughput = Throughput()
        self._running: dict[str, dict[int, RunningRow]] = {}
        """Jobs on each worker by number, in the order in which they were told of."""

    def take(self, told: LiveIs) -> bool:
        """Take an update; return True if it was the last of its moment, so that the state is whole."""
        if told.full:
            self.workers.clear()
            self._running.clear()
            self.throughput = Throughput()
        self.at, self.up_s, self.jobs, self.totals = told.at, told.up_s, told.jobs, told.totals
        self.clients = told.clients
        for job, worker in zip(*told.ended, strict=True):
            self._running.get(worker, {}).pop(job, None)
        for name in told.left:
            self.workers.pop(name, None)
            self._running.pop(name, None)
        for row in told.workers:
            self.workers[row.name] = row
        for running in told.began:
            self._running.setdefault(running.worker, {})[running.job] = running
        if not told.more:
            self.throughput.add(told.at, told.totals)
        return not told.more

    def running(self, worker: str) -> list[RunningRow]:
        """Return the jobs that hold slots on a worker, those first that began first."""
        return list(self._running.get(worker, {}).values())

    def all_running(self) -> Iterator[RunningRow]:
        """Iterate over the jobs of all workers; a gang's job comes once for each of its workers."""
        for jobs in self._running.values():
            yield from jobs.values()

    def slots(self, worker: str) -> list[Slot]:
        """Return the cores of a worker, and then its GPUs, each with the jobs that hold some of it."""
        row = self.workers.get(worker)
        if row is None:
            return []
        holders: dict[tuple[str, int], list[RunningRow]] = {}
        for job in self._running.get(worker, {}).values():
            for slot in _ids(allocation_of(job.slots)):
                holders.setdefault(slot, []).append(job)
        return [Slot(*slot, tuple(holders.get(slot, ()))) for slot in _ids(allocation_of(row.resources))]


def _ids(allocation: Allocation) -> Iterator[tuple[str, int]]:
    yield from (("cores", core) for core in allocation.cores)
    yield from (("gpus", gpu) for gpu in allocation.gpus)

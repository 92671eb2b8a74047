"""Kinds of workers: which differ in what they offer, and on which of them a request is wide."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler._records import RequestClass, Shape
from grainlike.scheduler._workers import WorkerState

__all__ = ["ANY", "WorkerKinds"]

KINDS_MOST = 32
"""Kinds that are told apart. Where there are more, as memory differs by some bytes, all workers count as one kind."""

_Capacity = tuple[tuple[str, int], ...]

ANY = (-1,)


class WorkerKinds:
    """Workers by what they offer. `workers` are the scheduler's own, live."""

    def __init__(self, workers: dict[int, WorkerState]) -> None:
        self._workers = workers
        self._kinds: dict[_Capacity, int] = {}
        self._capacities: dict[int, dict[str, int]] = {}
        self._are_many = False
        self._least: dict[str, int] = {}
        """Least amount that a worker ever had of each resource: who asks for half of it is not wide."""

    def joined(self, worker: WorkerState) -> bool:
        """Add a worker; return True if requests may be wide on it that were not before, or on kinds that are new."""
        less = False
        for name, amount in worker.capacity.items():
            if amount and amount < self._least.get(name, amount + 1):
                self._least[name], less = amount, True
        if self._are_many:
            return less
        capacity = tuple(sorted(worker.capacity.items()))
        kind = self._kinds.get(capacity)
        new = kind is None
        if kind is None:
            self._are_many = len(self._kinds) >= KINDS_MOST
            kind = self._kinds[capacity] = len(self._kinds) + 1
            self._capacities[kind] = worker.capacity
        worker.kind, worker.capacity = kind, self._capacities[kind]  # one object for all of a kind
        return new

    def wide_on(self, cls: RequestClass) -> tuple[int, ...]:
        """Return the kinds of workers on which a class may be wide; empty if there are none."""
        if not any(map(self.may_be_wide, cls.shapes)):
            return ()
        if self._are_many or any(shape.nodes > 1 for shape in cls.shapes):
            return ANY
        found: list[int] = []
        for kind, capacity in self._capacities.items():
            for shape in cls.shapes:
                if _is_wide(shape, capacity):
                    found.append(kind)
                    break
        return ANY if found and len(found) == len(self._capacities) else tuple(found)

    def may_be_wide(self, shape: Shape) -> bool:
        """Return False if there is no worker on which a job of the shape is wide; True if there may be one."""
        if shape.nodes > 1:
            return True
        least = self._least
        for name, amount in shape.units:
            if name in least and 2 * amount > least[name]:
                return True
        return False

    def of(self, kinds: tuple[int, ...]) -> Iterable[WorkerState]:
        """Iterate over the workers of these kinds."""
        workers = self._workers.values()
        return workers if kinds == ANY or self._are_many else (worker for worker in workers if worker.kind in kinds)


def _is_wide(shape: Shape, capacity: dict[str, int]) -> bool:
    """Return True if a worker with this capacity could run the shape, which takes more than half of something."""
    wide = False
    for name, amount in shape.units:
        has = capacity.get(name, 0)
        if amount > has:
            return False
        wide = wide or 2 * amount > has
    return wide

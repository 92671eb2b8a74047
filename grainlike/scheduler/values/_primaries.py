"""Primaries by size: the replicas that a worker must keep, listed so that one can be moved to make room.

The primaries of a worker are listed when they are first asked for, by one walk over all values. From then on the list
is kept in order, until the worker has no primaries. Nothing is listed before a job lacks room for the first time.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from grainlike.scheduler.values._records import ValueState

__all__ = ["Primaries"]


class Primaries:
    """Primaries of one head's workers, for each worker whose list was asked for.

    Attributes:
        listed: size and negated number of each value, ascending, by worker.

    Example::

        primaries.of(1, values, spare)    # [(5_000_000, -12), (40_000_000, -9), (40_000_000, -7)]
    """

    __slots__ = ("listed",)

    def __init__(self) -> None:
        self.listed: dict[int, list[tuple[int, int]]] = {}

    def of(self, worker: int, values: Mapping[int, ValueState], spare: Mapping[int, int]) -> Sequence[tuple[int, int]]:
        """Return the size and the negated number of each value that a worker must keep, ascending. `spare` has the
        worker's spare replicas, which are left out.
        """
        found = self.listed.get(worker)
        if found is None:
            here = (value for value in values.values() if worker in value.replicas and value.id not in spare)
            found = self.listed[worker] = sorted((value.size, -value.id) for value in here)
        return found

    def add(self, worker: int, value: ValueState) -> None:
        """Record that a worker must keep a replica; nothing happens if the replica is listed already."""
        found = self.listed.get(worker)
        if found is None:
            return
        entry = value.size, -value.id
        at = bisect_left(found, entry)
        if found[at : at + 1] != [entry]:
            found.insert(at, entry)

    def discard(self, worker: int, value: ValueState) -> None:
        """Record that a worker need not keep a replica any more; nothing happens if the replica is not listed."""
        found = self.listed.get(worker)
        if found is None:
            return
        entry = value.size, -value.id
        at = bisect_left(found, entry)
        if found[at : at + 1] == [entry]:
            del found[at]
        if not found:
            del self.listed[worker]

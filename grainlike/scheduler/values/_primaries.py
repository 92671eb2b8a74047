"""Primaries by size: the replicas that are kept at workers where a job was without room, so that one can make way.

A worker's are listed when they are first asked for, by one walk over all values, and kept in order from then on until
it has none. Where no job was ever without room nothing is listed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from grainlike.scheduler.values._records import ValueState

__all__ = ["Primaries"]


class Primaries:
    """Primaries of one head's workers, of those for which they were asked.

    Attributes:
        listed: size and negated number of each, ascending, by worker.

    Example::

        primaries.of(1, values, spare)    # [(5_000_000, -12), (40_000_000, -9), (40_000_000, -7)]
    """

    __slots__ = ("listed",)

    def __init__(self) -> None:
        self.listed: dict[int, list[tuple[int, int]]] = {}

    def of(self, worker: int, values: Mapping[int, ValueState], spare: Mapping[int, int]) -> Sequence[tuple[int, int]]:
        """Return the size and the negated number of each value that a worker keeps, ascending. `spare` are its replicas
        that are not kept.
        """
        found = self.listed.get(worker)
        if found is None:
            here = (value for value in values.values() if worker in value.replicas and value.id not in spare)
            found = self.listed[worker] = sorted((value.size, -value.id) for value in here)
        return found

    def add(self, worker: int, value: ValueState) -> None:
        """Record that a worker keeps a replica; nothing happens where it did."""
        found = self.listed.get(worker)
        if found is None:
            return
        entry = value.size, -value.id
        at = bisect_left(found, entry)
        if found[at : at + 1] != [entry]:
            found.insert(at, entry)

    def discard(self, worker: int, value: ValueState) -> None:
        """Record that a worker keeps a replica no more; nothing happens where it did not."""
        found = self.listed.get(worker)
        if found is None:
            return
        entry = value.size, -value.id
        at = bisect_left(found, entry)
        if found[at : at + 1] == [entry]:
            del found[at]
        if not found:
            del self.listed[worker]

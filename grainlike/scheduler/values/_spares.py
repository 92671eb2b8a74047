"""Spare replicas: those beyond the replicas that a value keeps. Their workers may evict them for room.

A worker is not told that its replica is spare while a job that needs the value is on its way there: the worker knows
nothing of that job until it starts.
"""

from __future__ import annotations

from functools import lru_cache

from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._value_events import ReplicasSpared
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._overdrafts import Overdrafts
from grainlike.scheduler.values._records import SHARED_MOST, ValueState
from grainlike.scheduler.values._table import ValueTable

__all__ = ["Spares"]

_Row = tuple[int, tuple[int, ...], tuple[int, ...]]


@lru_cache(SHARED_MOST)
def _row(attempt: int, spare: tuple[int, ...], announced: tuple[int, ...]) -> _Row:
    """Return one tuple for all that are equal: many values have their spare replicas at the same few workers."""
    return attempt, spare, announced


class Spares:
    """Tells workers which of their replicas are spare. The arguments are the scheduler's own objects, not copies."""

    __slots__ = ("_announced", "_leaving", "_overdrafts", "_table")

    def __init__(self, table: ValueTable, leaving: Departures, overdrafts: Overdrafts) -> None:
        self._table = table
        self._leaving = leaving
        self._overdrafts = overdrafts
        self._announced: dict[int, _Row] = {}
        """Attempt of each value with spare replicas, the workers with these, and those that were told."""

    def tell(self, out: list[HeadAction]) -> None:
        """Tell workers which replicas are spare now, and which no longer, for values whose replicas have changed."""
        moved, self._table.moved = self._table.moved, {}
        rows: dict[tuple[int, bool], list[ValueState]] = {}
        for value in moved.values():
            spare = self._spare(value)
            announced = self._to_tell(value, spare)
            attempt, before, heard = self._announced.get(value.id, (value.attempt, (), ()))
            self._index(value, before, spare)
            if attempt != value.attempt:
                heard = ()
            if spare:
                self._announced[value.id] = _row(value.attempt, spare, announced)
            elif before:
                del self._announced[value.id]
            for worker in value.replicas:
                if (worker in announced) != (worker in heard):
                    rows.setdefault((worker, worker in announced), []).append(value)
        for (worker, is_spare), values in rows.items():
            columns = [value.id for value in values], [value.attempt for value in values]
            out.append(ReplicasSpared(worker, *columns, is_spare))

    def _index(self, value: ValueState, before: tuple[int, ...], spare: tuple[int, ...]) -> None:
        """Record at which workers the replicas of a value are spare now, and were spare before."""
        here, primaries = self._table.spare, self._table.primaries
        for worker in (*before, *spare):
            self._table.filled[worker] = None
        for worker in before:
            del here[worker][value.id]
            if not here[worker]:
                del here[worker]
            if worker in value.replicas and worker not in spare:
                primaries.add(worker, value)
        for worker in spare:
            here.setdefault(worker, {})[value.id] = value.size
            primaries.discard(worker, value)

    def _spare(self, value: ValueState) -> tuple[int, ...]:
        """Return the workers whose replica of a value is spare. The oldest replicas at workers that stay are kept,
        those at workers without an overdraft first.
        """
        staying = [worker for worker in value.replicas if self._leaving.stays(worker)]
        staying = staying or list(value.replicas)
        staying.sort(key=lambda worker: worker in self._overdrafts.workers)
        kept = staying[: value.copies]
        return tuple(worker for worker in value.replicas if worker not in kept)

    def _to_tell(self, value: ValueState, spare: tuple[int, ...]) -> tuple[int, ...]:
        """Return those of the workers with a spare replica of a value to which no job is on its way that needs it."""
        return tuple(worker for worker in spare if (value.id, worker) not in self._table.bound)

    def check(self) -> None:
        """Raise `AssertionError` unless each worker was told exactly its spare replicas. For tests: walks over all."""
        spares = ((value, self._spare(value)) for value in self._table.values.values())
        found = {value.id: (value.attempt, spare, self._to_tell(value, spare)) for value, spare in spares if spare}
        assert found == self._announced, "other replicas are spare than was told"
        here = {(worker, value) for worker, values in self._table.spare.items() for value in values}
        assert here == {(worker, value) for value, (_, spare, _) in found.items() for worker in spare}

"""Lines of the map of cores: a cell for each core and GPU, or for each worker where there are many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from grainlike.jobs import allocation_of
from grainlike.live import LiveState
from grainlike.top._marks import FREE, OTHER
from grainlike.wire import RunningRow

__all__ = ["DETAILED", "Cell", "CoreLines"]

DETAILED = 64
"""Workers up to which each core has a cell, unless a person wants it otherwise."""

_LABEL = 16
"""Characters of a worker's name."""


class Cell(NamedTuple):
    """A cell: the name of the function whose mark it shows, or the text of `plain`; `full` if nothing is free there."""

    name: str | None
    plain: str = FREE
    full: bool = True


@lru_cache(maxsize=4096)
def _count(text: str) -> tuple[int, int]:
    slots = allocation_of(text)
    return len(slots.cores), len(slots.gpus)


class CoreLines:
    """Lines of the map at a width, each made when it is asked for: what is out of sight costs nothing.

    Attributes:
        count: number of lines.
        by_worker: True if a cell is a worker.
    """

    def __init__(self, state: LiveState, width: int, *, by_worker: bool, wanted: Callable[[str], bool]) -> None:
        self._state = state
        self._wanted = wanted
        self.by_worker = by_worker
        self._room = max(8, width - _LABEL - 1)
        self._parts = list(self._groups() if by_worker else self._workers())
        self.count = len(self._parts)

    def _workers(self) -> Iterator[tuple[str, Sequence[str], int]]:
        for name, row in self._state.workers.items():
            cores, gpus = _count(row.resources)
            cells = cores + (gpus + 1 if gpus else 0)
            for at in range(0, max(1, cells), self._room):
                yield (name if at == 0 else ""), (name,), at

    def _groups(self) -> Iterator[tuple[str, Sequence[str], int]]:
        groups: dict[str, list[str]] = {}
        for name, row in self._state.workers.items():
            groups.setdefault(row.block.rpartition("-")[0], []).append(name)
        for group, names in groups.items():
            for at in range(0, len(names), self._room):
                yield (group or "workers" if at == 0 else ""), names[at : at + self._room], at

    def line(self, number: int) -> tuple[str, list[Cell]]:
        """Return the label of a line, and its cells."""
        label, names, at = self._parts[number]
        label = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
        if self.by_worker:
            return label.ljust(_LABEL), [self._worker(name) for name in names]
        return label.ljust(_LABEL), self._slots(names[0])[at : at + self._room]

    def _worker(self, name: str) -> Cell:
        row, jobs = self._state.workers.get(name), self._state.running(name)
        if row is None or not jobs:
            return Cell(None, "x" if row is not None and row.shut else FREE)
        names = Counter(job.name for job in jobs if self._wanted(job.name))
        held = sum(sum(_count(job.slots)) for job in jobs)
        full = held >= sum(_count(row.resources))
        return Cell(names.most_common(1)[0][0], full=full) if names else Cell(None, OTHER, full=full)

    def _slots(self, worker: str) -> list[Cell]:
        slots = self._state.slots(worker)
        cores = [self._slot(slot.jobs) for slot in slots if slot.kind == "cores"]
        gpus = [self._slot(slot.jobs) for slot in slots if slot.kind == "gpus"]
        return [*cores, Cell(None, "|"), *gpus] if gpus else cores

    def _slot(self, jobs: Sequence[RunningRow]) -> Cell:
        if not jobs:
            return Cell(None)
        # Of several the last one runs: those before it lend their cores, or share a GPU.
        shown = [job.name for job in jobs if self._wanted(job.name)]
        return Cell(shown[-1]) if shown else Cell(None, OTHER)

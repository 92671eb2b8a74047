"""Data of a trace: jobs as they ran, and how many waited and ran at a moment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Depth", "Stretch", "depths"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A job as it ran. Times are seconds on any one clock; `details` are shown when it is clicked on.

    `key` is what other stretches call it by in their `needs`: those whose values it was given, or that had to end
    before it. `held` is what was held for it of each kind without ids, by name: bytes of memory.
    """

    name: str
    worker: str
    cores: tuple[int, ...]
    began: float
    ended: float
    details: Mapping[str, str | int | float] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()
    key: Hashable = None
    needs: tuple[Hashable, ...] = ()
    held: Mapping[str, int] = field(default_factory=dict)


class Depth(NamedTuple):
    """Number of jobs that waited and that ran, from this moment on."""

    at: float
    waiting: int
    running: int


def depths(times: Iterable[tuple[float, float, float]]) -> Iterator[Depth]:
    """Iterate over how many jobs waited and ran at each change, from when each was ready, began and ended.

    Example:
        >>> [tuple(one) for one in depths([(0.0, 1.0, 3.0), (0.0, 2.0, 3.0)])]
        [(0.0, 2, 0), (1.0, 1, 1), (2.0, 0, 2), (3.0, 0, 0)]
    """
    changes: dict[float, list[int]] = {}
    for ready, began, ended in times:
        for at, waiting, running in ((ready, 1, 0), (began, -1, 1), (ended, 0, -1)):
            change = changes.setdefault(at, [0, 0])
            change[0] += waiting
            change[1] += running
    waiting = running = 0
    for at, (more_wait, more_run) in sorted(changes.items()):
        waiting += more_wait
        running += more_run
        yield Depth(at, waiting, running)

"""Data of a trace: jobs as they ran, and how many waited and ran at a moment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from grainlike.resources import held_amounts, parse_allocation
from grainlike.wire import EndedJob, SpanRow

__all__ = ["Depth", "Stretch", "depths", "spans_from_history", "spans_from_rows"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """A job as it ran, or bytes that went. Times are seconds on any one clock; `details` are shown when it is clicked.

    `key` is what other stretches call it by in their `needs`: those whose values it was given, or that had to end
    before it. `held` is what was held for it of each kind without ids, by name: bytes of memory. `lane` is
    empty for a job; for bytes `in`, `out` or `disk`, as its worker has a row for each.
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
    lane: str = ""


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


def spans_from_rows(rows: Iterable[SpanRow]) -> Iterator[Stretch]:
    """Iterate over the stretches that the rows of a recorded trace encode."""
    for row in rows:
        if row.lane:
            yield Stretch(row.name, row.worker, (), row.began, row.ended, row.details, lane=row.lane)
            continue
        details: dict[str, str | int | float] = {"status": row.status, "attempt": row.attempt}
        if row.job:
            details |= {"job": row.job, "slots": row.slots}
        slots = parse_allocation(row.slots)
        yield Stretch(
            row.name,
            row.worker,
            slots.cores,
            row.began,
            row.ended,
            details,
            slots.gpus,
            row.key,
            tuple(row.needs),
            held_amounts(slots.units),
        )


def spans_from_history(jobs: Iterable[EndedJob]) -> Iterator[Stretch]:
    """Iterate over the last attempts of ended jobs, those that ran; what they were given is not known."""
    for job in jobs:
        if job.ran_s is None:
            continue
        details: dict[str, str | int | float] = {
            "status": job.outcome,
            "attempt": job.attempts,
            "job": job.job,
            "slots": job.slots,
            **({"error": job.error} if job.error else {}),
        }
        slots = parse_allocation(job.slots)
        yield Stretch(
            *(job.name, job.worker, slots.cores, job.ended_at - job.ran_s, job.ended_at, details, slots.gpus),
            held=held_amounts(slots.units),
        )

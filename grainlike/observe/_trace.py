"""Who ran where when, as a trace: what ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Stretch", "trace"]

_GPUS = 500_000
"""Rows from this number on are for devices; no machine has as many cores."""

_LOOSE = 1_000_000
"""Rows from this number on are for work that holds neither."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A job as it ran. Times are seconds on any one clock; `details` are shown when it is clicked on."""

    name: str
    worker: str
    cores: tuple[int, ...]
    began: float
    ended: float
    details: Mapping[str, str | int | float] = field(default_factory=dict)
    gpus: tuple[int, ...] = ()


def trace(stretches: Iterable[Stretch]) -> str:
    """Draw up a trace as Chrome's JSON: a process for each worker, a row for each core and each GPU.

    A job on several of them has a bar on each. Jobs without any have rows of their own, as many as ran at once. The
    first begin is zero.

    Example::

        Path("trace.json").write_text(trace(stretches))
    """
    drawn = sorted(stretches, key=lambda one: (one.began, one.ended))
    since = drawn[0].began if drawn else 0.0
    processes = {worker: number for number, worker in enumerate(dict.fromkeys(one.worker for one in drawn), 1)}
    rows: dict[tuple[str, int], None] = {}
    loose = _Loose()
    bars: list[dict[str, object]] = []
    for one in drawn:
        for row in (*one.cores, *(_GPUS + gpu for gpu in one.gpus)) or (loose.row(one),):
            rows[one.worker, row] = None
            bars.append(
                {
                    "ph": "X",
                    "name": one.name,
                    "cat": "job",
                    "pid": processes[one.worker],
                    "tid": row,
                    "ts": round((one.began - since) * 1e6, 3),
                    "dur": round((one.ended - one.began) * 1e6, 3),
                    "args": dict(one.details),
                }
            )
    return json.dumps({"traceEvents": [*_titles(processes, rows), *bars], "displayTimeUnit": "ms"})


class _Loose:
    """Rows for jobs without cores: bars of one row must not overlap."""

    def __init__(self) -> None:
        self._ends: dict[str, list[float]] = {}

    def row(self, one: Stretch) -> int:
        ends = self._ends.setdefault(one.worker, [])
        free = next((row for row, end in enumerate(ends) if end <= one.began), len(ends))
        ends[free:] = [one.ended, *ends[free + 1 :]]
        return _LOOSE + free


def _titles(processes: Mapping[str, int], rows: Iterable[tuple[str, int]]) -> Iterator[dict[str, object]]:
    for worker, pid in processes.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": worker}}
    for worker, row in rows:
        name = _row_name(row)
        place = {"pid": processes[worker], "tid": row}
        yield {"ph": "M", "name": "thread_name", **place, "args": {"name": name}}
        yield {"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": row}}


def _row_name(row: int) -> str:
    if row < _GPUS:
        return f"core {row}"
    return f"GPU {row - _GPUS}" if row < _LOOSE else f"no cores {row - _LOOSE + 1}"

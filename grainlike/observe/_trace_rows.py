"""Rows of a trace: no two bars of one row overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from grainlike.observe._stretch import Stretch

__all__ = ["Bar", "TraceRows"]

_GPUS = 500_000
"""Rows from this number on are for devices; no machine has as many cores."""

_LOOSE = 1_000_000
"""Row number of work that holds neither cores nor devices."""

_LANES = {"in": _LOOSE + 1, "out": _LOOSE + 2, "disk": _LOOSE + 3}
"""Row numbers for bytes that come, go, and are written to disk."""

_TITLES = {_LANES["in"]: "bytes in", _LANES["out"]: "bytes out", _LANES["disk"]: "disk", _LOOSE: "no cores"}

_SHARED = 2_000_000
"""Rows from this number on are second rows of cores and devices."""

_CLOCKS_NS = 1_000_000
"""Nanoseconds that two readings of another process's clock may be apart: bars that overlap by less count as
successive.
"""


class Bar(NamedTuple):
    """Bar of a trace: its process, its row, and its begin and end in nanoseconds."""

    pid: int
    tid: int
    began: int
    ended: int


class TraceRows:
    """Hands out rows. Cores that were lent, devices that are shared, and calls without either have several."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int, int], list[int]] = {}
        self._more: dict[tuple[int, int, int], int] = {}

    def place(self, one: Stretch, pid: int, began: int, ended: int) -> Iterator[Bar]:
        """A bar on each core and each device of a job, or one in a lane for bytes. They are placed as they begin."""
        for row in (*one.cores, *(_GPUS + gpu for gpu in one.gpus)) or (_LANES.get(one.lane, _LOOSE),):
            ends = self._ends.setdefault((pid, row), [])
            track = next((track for track, end in enumerate(ends) if _follows(end, began, ended)), len(ends))
            if track == len(ends):
                ends.append(0)
                begin = began
            else:
                begin = max(began, ends[track])
            ends[track] = ended
            yield Bar(pid, self._tid(pid, row, track), begin, ended)

    def titles(self) -> Iterator[dict[str, object]]:
        """Iterate over the titles and the order of the rows."""
        rows = [(pid, row, track) for (pid, row), ends in self._ends.items() for track in range(len(ends))]
        for place, (pid, row, track) in enumerate(sorted(rows)):
            where = {"pid": pid, "tid": self._tid(pid, row, track)}
            yield {"ph": "M", "name": "thread_name", **where, "args": {"name": _name(row, track)}}
            yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": place}}

    def _tid(self, pid: int, row: int, track: int) -> int:
        if not track:
            return row
        return self._more.setdefault((pid, row, track), _SHARED + len(self._more))


def _follows(end: int, began: int, ended: int) -> bool:
    return end <= began or (end <= began + _CLOCKS_NS and end < ended)


def _name(row: int, track: int) -> str:
    if row == _LOOSE:
        return f"{_TITLES[row]} {track + 1}"
    name = _TITLES.get(row) or (f"core {row}" if row < _GPUS else f"GPU {row - _GPUS}")
    return f"{name} ({track + 1})" if track else name

"""The same jobs as users run them: by default, and by `run`, with the CPU time of each process, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from grainlike_bench.compare import detail

__all__ = ["side_by_side"]

_WAYS = {
    "grainlike-default": ("default", ("caller", "daemon", "others")),
    "grainlike-embedded": ("`run()`", ("caller", "others")),
    "grainlike-embedded-async": ("`run()`, async", ("caller",)),
}
"""Of each system, what its columns are called, and in which processes its jobs take CPU time."""

_ROWS = {
    "W1 at once, jobs/s": ("at once", "throughput"),
    "W1 a lease each, jobs/s": ("a lease each", "leases"),
    "jobs of 5 ms, jobs/s": ("jobs of 5 ms", "short"),
    "W2 p50, µs": ("p50", "trips"),
    "W2 p99, µs": ("p99", "trips"),
    "W3 8 MB, MB/s": ("bulk", "bulk"),
    "W3b 200 MB, MB/s": ("large", "large"),
    "W4 tree, jobs/s": ("tree", "tree"),
    "W4b chain, jobs/s": ("chain", "chain"),
}
_NAMES = {"caller": "program", "daemon": "daemon", "others": "runners"}

Rounds = Mapping[str, Mapping[str, Sequence[float]]]
"""Of each system and figure, its value of every round."""


def side_by_side(figures: Rounds) -> list[tuple[str, ...]]:
    """Return a table, its head first; CPU time is in µs for each job, and for an array that went there and back."""
    head = [""]
    for name, parts in _WAYS.values():
        head += [name, *(_NAMES[part] for part in parts)]
    return [tuple(head), *((words, *_cells(figures, *of)) for words, of in _ROWS.items())]


def _cells(figures: Rounds, figure: str, workload: str) -> list[str]:
    return [
        _median(figures.get(system, {}).get(name, ()))
        for system, (_, parts) in _WAYS.items()
        for name in (figure, *(detail(workload, part) for part in parts))
    ]


def _median(rounds: Sequence[float]) -> str:
    return f"{median(rounds):,.0f}" if rounds else ""

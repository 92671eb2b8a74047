"""Rows of a comparison: each is a program that measures something once, in a process of its own, and prints figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from grainlike_bench._first_line import PROGRAMS
from grainlike_bench.compare import LESS_IS_BETTER, PARTS, SYSTEMS, WORKLOADS, detail
from grainlike_bench.targets import GOALS

__all__ = ["ROWS", "Figure", "Row", "chosen"]

_SYSTEMS = {"default": "grainlike-default", "run": "grainlike-embedded", "async": "grainlike-embedded-async"}
_WORKLOADS = ("throughput", "leases", "short", "trips", "tree", "chain", "bulk")
_MEASURED_PARTS = {
    "queued": "bytes of a job that waits",
    "sleepers": "100 ms jobs on 128 slots",
    "scheduler": "one decision with a long queue",
    "graph": "graphs of 100 000 operators",
}
"""Parts of the targets whose figures are not already beside another system's."""


@dataclass(frozen=True)
class Figure:
    """Unit of a figure, and which way is better."""

    unit: str
    more_is_better: bool = False
    always: bool = True
    """True if it is printed even where no change is seen."""


@dataclass(frozen=True)
class Row:
    """Measures figures once: `python -m *program`."""

    name: str
    words: str
    program: tuple[str, ...]
    figures: Mapping[str, Figure]


def _parts(workload: str) -> dict[str, Figure]:
    """CPU time, which other work on the machine disturbs least, is printed always."""
    return {detail(workload, part): Figure("" if part == "wake-ups" else "µs", always=part == "CPU") for part in PARTS}


def _of_systems() -> Iterator[Row]:
    for short, system in _SYSTEMS.items():
        for workload in map(WORKLOADS.__getitem__, _WORKLOADS):
            program = ("grainlike_bench.compare", system, f"{workload.name}={workload.size}")
            own = {
                name: Figure(unit, unit not in LESS_IS_BETTER, always=name not in ("CPU a job", "memory", "p99"))
                for name, unit in workload.units.items()
                if name != "CPU a job"  # it is there as a part
            }
            words = f"{workload.title}: {SYSTEMS[system].name}"
            yield Row(f"{short}-{workload.name}", words, program, own | _parts(workload.name))


def _of_starts() -> Iterator[Row]:
    for name, (words, _) in PROGRAMS.items():
        figures = {"first line": Figure("ms"), **_parts("start")}
        yield Row(f"start-{name}", words, ("grainlike_bench._first_line", name), figures)


def _of_parts() -> Iterator[Row]:
    for name, words in _MEASURED_PARTS.items():
        figures = {
            goal.row: Figure(goal.unit, goal.target.sense == "≥")
            for goal in GOALS
            if goal.row.partition("-")[0] == name or (name, goal.row) == ("queued", "w1b")
        }
        yield Row(name, words, ("grainlike_bench.targets._part", name, "1"), figures)


ROWS = {row.name: row for row in (*_of_systems(), *_of_starts(), *_of_parts())}


def chosen(names: list[str]) -> list[Row]:
    """The rows of these names, or of names that begin so; all of them for none.

    Raises:
        ValueError: there is no such row.
    """
    for name in names:
        if not any(f"{row}-".startswith(f"{name}-") for row in ROWS):
            raise ValueError(f"no row is named {name!r}; there are: {', '.join(ROWS)}")
    return [row for row in ROWS.values() if not names or any(f"{row.name}-".startswith(f"{name}-") for name in names)]

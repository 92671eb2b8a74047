"""The table, for a terminal and for `docs/performance.md`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import get_args

from grainlike_bench.targets._beside import side_by_side
from grainlike_bench.targets._goals import Goal, Verdict
from grainlike_bench.targets._run import Run

__all__ = ["markdown", "rewrite", "text"]

BEGIN, END = "<!-- targets: begin -->", "<!-- targets: end -->"
"""What is between them in the page is written by `--markdown`."""

_HEAD = ("row", "", "measured (min - max)", "beside", "target", "at the least", "")
_SYSTEM_HEAD = (
    "at once",
    "a lease each",
    "jobs of 5 ms",
    "p50",
    "p99",
    "tree",
    "chain",
    "bulk",
    "large",
    "CPU a job",
    "memory",
)


def text(goals: Iterable[Goal], run: Run) -> str:
    """Aligned columns, and below them what was not measured, and why."""
    rows = [_HEAD, *_rows(goals, run)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", summary(goals, run), *_failures(run)])


def summary(goals: Iterable[Goal], run: Run) -> str:
    """How many rows came to what."""
    verdicts = [_verdict(goal, run) for goal in goals]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in get_args(Verdict) if verdict in verdicts]
    return f"{len(verdicts)} rows: {', '.join(counts)}"


def markdown(goals: Sequence[Goal], run: Run) -> str:
    """The same as a page has it, with the systems beside each other."""
    parts = [f"Medians of {run.rounds} rounds on {run.day}: {run.machine}. {summary(goals, run)}."]
    parts.append(_grid(_HEAD[1:], [row[1:] for row in _rows(goals, run)], left=1))
    if run.systems:
        parts.append("As users run it, with the CPU time of a job in each process, in µs:")
        head, *rows = side_by_side(run.systems["figures"])
        parts.append(_grid(head, rows, left=1))
        parts.append("Beside others, in the same rounds:")
        parts.append(_grid(("", *map(_with_unit, _SYSTEM_HEAD)), _systems(run), left=1))
    parts += _failures(run)
    return "\n\n".join(parts)


def rewrite(page: Path, goals: Sequence[Goal], run: Run) -> None:
    """Put it between the marks of a page.

    Raises:
        ValueError: the page has no marks.
    """
    old = page.read_text(encoding="utf-8")
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no {BEGIN} and {END}")
    page.write_text(f"{before}{begin}\n\n{markdown(goals, run)}\n\n{end}{after}", encoding="utf-8")


def _rows(goals: Iterable[Goal], run: Run) -> list[tuple[str, ...]]:
    return [_row(goal, run) for goal in goals]


def _row(goal: Goal, run: Run) -> tuple[str, ...]:
    beside = goal.beside
    if goal.also is not None and (also := run.median(goal.also[1])) is not None:
        beside += f"; {goal.also[0]}: {_number(also)} {goal.unit}"
    least = "" if goal.least is None else str(goal.least)
    if least and goal.least_is_also and goal.also is not None:
        least += f" the {goal.also[0]}"
    measured = _measured(run.found.get(goal.row, []), goal.unit)
    return goal.row, goal.words, measured, beside, f"{goal.target} {goal.unit}", least, _verdict(goal, run)


def _verdict(goal: Goal, run: Run) -> Verdict:
    return goal.verdict(run.median(goal.row), run.median(goal.also[1]) if goal.also is not None else None)


def _measured(values: Sequence[float], unit: str) -> str:
    if not values:
        return "-"
    spread = f" ({_number(min(values))} - {_number(max(values))})" if len(values) > 1 else ""
    return f"{_number(median(values))} {unit}{spread}"


def _number(value: float) -> str:
    """Three digits that count, four near one, or all of those before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 2 else 3
    return f"{value:.{digits}f}" if abs(value) >= 0.001 else f"{value:.1g}"


def _with_unit(figure: str) -> str:
    units = {
        "at once": "jobs/s",
        "a lease each": "jobs/s",
        "jobs of 5 ms": "jobs/s",
        "tree": "jobs/s",
        "chain": "jobs/s",
        "p50": "µs",
        "p99": "µs",
    }
    units |= {"bulk": "MB/s", "large": "MB/s", "CPU a job": "µs", "memory": "MB"}
    names = {"bulk": "8 MB", "large": "200 MB"}
    return f"{names.get(figure, figure)}, {units[figure]}"


def _systems(run: Run) -> list[tuple[str, ...]]:
    figures: dict[str, dict[str, list[float]]] = run.systems["figures"]
    return [
        (f"`{name}`", *(f"{median(rounds[figure]):,.0f}" if rounds.get(figure) else "" for figure in _SYSTEM_HEAD))
        for name, rounds in figures.items()
    ]


def _grid(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """A table of Markdown; the columns behind the first few are to the right where they are figures."""
    rule = ["---" if column < left or len(head) < 8 else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, rule, *rows))


def _failures(run: Run) -> list[str]:
    return [f"Not measured: {name}: {why}" for name, why in run.failures.items()]

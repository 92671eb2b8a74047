"""Differences of two revisions, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from grainlike_bench.revisions._build import Environment
from grainlike_bench.revisions._noise import CONFIDENCE, FEWEST, Change, change
from grainlike_bench.revisions._rows import Figure
from grainlike_bench.revisions._run import SIDES, Found

__all__ = ["facts", "text"]

_HEAD = ("row", "figure", *SIDES, "ratio", "between", "")


def text(table: Sequence[Found], builds: tuple[Environment, Environment], rounds: int) -> str:
    """Return aligned columns: every main figure, and of the others those that changed."""
    rows = [_HEAD]
    rows += [
        (found.row.name, name, _number(it.before), f"{_number(it.after)} {figure.unit}", *_ratio(it), said(it, figure))
        for found, name, figure, it in _changes(table)
        if figure.always or it.verdict != "no change seen"
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += ["", *(f"{side}: {build.version}, {build.commit}" for side, build in zip(SIDES, builds, strict=True))]
    lines += [f"{found.row.name}: not measured: {found.failure}" for found in table if found.failure]
    return "\n".join([*lines, _caution(sum(1 for _ in _changes(table)), rounds)])


def said(it: Change, figure: Figure) -> str:
    """Return whether a change is for the better."""
    if it.verdict == "no change seen":
        return it.verdict
    return "better" if (it.verdict == "more") == figure.more_is_better else "worse"


def facts(table: Sequence[Found], builds: tuple[Environment, Environment], machine: str) -> dict[str, object]:
    """Return all figures of all rounds, with what was said of them."""
    changes = [
        {"row": found.row.name, "figure": name, "unit": figure.unit, **asdict(it), "verdict": said(it, figure)}
        for found, name, figure, it in _changes(table)
    ]
    return {
        "machine": machine,
        **{side: {"commit": build.commit, "version": build.version} for side, build in zip(SIDES, builds, strict=True)},
        "changes": changes,
        "rounds": {
            found.row.name: {name: dict(zip(SIDES, values, strict=True)) for name, values in found.figures.items()}
            for found in table
        },
        "failures": {found.row.name: found.failure for found in table if found.failure},
    }


def _changes(table: Sequence[Found]) -> Iterator[tuple[Found, str, Figure, Change]]:
    for found in table:
        for name, values in found.figures.items():
            yield found, name, found.row.figures[name], change(*values)


def _ratio(it: Change) -> tuple[str, str]:
    return f"{it.ratio:.3f}", "" if it.bounds is None else f"{it.bounds[0]:.3f} - {it.bounds[1]:.3f}"


def _caution(figures: int, rounds: int) -> str:
    """Return how far the verdicts can be trusted."""
    if rounds < FEWEST:
        return f"Too few rounds to tell a change from noise: that takes {FEWEST}."
    by_chance = figures * (1 - CONFIDENCE)
    return (
        f"Medians of {rounds} pairs; the ratio lies between its bounds with {CONFIDENCE:.0%}. Of {figures} figures, up "
        f"to {by_chance:.0f} may be said to have changed by chance: measure those again, with --only and more --rounds."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

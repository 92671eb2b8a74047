"""Interleaved rounds of two builds: both run in every round, and take turns at being the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

from grainlike_bench._child import MeasurementError, figures_of
from grainlike_bench.revisions._build import Environment
from grainlike_bench.revisions._rows import Row

__all__ = ["SIDES", "Found", "run"]

SIDES = ("before", "after")
LIMIT_S = 300.0


@dataclass
class Found:
    """Figures of one row: of each, its value in every round before and after; or the reason why it has none."""

    row: Row
    figures: dict[str, tuple[list[float], list[float]]] = field(default_factory=dict)
    failure: str | None = None

    def add(self, before: dict[str, float], after: dict[str, float]) -> None:
        """Keep one pair; a figure that only one of both has is no pair."""
        for name in self.row.figures:
            if name in before and name in after:
                olds, news = self.figures.setdefault(name, ([], []))
                olds.append(before[name])
                news.append(after[name])


def run(
    rows: Sequence[Row], builds: tuple[Environment, Environment], rounds: int, say: Callable[[str], None]
) -> list[Found]:
    """Measure all rows in every round. One that fails on either side has no more turns."""
    table = [Found(row) for row in rows]
    for turn in range(rounds):
        for found in table:
            if found.failure is None:
                say(f"round {turn + 1} of {rounds}: {found.row.name}")
                _pair(found, builds, backwards=turn % 2 == 1)
    return table


def _pair(found: Found, builds: tuple[Environment, Environment], *, backwards: bool) -> None:
    pair: dict[str, dict[str, float]] = {}
    order = list(zip(SIDES, builds, strict=True))
    for side, build in reversed(order) if backwards else order:
        try:
            pair[side] = _once(found.row, build)
        except MeasurementError as error:
            found.failure = f"{side}: {error}"
            return
    found.add(pair["before"], pair["after"])


def _once(row: Row, build: Environment) -> dict[str, float]:
    """A figure that a program took several times is their median."""
    command = [str(build.python), "-m", *row.program]
    said = figures_of(command, LIMIT_S, environment=build.variables, cwd=build.home)
    return {name: median(value) if isinstance(value, list) else value for name, value in said.items()}

"""Runs of the systems, interleaved, each round of each in a fresh process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from grainlike_bench._child import MeasurementError, figures_of, with_scripts

__all__ = ["Figures", "measure"]


@dataclass
class Figures:
    """Figures of one system: for each of them its value in every round; or the reason why it has none."""

    system: str
    rounds: dict[str, list[float]] = field(default_factory=dict)
    failure: str | None = None

    def median(self, figure: str) -> float | None:
        """Return the figure's median over the rounds; None where the system has none."""
        values = self.rounds.get(figure)
        return median(values) if values else None


def measure(
    systems: Sequence[str],
    sizes: Mapping[str, int],
    *,
    rounds: int,
    limit_s: float,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Figures]:
    """Run every system `rounds` times, in turn, and collect its figures.

    Args:
        systems: names of `SYSTEMS`.
        sizes: for each workload to run, its size.
        rounds: how often each system runs.
        limit_s: seconds after which one run of one system is given up; it then has no more turns.
        progress: called with a line of text before each run.
    """
    table = {name: Figures(name) for name in systems}
    for turn in range(1, rounds + 1):
        for figures in table.values():
            if figures.failure is None:
                progress(f"round {turn} of {rounds}: {figures.system}")
                _run(figures, sizes, limit_s)
    return list(table.values())


def _run(figures: Figures, sizes: Mapping[str, int], limit_s: float) -> None:
    command = [sys.executable, "-m", "grainlike_bench.compare", figures.system]
    command += [f"{name}={size}" for name, size in sizes.items()]
    try:
        found = figures_of(command, limit_s, environment={**os.environ, "PATH": with_scripts(Path(sys.executable))})
    except MeasurementError as error:
        figures.failure = str(error)
        return
    for name, value in found.items():
        figures.rounds.setdefault(name, []).append(value)

"""Figures as text and as JSON."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence

from grainlike_bench.compare._measure import Figures
from grainlike_bench.compare._workloads import LESS_IS_BETTER, WORKLOADS
from grainlike_bench.compare.systems import SYSTEMS

__all__ = ["facts", "table", "units_of"]

_BASE = "pool"
"""The system to whose figures the ratios are."""


def units_of(sizes: Mapping[str, int]) -> dict[str, str]:
    """Return all figures of these workloads, with their units."""
    return {figure: unit for name in sizes for figure, unit in WORKLOADS[name].units.items()}


def table(found: Sequence[Figures], sizes: Mapping[str, int]) -> str:
    """Return the figures as text: a block for each figure, the best first, with median, minimum and maximum, and the
    ratio to the process pool.
    """
    lines = [_machine(), ""]
    for figure, unit in units_of(sizes).items():
        lines += [*_block(figure, unit, found), ""]
    lines += [f"{figures.system}: not measured: {figures.failure}" for figures in found if figures.failure]
    return "\n".join(lines).rstrip()


def _block(figure: str, unit: str, found: Sequence[Figures]) -> list[str]:
    base = next((figures.median(figure) for figures in found if figures.system == _BASE), None)
    rows = [(value, figures) for figures in found if (value := figures.median(figure)) is not None]
    rows.sort(key=lambda row: row[0], reverse=unit not in LESS_IS_BETTER)
    lines = [f"{figure}, {unit}"]
    for value, figures in rows:
        values = figures.rounds[figure]
        ratio = f"{value / base:8.2f} x" if base else ""
        spread = f"({min(values):.0f} - {max(values):.0f})"
        lines.append(f"  {SYSTEMS[figures.system].name:42} {value:10.0f} {spread:>19} {ratio}")
    return lines


def facts(found: Sequence[Figures], sizes: Mapping[str, int]) -> dict[str, object]:
    """Return all rounds of all figures, with the machine and versions that they were measured on."""
    return {
        "machine": _machine(),
        "versions": dict(_versions(figures.system for figures in found)),
        "sizes": dict(sizes),
        "units": units_of(sizes),
        "figures": {figures.system: figures.rounds for figures in found},
        "failures": {figures.system: figures.failure for figures in found if figures.failure},
    }


def _versions(names: Iterable[str]) -> Iterable[tuple[str, str]]:
    from importlib.metadata import PackageNotFoundError, version  # `grainlike bench --list` does without

    for name in names:
        package = SYSTEMS[name].package
        if package is not None:
            try:
                yield name, version(package)
            except PackageNotFoundError:
                yield name, "unknown"


def _machine() -> str:
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load}"

"""Figures as bars. Lengths are logarithmic, as the systems differ by orders of magnitude."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

from grainlike_bench.compare._measure import Figures
from grainlike_bench.compare._table import units_of
from grainlike_bench.compare._workloads import LESS_IS_BETTER
from grainlike_bench.compare.systems import SYSTEMS

__all__ = ["picture"]

_WIDTH, _LABEL, _ROW, _HEAD = 860, 300, 22, 34
_OURS, _OTHERS = "#2563eb", "#a3adbd"


def picture(found: Sequence[Figures], sizes: Mapping[str, int]) -> str:
    """Return an SVG document with one group of bars for each figure, the best on top."""
    parts: list[str] = []
    y = 12
    for figure, unit in units_of(sizes).items():
        rows = [(value, figures.system) for figures in found if (value := figures.median(figure))]
        less = unit in LESS_IS_BETTER
        rows.sort(reverse=not less)
        better = "less is better" if less else "more is better"
        parts.append(f'<text x="12" y="{y + 16}" class="head">{escape(figure)}, {escape(unit)} ({better})</text>')
        y += _HEAD
        for value, system in rows:
            parts.append(_bar(y, value, system, max(rows)[0]))
            y += _ROW
        y += 12
    style = "text{font:13px system-ui,sans-serif;fill:#1f2937}.head{font-weight:600}.value{font-size:12px}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" role="img">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


def _bar(y: int, value: float, system: str, most: float) -> str:
    room = _WIDTH - _LABEL - 90
    length = max(2.0, room * log10(max(value, 1.0) + 1) / log10(most + 1))
    colour = _OURS if system.startswith("grainlike") else _OTHERS
    return (
        f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(SYSTEMS[system].name)}</text>'
        f'<rect x="{_LABEL}" y="{y + 3}" width="{length:.1f}" height="{_ROW - 7}" rx="2" fill="{colour}"/>'
        f'<text x="{_LABEL + length + 6:.1f}" y="{y + 14}" class="value">{value:,.0f}</text>'
    )

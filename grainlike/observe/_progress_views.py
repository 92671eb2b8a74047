"""Views of progress: a table with bars for terminals, the same in HTML for notebooks, and a line of plain text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from grainlike.observe._progress import FunctionProgress

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["as_html", "as_line", "as_table"]

_TITLES = ("done", "running", "waiting", "failed", "cancelled", "rate", "left")
_SHORT = ("done", "failed", "left")
_WIDE, _NARROW = 72, 52
"""Columns of a terminal from which on all titles have room, and below which a bar has none."""
_UNKNOWN = "-"
_BAR = 24
"""Width of a bar at the most, in columns; a narrow terminal has less."""


def as_table(rows: Sequence[FunctionProgress], width: int) -> Table:
    """Return the table for a terminal of so many columns: a row a function, with a bar. A narrow one has fewer columns,
    none of which breaks a number.
    """
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    titles = [title for title in _titles(rows) if width >= _WIDE or title in _SHORT]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True, overflow="ellipsis", ratio=2, max_width=32)
    if width >= _NARROW:
        table.add_column("", min_width=4, max_width=_BAR, ratio=1)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        cells = _cells(row)
        bar = ProgressBar(
            total=max(1, row.counts.known),
            completed=row.counts.ended,
            complete_style="red" if row.counts.failed else "bar.complete",
            finished_style="red" if row.counts.failed else "bar.finished",
        )
        bars = [bar] if width >= _NARROW else []
        table.add_row(Text(_one_line(row.name)), *bars, *(Text(cells[title]) for title in titles))
    return table


def as_html(rows: Sequence[FunctionProgress]) -> str:
    """Return the table for a notebook, without style sheets or scripts of its own."""
    titles = _titles(rows)
    parts = ["<table><thead><tr><th></th><th></th>", *(f"<th>{title}</th>" for title in titles), "</tr></thead><tbody>"]
    for row in rows:
        cells = _cells(row)
        parts.append(
            f"<tr><th>{escape(_one_line(row.name))}</th>"
            f'<td><progress max="{max(1, row.counts.known)}" value="{row.counts.ended}"></progress></td>'
        )
        parts += [f"<td>{cells[title]}</td>" for title in titles]
        parts.append("</tr>")
    return "".join([*parts, "</tbody></table>"])


def as_line(rows: Sequence[FunctionProgress]) -> str:
    """Return one line of plain text, as for a log."""
    return "; ".join(map(_words, rows))


def _words(row: FunctionProgress) -> str:
    cells, counts = _cells(row), row.counts
    words = [f"{cells['done']} done"]
    words += [f"{count} {title}" for title in ("running", "waiting") if (count := getattr(counts, title))]
    words += [f"{count} {title}" for title in ("failed", "cancelled") if (count := getattr(counts, title))]
    if row.rate is not None:
        words.append(cells["rate"])
    if row.took_s is not None:
        words.append(cells["left"])
    elif row.left_s is not None:
        words.append(f"{cells['left']} left")
    return f"{_one_line(row.name)}: {', '.join(words)}"


def _titles(rows: Sequence[FunctionProgress]) -> list[str]:
    """Return the titles of the columns: most have nothing that was cancelled."""
    cancelled = any(row.counts.cancelled for row in rows)
    return [title for title in _TITLES if cancelled or title != "cancelled"]


def _cells(row: FunctionProgress) -> dict[str, str]:
    counts = row.counts
    return {
        "done": f"{counts.succeeded}/{counts.known}",
        "running": str(counts.running),
        "waiting": str(counts.waiting),
        "failed": str(counts.failed),
        "cancelled": str(counts.cancelled),
        "rate": _rate(row.rate),
        "left": _seconds(row.left_s) if row.took_s is None else f"in {_took(row.took_s)}",
    }


def _rate(rate: float | None) -> str:
    """Return ends per second as text; per minute or hour where they are seldom."""
    if rate is None:
        return _UNKNOWN
    for unit, seconds in (("s", 1), ("min", 60), ("h", 3600)):
        if rate * seconds >= 1 or unit == "h":
            return f"{rate * seconds:.3g}/{unit}" if rate * seconds < 1000 else f"{rate * seconds:.0f}/{unit}"
    raise AssertionError("every rate has a unit")


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return _UNKNOWN
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else _seconds(seconds)


def _one_line(name: str) -> str:
    """Return a name without what would move the cursor, or colour the rest."""
    return "".join(char if char.isprintable() else "?" for char in name)

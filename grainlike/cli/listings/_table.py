"""Tables: columns of least value are left out where the terminal is narrow, and numbers stand at the right."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from grainlike.cli.listings._cells import breadth, cell_lines, least_breadth

__all__ = ["table_lines"]

_GAP = "  "

_KEPT = 12
"""Characters to which columns that are kept are shortened before one of them is left out."""

_NUMBERS = frozenset(
    (
        *("job", "latest", "running", "pid", "heard ago", "for", "ran", "cpu", "memory", "ended", "jobs", "names"),
        *("outcomes", "kept", "limit", "since", "results", "size", "records", "newest", "up", "pending", "wanted"),
        *("core-hours", "workers", "submitted ago", "left", "queued", "attempts", "cores", "peak", "stored"),
        "on disk",
    )
)
"""Titles of columns with one number in a cell, or a name without blanks in its place: whole, and at the right."""

_LEAST_VALUE = (
    *("memory kept by", "pid", "heard ago", "client", "called", "names", "outcomes", "nodes", "kind"),
    *("submitted ago", "core-hours", "host", "no jobs for", "block", "cpu", "limit", "ended", "slots", "memory"),
    *(
        "stored",
        "on disk",
        "ran",
        "cores busy",
        "jobs ended",
        "asked for",
        "worker",
        "outcome",
        "peak memory",
        "suggested",
    ),
)
"""Titles of columns in the order in which they are left out, what a list is read for last; then those at the right, but
for the first of all."""


def table_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, keep: Collection[str] = ()
) -> list[str]:
    """Return the lines of a table, with one about the columns that had no room.

    Args:
        titles: of the columns. By their titles it is known which hold numbers, and which are of least value.
        rows: cells without control characters.
        width: of the terminal; None for a pipe, where nothing is shortened.
        keep: titles of columns that are shortened further, and left out after all others.

    Example::

        >>> table_lines(["job", "name"], [["1", "fit"], ["12", "merge"]], 80)
        ['job  name', '─── ─────', '  1  fit', ' 12  merge']
    """
    shown = list(range(len(titles)))
    columns = [[title, *(row[at] for row in rows)] for at, title in enumerate(titles)]
    most = [max(map(breadth, column)) for column in columns]
    if width is None:
        return _lines(titles, rows, shown, most)
    least = [
        wide if title in _NUMBERS else max(breadth(title), *map(least_breadth, column), 0)
        for title, column, wide in zip(titles, columns, most, strict=True)
    ]
    while len(shown) > 1 and _total(least, shown) > width:
        worst = max(shown[1:], key=lambda at: (titles[at] not in keep, _worthlessness(titles[at], at)))
        if titles[worst] in keep:
            least = [min(one, _KEPT) if title in keep else one for one, title in zip(least, titles, strict=True)]
            if _total(least, shown) <= width:
                break
        shown.remove(worst)
    lines = _lines(titles, rows, shown, _widths(least, most, shown, width))
    left_out = [title for at, title in enumerate(titles) if at not in shown]
    if left_out:
        words = f"without room here: {', '.join(left_out)}; a wider terminal, a pipe and --json have all"
        lines += cell_lines(words, width, len(words))
    return lines


def _worthlessness(title: str, at: int) -> tuple[int, int]:
    return (-_LEAST_VALUE.index(title), 0) if title in _LEAST_VALUE else (-len(_LEAST_VALUE), at)


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1)


def _widths(least: Sequence[int], most: Sequence[int], shown: Sequence[int], width: int) -> list[int]:
    """Return the widths in which the columns that are shown fit: what is left over goes to the narrowest first."""
    level = max(most, default=0)
    while level and _total(_levelled(least, most, level), shown) > width:
        level -= 1
    return _levelled(least, most, level) if level else [min(one, width) for one in least]


def _levelled(least: Sequence[int], most: Sequence[int], level: int) -> list[int]:
    return [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]


def _lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], shown: Sequence[int], widths: Sequence[int]
) -> list[str]:
    rule = _GAP.join("─" * widths[at] for at in shown)
    table = [_row_lines(titles, titles, shown, widths), [rule]]
    table += [_row_lines(titles, row, shown, widths) for row in rows]
    return [line for lines in table for line in lines]


def _row_lines(titles: Sequence[str], cells: Sequence[str], shown: Sequence[int], widths: Sequence[int]) -> list[str]:
    parts = [cell_lines(cells[at], widths[at]) for at in shown]
    lines = []
    for number in range(max(map(len, parts), default=0)):
        line = [
            _padded(part[number] if number < len(part) else "", widths[at], titles[at])
            for at, part in zip(shown, parts, strict=True)
        ]
        lines.append(_GAP.join(line).rstrip())
    return lines


def _padded(text: str, width: int, title: str) -> str:
    blanks = " " * (width - breadth(text))
    return blanks + text if title in _NUMBERS else text + blanks

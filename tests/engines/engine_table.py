"""The table in docs/engines.md: rows are promises, columns are engines, and a cell is what a test found."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
BEGIN, END = "<!-- promises: begin -->", "<!-- promises: end -->"
COLUMNS = ["threads", "processes", "dask", "ray", "celery", "your own"]


class Table:
    """Holds the page to what tests find; with `GRAINLIKE_WRITE_TABLE=1` the page is made to say it."""

    def note(self, promise: str, engine: str, cell: str = "yes") -> None:
        """A test has seen this. The same engine, reached in another way, must do the same."""
        column = engine.partition(",")[0]
        if os.environ.get("GRAINLIKE_WRITE_TABLE"):
            write(promise, column, cell)
        told = read().get(promise, {}).get(column)
        assert told == cell, f"docs/engines.md says {told!r} of {promise} on {column}, and it was {cell!r}"


def read() -> dict[str, dict[str, str]]:
    """The table of the page: promise, engine, cell."""
    body = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in body.strip().splitlines()]
    if not rows:
        return {}
    columns = rows[0][1:]
    return {row[0]: dict(zip(columns, row[1:], strict=True)) for row in rows[2:]}


def write(promise: str, engine: str, cell: str) -> None:
    """Put one cell into the page."""
    table = read()
    table.setdefault(promise, {})[engine] = cell
    lines = [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    lines += [f"| {row} | {' | '.join(cells.get(name, '') for name in COLUMNS)} |" for row, cells in table.items()]
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{rest.partition(END)[2]}")

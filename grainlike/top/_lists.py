"""Widget of a list: only the rows in sight are drawn, whatever there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grainlike.top._tables import Table

__all__ = ["JobList"]

_WIDEST = 40
"""Cells of a column at most; the last one has what is left."""

_TITLE, _HERE = Style(bold=True, dim=True), Style(reverse=True)


class JobList(ScrollView, can_focus=True):
    """A list with a row that is chosen, on which Enter posts `Opened` with the row's job."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "move(-10)", "Up", show=False),
        Binding("pagedown", "move(10)", "Down", show=False),
        Binding("home", "move(-1000)", "First", show=False),
        Binding("end", "move(1000)", "Last", show=False),
        Binding("enter", "open", "Job"),
    ]

    class Opened(Message):
        """A person wants to see a job."""

        def __init__(self, job: int) -> None:
            super().__init__()
            self.job = job

    def __init__(self, title: str, *, id: str, classes: str) -> None:  # noqa: A002 - as widgets have it
        super().__init__(id=id, classes=classes)
        self.border_title = title
        self._table = Table((), (), ())
        self._widths: list[int] = []
        self._at = 0
        self.drawn = 0
        """Number of rows that have been drawn so far."""

    def show(self, table: Table) -> None:
        """Show another state of the list. The first row stays chosen, as the choice was not moved; further
        down the row of the same job does, in sight, while it is there.
        """
        if table == self._table:
            return
        before = self._at
        chosen = self._table.jobs[before] if 0 < before < len(self._table.jobs) else 0
        if chosen and chosen in table.jobs:
            self._at = table.jobs.index(chosen)
        self._at = max(0, min(self._at, len(table.rows) - 1))
        self._table = table
        self._widths = [
            min(_WIDEST, max(map(cell_len, [title, *(row[column] for row in table.rows)])))
            for column, title in enumerate(table.titles)
        ]
        self.virtual_size = Size(0, len(table.rows) + 1 + bool(table.more))
        if self._at != before:
            self._scroll_to_chosen()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line: titles stay at the top."""
        width = self.size.width
        number = y + self.scroll_offset.y - 1
        if y == 0:
            text, style = self._line(self._table.titles), _TITLE
        elif 0 <= number < len(self._table.rows):
            self.drawn += 1
            text = self._line(self._table.rows[number])
            style = _HERE if number == self._at and self.has_focus else Style()
        elif number == len(self._table.rows) and self._table.more:
            text, style = f"and {self._table.more:,} more", _TITLE
        elif y == 1 and not self._table.rows:
            text, style = "none", _TITLE
        else:
            text, style = "", Style()
        return Strip([Segment(set_cell_size(text, width), self.rich_style + style)], width)

    def _line(self, cells: Sequence[str]) -> str:
        parts = [
            _fitting(cell, width, right=column in self._table.numbers)
            for column, (cell, width) in enumerate(zip(cells[:-1], self._widths, strict=False))
        ]
        return "  ".join([*parts, *cells[-1:]])

    def action_move(self, rows: int) -> None:
        """Choose another row."""
        self._at = max(0, min(self._at + rows, len(self._table.rows) - 1))
        self._scroll_to_chosen()
        self.refresh()

    def _scroll_to_chosen(self) -> None:
        self.scroll_to_region(Region(0, self._at, 1, 2), animate=False, force=True)

    def action_open(self) -> None:
        """Show the job of the chosen row."""
        if self._at < len(self._table.jobs) and self._table.jobs[self._at]:
            self.post_message(self.Opened(self._table.jobs[self._at]))

    def on_click(self, event: Click) -> None:
        """Choose the row that was clicked, and open it with a second click."""
        number = event.y - self.gutter.top + self.scroll_offset.y - 1
        if 0 <= number < len(self._table.rows):
            chosen, self._at = self._at, number
            self.refresh()
            if chosen == number:
                self.action_open()


def _fitting(cell: str, width: int, *, right: bool) -> str:
    if cell_len(cell) > width:
        return f"{set_cell_size(cell, width - 1)}…"
    return f"{' ' * (width - cell_len(cell))}{cell}" if right else set_cell_size(cell, width)

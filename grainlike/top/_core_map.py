"""Widget of the map of cores: only the lines in sight are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from grainlike.live import LiveState
from grainlike.top._cores import Cell, CoreLines
from grainlike.top._marks import Mark, Marks

__all__ = ["CoreMap"]

_FREE = Style(dim=True)


class CoreMap(ScrollView, can_focus=True):
    """Map of the cores and GPUs of all workers, with the letters of functions below it."""

    def __init__(self, marks: Marks, escaped: Callable[[str], str], *, id: str) -> None:  # noqa: A002 - as widgets have it
        super().__init__(id=id)
        self._marks = marks
        self._escaped = escaped
        self._lines: CoreLines | None = None
        self._legend: Sequence[str] = ()
        self.drawn = 0
        """Number of lines that have been drawn so far."""
        self._shown: object = None

    def show(self, state: LiveState, *, by_worker: bool, wanted: Callable[[str], bool], legend: Sequence[str]) -> None:
        """Show another state, and the letters of these functions: those that run and are wanted, in an order."""
        shown = state.at, by_worker, self.size, *legend
        if shown == self._shown:
            return
        self._shown = shown
        self._lines = CoreLines(state, self.size.width, by_worker=by_worker, wanted=wanted)
        self._legend = legend
        self.virtual_size = Size(0, self._lines.count + 1)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw a line; the last one in sight has the letters."""
        width, plain = self.size.width, self.rich_style
        if y == self.size.height - 1:
            segments = list(self._letters(width, plain))
        else:
            number = y + self.scroll_offset.y
            segments = []
            if self._lines is not None and number < self._lines.count:
                self.drawn += 1
                label, cells = self._lines.line(number)
                segments = [Segment(f"{self._escaped(label)} ", plain), *(self._cell(cell, plain) for cell in cells)]
        return Strip(segments).adjust_cell_length(width, plain)

    def _letters(self, width: int, plain: Style) -> list[Segment]:
        segments: list[Segment] = []
        room = width
        for name in self._legend:
            mark, text = self._marks.of(name), f" {self._escaped(name)}  "
            room -= 1 + len(text)
            if room < 0:
                break
            segments += [Segment(mark.letter, plain + _filled(mark)), Segment(text, plain)]
        return segments

    def _cell(self, cell: Cell, plain: Style) -> Segment:
        if cell.name is None:
            return Segment(cell.plain, plain + _FREE)
        mark = self._marks.of(cell.name)
        style = _filled(mark) if cell.full else Style(color=mark.colour, underline=True)
        return Segment(mark.letter, plain + style)


def _filled(mark: Mark) -> Style:
    return Style(color=mark.ink, bgcolor=mark.colour)

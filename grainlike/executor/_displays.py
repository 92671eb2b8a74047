"""Displays of progress: below a terminal's output, in a notebook's cell, or as plain lines now and then."""

from __future__ import annotations

import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TextIO

from grainlike.executor._interactive import is_notebook
from grainlike.observe import FunctionProgress, as_html, as_line, as_table

__all__ = ["Display", "LineDisplay", "NotebookDisplay", "TerminalDisplay", "display_here"]

_MOST_ROWS = 10
_MOST_HELD = 65536
"""Characters of a line without an end that wait for it."""


class Display(ABC):
    """Place in which progress is shown, at most once in `every_s` seconds."""

    every_s = 0.1

    @property
    def most(self) -> int:
        """Rows for which there is room."""
        return _MOST_ROWS

    def open(self) -> None:  # noqa: B027 - most have nothing to do
        """Begin."""

    @abstractmethod
    def show(self, rows: Sequence[FunctionProgress]) -> None:
        """Show this in place of what was shown before."""

    def close(self) -> None:  # noqa: B027 - most have nothing to do
        """End; what was shown last stays."""


def display_here(lines_every: float | None) -> Display | None:
    """Return the display of this program: that of its notebook, else of its terminal, else lines if they are asked for;
    else None.
    """
    if is_notebook():
        return NotebookDisplay()
    stream = next((one for one in map(_base, (sys.stderr, sys.stdout)) if _is_terminal(one)), None)
    if stream is not None:
        return TerminalDisplay(stream)
    return None if lines_every is None else LineDisplay(lines_every)


def _is_terminal(stream: Any) -> bool:
    from rich.console import Console

    try:
        if not stream.isatty():
            return False
    except (AttributeError, ValueError):  # there is no stream, or it is closed
        return False
    return not Console(file=stream, force_terminal=True).is_dumb_terminal


def _base(stream: Any) -> Any:
    """Return the stream behind those that stand in for it while jobs run in this process."""
    while (behind := getattr(stream, "behind", None)) is not None:
        stream = behind
    return stream


class TerminalDisplay(Display):
    """Bars below all that the program writes.

    While it is open, whole lines that are written to the terminal go above the bars; the beginning of a line waits for
    its end. Both streams are caught at their `write`, so code that took one earlier, as a handler of `logging` has, is
    caught too. The cursor stays visible and at the left: a program that is killed leaves the terminal as it should be.
    """

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console

        self._console = Console(file=stream, force_terminal=True, highlight=False)
        self._lock = threading.RLock()
        self._bars = ""
        self._drawn = 0
        """Lines of bars that the terminal shows."""
        self._held: dict[TextIO, str] = {}
        self._caught: list[tuple[TextIO, Callable[[str], int]]] = []
        self._say: Callable[[str], int] = stream.write
        self._flush = stream.flush
        self._rendered(())  # the first one loads what draws

    @property
    def most(self) -> int:
        """Rows for which the terminal has room, beside the titles and a line of output."""
        return max(1, min(_MOST_ROWS, self._console.height - 3))

    def open(self) -> None:
        """Catch what is written to the terminal."""
        for stream in dict.fromkeys(map(_base, (sys.stdout, sys.stderr))):
            if _is_terminal(stream) and "write" not in getattr(stream, "__dict__", ("write",)):
                self._catch(stream)

    def _catch(self, stream: TextIO) -> None:
        write = stream.write
        self._caught.append((stream, write))
        self._held[stream] = ""

        def above(text: str) -> int:
            with self._lock:
                whole, end, rest = (self._held[stream] + text).rpartition("\n")
                if not end and len(rest) > _MOST_HELD:
                    whole, end, rest = rest, "\n", ""
                self._held[stream] = rest
                if end:
                    self._erase()
                    write(whole + end)
                    stream.flush()
                    self._draw()
            return len(text)

        vars(stream)["write"] = above

    def show(self, rows: Sequence[FunctionProgress]) -> None:
        """Draw the rows in place of the last, if they look different."""
        bars = self._rendered(rows)
        with self._lock:
            if bars != self._bars:
                self._erase()
                self._bars = bars
                self._draw()

    def _rendered(self, rows: Sequence[FunctionProgress]) -> str:
        with self._console.capture() as captured:
            self._console.print(as_table(rows, self._console.width))
        return captured.get()

    def close(self) -> None:
        """Let go of the streams, and write what waited for the end of its line."""
        with self._lock:
            self._bars, self._drawn = "", 0
            for stream, _ in self._caught:
                del vars(stream)["write"]
            for stream, write in self._caught:
                write(self._held[stream])
                stream.flush()
            self._caught.clear()

    def _erase(self) -> None:
        if self._drawn:
            self._say(f"\x1b[{self._drawn}A\r\x1b[J")
            self._drawn = 0
            self._flush()

    def _draw(self) -> None:
        self._say(self._bars)
        self._drawn = self._bars.count("\n")
        self._flush()


class NotebookDisplay(Display):
    """Table in the output of the cell in which it was opened, which changes in place."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: Sequence[FunctionProgress] = ()

    def show(self, rows: Sequence[FunctionProgress]) -> None:
        """Show the table, or change it."""
        if rows == self._shown:
            return
        display: Any = import_module("IPython.display").display  # by name: it is there, for a notebook runs
        self._shown = rows
        data = {"text/html": as_html(rows), "text/plain": as_line(rows)}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class LineDisplay(Display):
    """Plain lines on standard error, one each `every_s` seconds and one at the end."""

    def __init__(self, every_s: float) -> None:
        self.every_s = every_s
        self._line = ""

    def show(self, rows: Sequence[FunctionProgress]) -> None:
        """Write a line, unless it would say the same as the last."""
        line = as_line(rows)
        if line != self._line:
            self._line = line
            print(f"grainlike: {line}", file=sys.stderr, flush=True)  # noqa: T201 - it was asked for

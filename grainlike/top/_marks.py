"""Marks of functions on the map of cores: a letter and a colour for each."""

from __future__ import annotations

from collections import Counter
from string import ascii_letters, digits
from typing import NamedTuple
from zlib import crc32

__all__ = ["FREE", "OTHER", "Mark", "Marks"]

FREE = "."
"""Mark of a free slot."""

OTHER = "~"
"""Mark of a slot that is held by what the filter leaves out."""

_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#BBBBBB")
"""Colours that people with any colour vision can tell apart, by Okabe and Ito."""

_DARK = ("#0072B2",)


class Mark(NamedTuple):
    """Letter of a function, its colour, and the colour of text on that."""

    letter: str
    colour: str
    ink: str


class Marks:
    """Marks by the names of functions, the same for as long as this lives.

    A name has a colour of its own, the same on every screen, unless a name before it has that one; then the next that
    the fewest have. Letters of names differ; the 63rd name and those after it have the letter `?`.
    """

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}
        self._taken: set[str] = set()

    def of(self, name: str) -> Mark:
        """Return the mark of a function."""
        mark = self._marks.get(name)
        if mark is None:
            colour = self._colour(name)
            mark = Mark(self._letter(name), colour, "#FFFFFF" if colour in _DARK else "#000000")
            if mark.letter != "?":  # others are not kept: there may be any number
                self._marks[name] = mark
                self._taken.add(mark.letter)
        return mark

    def _colour(self, name: str) -> str:
        used = Counter(mark.colour for mark in self._marks.values())
        own = crc32(name.encode(errors="replace")) % len(_COLOURS)
        return min(_COLOURS[own:] + _COLOURS[:own], key=lambda colour: used[colour])

    def _letter(self, name: str) -> str:
        own = [letter for letter in name if letter in ascii_letters]
        wanted = [*map(str.lower, own), *map(str.upper, own), *ascii_letters, *digits]
        return next((letter for letter in wanted if letter not in self._taken), "?")

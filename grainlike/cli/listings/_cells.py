"""Cells of a table: how narrow one may be, and its lines in a width. No number is ever broken."""

from __future__ import annotations

import re
from itertools import accumulate

__all__ = ["breadth", "cell_lines", "least_breadth"]

_ELLIPSIS = "…"

_NAME = 12
"""Characters that are left of a long word."""

_PROSE = 20
"""Characters of a line of text with several words."""

_MOST_LINES = 4
"""Lines of one cell; the rest of a long text is left out."""

_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:[.:]\d+)*")


def breadth(text: str) -> int:
    """Return how many places of a terminal `text` takes; of East Asian letters each takes two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # most listings have no such letters

    return int(cell_len(text))


def least_breadth(text: str) -> int:
    """Return the least width in which `text` can be shown with its numbers whole."""
    whole = breadth(text)
    numbers = max((len(found) + 2 for found in _NUMBER.findall(text)), default=0)
    return min(whole, max(_PROSE if " " in text else _NAME, numbers))


def cell_lines(text: str, width: int, most: int = _MOST_LINES) -> list[str]:
    """Return `text` in `most` lines of this width: broken at blanks, and long words cut in the middle.

    Example::

        >>> cell_lines("cores=4 memory=8Gi", 12)
        ['cores=4', 'memory=8Gi']
        >>> cell_lines("a-very-long-name-17", 12)
        ['a-very…me-17']
    """
    if breadth(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split():
        shown = _cut(word, width)
        if lines and breadth(lines[-1]) + 1 + breadth(shown) <= width:
            lines[-1] += f" {shown}"
        else:
            lines.append(shown)
    if len(lines) > most:
        lines[most - 1 :] = [_ended(lines[most - 1], width)]
    return lines


def _ended(line: str, width: int) -> str:
    """Return the last line of a text that goes on."""
    while breadth(line) >= width and " " in line:
        line = line.rpartition(" ")[0]
    return f"{line}{_ELLIPSIS}" if breadth(line) < width else f"{_outside_numbers(line, width - 1)}{_ELLIPSIS}"


def _cut(word: str, width: int) -> str:
    """Return a word with its middle left out, where it is too long."""
    if breadth(word) <= width:
        return word
    half = width // 2
    front = _outside_numbers(word, half)
    back = _outside_numbers(word[::-1], width - 1 - half)[::-1]
    return f"{front}{_ELLIPSIS}{back}"


def _outside_numbers(word: str, width: int) -> str:
    """Return the beginning of `word` in this width, without a number that would not be whole."""
    at = sum(1 for end in accumulate(map(breadth, word)) if end <= width)
    for number in _NUMBER.finditer(word):
        if number.start() < at < number.end():
            return word[: number.start()]
    return word[:at]

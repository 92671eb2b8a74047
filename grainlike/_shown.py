"""Values and arguments as short text, as far as they can be told without running code of users, and their sizes.

Values of exactly the built-in types are shown, of others the name of the type: their `__repr__` may raise or take long.
Only the beginning of anything large is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

__all__ = ["bytes_text", "shortened", "shown_arguments", "shown_name"]

_MOST_NAME = 40
_MOST_TEXT = 20
"""Characters, or bytes, of one argument."""

_MOST_GIVEN = 200
"""Characters of a path or an address in an error."""

_MOST_ITEMS = 3
"""Items of a container, and arguments by position and by keyword."""

_DEEPEST = 2
_MOST_BITS = 128

_NAME: Any = type.__dict__["__name__"]
"""A class's own name: its metaclass may have made a property of the attribute."""

_STEPS = ((10**9, "GB"), (10**6, "MB"), (10**3, "KB"))

_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}

Show = Callable[[Any], str]


def shown_arguments(args: tuple[Any, ...], kwargs: Mapping[str, Any], others: Mapping[type, Show] | None = None) -> str:
    """Return the arguments of a call in parentheses, in one line of some 60 characters; `others` show values of types
    that are not built in.

    >>> shown_arguments((3, "abc"), {"k": [1, 2, 3, 4]})
    "(3, 'abc', k=[1, 2, 3, …])"
    """
    show = _Values(others or {})
    words = [show(value) for value in islice(args, _MOST_ITEMS)]
    words += [f"{shown_name(key)}={show(value)}" for key, value in islice(kwargs.items(), _MOST_ITEMS)]
    if len(args) > _MOST_ITEMS or len(kwargs) > _MOST_ITEMS:
        words.append("…")
    return f"({_cut(', '.join(words), 3 * _MOST_TEXT)})"


def shown_name(name: str) -> str:
    """Return a name in one line of at most 40 characters."""
    return _cut(" ".join(name.split()), _MOST_NAME)


def shortened(text: str) -> str:
    """Return a text that somebody gave, as a path or an address, with at most 200 characters.

    >>> shortened("tcp://127.0.0.1:4711")
    'tcp://127.0.0.1:4711'
    """
    return _cut(text, _MOST_GIVEN)


def bytes_text(size: int) -> str:
    """Return a number of bytes with its unit, such as 50 MB, or 2.1 GB."""
    for least, unit in _STEPS:
        if size >= least:
            return f"{size / least:.2g} {unit}" if size < 10 * least else f"{size / least:.0f} {unit}"
    return f"{size} bytes"


class _Values:
    """Values as text; those of types in `others` as it shows them."""

    def __init__(self, others: Mapping[type, Show]) -> None:
        self._others = others

    def __call__(self, value: Any, depth: int = 0) -> str:
        """Return a value as text that is this deep in others."""
        kind = type(value)
        show = self._others.get(kind) or _SHOWN.get(kind)
        if show is not None:
            return show(value)
        if kind is dict:
            return _items(value.items(), len(value), "{}", depth, lambda item: self._pair(item, depth))
        brackets = _BRACKETS.get(kind)
        if brackets is not None:
            return _items(value, len(value), brackets, depth, lambda item: self(item, depth + 1))
        return f"<{shown_name(_NAME.__get__(kind))}>"

    def _pair(self, item: tuple[Any, Any], depth: int) -> str:
        return f"{self(item[0], depth + 1)}: {self(item[1], depth + 1)}"


def _items(values: Iterable[Any], count: int, brackets: str, depth: int, show: Show) -> str:
    words = [show(value) for value in islice(values, 0 if depth >= _DEEPEST else _MOST_ITEMS)]
    if count > len(words):
        words.append("…")
    return f"{brackets[0]}{', '.join(words)}{brackets[1]}"


def _integer(value: int) -> str:
    return repr(value) if value.bit_length() <= _MOST_BITS else f"<int of {value.bit_length()} bits>"


def _text(value: str | bytes) -> str:
    return repr(value) if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]!r}…"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


_SHOWN: dict[type, Show] = {
    int: _integer,
    str: _text,
    bytes: _text,
    float: repr,
    complex: repr,
    bool: repr,
    type(None): repr,
}

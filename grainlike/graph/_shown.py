"""Calls as short text: the function with its arguments, as far as they can be told without running anybody's code.

Values of exactly the built-in types are shown, of others the name of the type: their `__repr__` may raise or take long.
Only the beginning of anything large is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from grainlike.graph._node import Node, Template
from grainlike.graph._state import RunsIn

__all__ = ["shown_call", "shown_name"]

_MOST_NAME = 40
_MOST_TEXT = 20
"""Characters, or bytes, of one argument."""

_MOST_ITEMS = 3
"""Items of a container, and arguments by position and by keyword."""

_DEEPEST = 2
_MOST_BITS = 128

_NAME: Any = type.__dict__["__name__"]
"""A class's own name: its metaclass may have made a property of the attribute."""

_BRACKETS: dict[type, str] = {list: "[]", tuple: "()", set: "{}", frozenset: "{}"}


def shown_call(node: Node) -> str:
    """Return name and arguments of the call of a node, in at most some 100 characters of one line.

    Operations on placeholders, and calls that have ended and let go of their arguments, are shown by their name alone.
    """
    name = shown_name(node.function.name)
    if node.finished or node.place is RunsIn.INLINE:
        return name
    sent = node.place is RunsIn.REMOTE and node.record is not None
    given = node.record.arguments() if sent and node.record is not None else node.given
    if given is None:
        return f"{name}(…)"
    args, kwargs = given
    words = [_shown(value) for value in islice(args, _MOST_ITEMS)]
    words += [f"{shown_name(key)}={_shown(value)}" for key, value in islice(kwargs.items(), _MOST_ITEMS)]
    if len(args) > _MOST_ITEMS or len(kwargs) > _MOST_ITEMS:
        words.append("…")
    return f"{name}({_cut(', '.join(words), 3 * _MOST_TEXT)})"


def shown_name(name: str) -> str:
    """Return a name in one line of at most 40 characters."""
    return _cut(" ".join(name.split()), _MOST_NAME)


def _shown(value: Any, depth: int = 0) -> str:
    kind = type(value)
    if kind is Node:
        return f"{shown_name(value.function.name)}(…)"
    if kind is Template:  # a container with placeholders
        return "[…]"
    show = _SHOWN.get(kind)
    if show is not None:
        return show(value)
    if kind is dict:
        return _items(value.items(), len(value), "{}", depth, lambda item: _pair(item, depth))
    brackets = _BRACKETS.get(kind)
    if brackets is not None:
        return _items(value, len(value), brackets, depth, lambda item: _shown(item, depth + 1))
    return f"<{shown_name(_NAME.__get__(kind))}>"


def _pair(item: tuple[Any, Any], depth: int) -> str:
    return f"{_shown(item[0], depth + 1)}: {_shown(item[1], depth + 1)}"


def _items(values: Iterable[Any], count: int, brackets: str, depth: int, show: Callable[[Any], str]) -> str:
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


_SHOWN: dict[type, Callable[[Any], str]] = {
    int: _integer,
    str: _text,
    bytes: _text,
    float: repr,
    complex: repr,
    bool: repr,
    type(None): repr,
}

"""Calls as short text: the function with its arguments, as far as they can be told without running code of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grainlike._shown import shown_arguments, shown_name
from grainlike.graph._node import Node, Template
from grainlike.graph._state import RunsIn

__all__ = ["shown_call"]


def shown_call(node: Node) -> str:
    """Return name and arguments of the call of a node, in at most some 100 characters of one line.

    Operations on placeholders, and calls that have ended and let go of their arguments, are shown by their name alone.
    """
    name = shown_name(node.function.name)
    if node.finished or node.place is RunsIn.INLINE:
        return name
    sent = node.place is RunsIn.REMOTE and node.record is not None
    given = node.record.arguments() if sent and node.record is not None else node.given
    return f"{name}(…)" if given is None else name + shown_arguments(*given, _PLACEHOLDERS)


def _node(value: Node) -> str:
    return f"{shown_name(value.function.name)}(…)"


def _template(_: Template) -> str:
    return "[…]"  # a container with placeholders


_PLACEHOLDERS: dict[type, Callable[[Any], str]] = {Node: _node, Template: _template}

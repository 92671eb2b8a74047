"""Functions that are measured. They do nothing, so that only the system's own cost is measured."""

from __future__ import annotations

from typing import Any

__all__ = ["add", "echo", "identity", "increment"]


def identity(x: int) -> int:
    """Return the argument."""
    return x


def increment(x: int) -> int:
    """Return the argument plus one: a link of a chain."""
    return x + 1


def add(pair: tuple[int, int]) -> int:
    """Return the sum of a pair: a node of a tree."""
    return pair[0] + pair[1]


def echo(data: Any) -> Any:
    """Return the argument, which may be large."""
    return data

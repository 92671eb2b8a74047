"""The functions that are measured. They do nothing, so that what is measured is everything else."""

from __future__ import annotations

from typing import Any

__all__ = ["add", "echo", "identity", "increment"]


def identity(x: int) -> int:
    """No work at all."""
    return x


def increment(x: int) -> int:
    """A link of a chain."""
    return x + 1


def add(pair: tuple[int, int]) -> int:
    """A node of a tree."""
    return pair[0] + pair[1]


def echo(data: Any) -> Any:
    """There and back again."""
    return data

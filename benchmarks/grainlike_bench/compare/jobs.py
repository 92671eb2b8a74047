"""Functions that are measured. All but `compute` do nothing, so that only the system's own cost is measured."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["COMPUTE_S", "add", "compute", "echo", "identity", "increment"]

COMPUTE_S = 0.005
"""Seconds of CPU time that `compute` takes."""


def identity(x: int) -> int:
    """Return the argument."""
    return x


def compute(x: int) -> int:
    """Return the argument after 5 ms of CPU time: a short job of real work."""
    end = time.thread_time() + COMPUTE_S
    while time.thread_time() < end:
        pass
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

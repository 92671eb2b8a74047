"""Calls of the tests of programs' own arguments, for processes that import nothing else of the tests."""

from __future__ import annotations

import numpy as np

from grainlike import GVAR, delayed

__all__ = ["entered", "made", "sum_of", "total", "totals"]


@delayed
def total(array: np.ndarray, at: int = 0) -> tuple[str, float]:
    return GVAR.instance, float(array.sum())


@delayed
def made():
    return np.full(20_000, 2.0)


@delayed
def totals(array, *others):
    return GVAR.instance, float(array.sum()) + sum(float(other.sum()) for other in others)


@delayed
def sum_of(given) -> float:
    return float(sum(given) if isinstance(given, list | bytes) else given.sum())


@delayed
def entered(array: np.ndarray, go_on: str) -> float:
    """Return the sum once somebody writes to the pipe."""
    with open(go_on, "rb", buffering=0) as pipe:  # noqa: PTH123 - a text
        pipe.read(1)
    return float(array.sum())

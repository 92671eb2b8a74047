"""Calls of the tests of graphs that heads have, for processes that import nothing else of the tests."""

from __future__ import annotations

import numpy as np

from grainlike import delayed

__all__ = ["add", "big", "fails", "never", "step", "total"]


@delayed
def step(visit, x, at):
    if x == at:
        visit(x)
    return x + 1


@delayed
async def add(x, y=1):
    return x + y


@delayed
def fails(visit, x):
    visit("fails")
    raise ArithmeticError(f"not of {x}")


@delayed
def never(*_):
    raise AssertionError("it was cancelled")


@delayed
def big(visit, size):
    visit("big")
    return np.arange(size)


@delayed
def total(array, more=0):
    return int(array.sum()) + more

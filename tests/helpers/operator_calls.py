"""Calls of the tests of operators on large values, for processes that import nothing else of the tests."""

from __future__ import annotations

import numpy as np

from grainlike import delayed

__all__ = ["column", "halves", "show"]


@delayed
def column(rows: int) -> np.ndarray:
    return np.arange(rows, dtype=float).reshape(-1, 2)


@delayed
def show(*values: object) -> str:
    return " ".join(map(str, values))


@delayed(nout=2)
def halves(size: int) -> tuple[bytes, bytes]:
    return b"l" * size, b"r" * size

"""The pool that stays open between calls of joblib and Dask: to open one takes longer than many a `Parallel`."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from grainlike.adapters._pool import GrainlikePool
from grainlike.context import this_job
from grainlike.resources import Request

__all__ = ["IDLE_S", "borrow", "borrowed", "give_back"]

IDLE_S = 300.0
"""Seconds that an unused pool stays open; as long as loky's."""

_lock = threading.Lock()
_idle: list[tuple[int, Mapping[str, Any], GrainlikePool]] = []
"""At most one: the process that opened it, its options, and the pool."""


def borrow(options: Mapping[str, Any]) -> GrainlikePool:
    """Return the pool that was given back last if it has these options, else a new one; it is the caller's alone.

    Raises:
        Whatever `GrainlikePool` raises.
    """
    with _lock:
        found, _idle[:] = list(_idle), []
    for pid, its_options, pool in found:
        if pid == os.getpid():
            if _same(options, its_options) and pool.keep_open():
                return pool
            pool.shutdown()
    return GrainlikePool(**options)


def give_back(options: Mapping[str, Any], pool: GrainlikePool) -> None:
    """Keep a pool for the next borrower with the same options, for `IDLE_S`.

    In a job it is closed instead: what a job has started ends with it.
    """
    with _lock:
        kept = not _idle and this_job() is None and pool.end_when_idle(IDLE_S)
        if kept:
            _idle.append((os.getpid(), options, pool))
    if not kept:
        pool.shutdown(cancel_futures=True)


@contextmanager
def borrowed(options: Mapping[str, Any]) -> Iterator[GrainlikePool]:
    """Borrow a pool for a block."""
    pool = borrow(options)
    try:
        yield pool
    finally:
        give_back(options, pool)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(_equal(value, other[name]) for name, value in one.items())


def _equal(one: object, other: object) -> bool:
    """Return True if both are equal, or the same object: a comparison of users' objects, as arrays, may give no truth
    value.
    """
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and isinstance(one, str | int | float | Request | os.PathLike) and one == other

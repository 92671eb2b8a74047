"""Judge's sums of the bytes that workers with limits have.

Raises `AssertionError` when one of these promises is broken:

1. A worker has no more bytes of values than its store may hold, but for what jobs there gave beyond it: one output for
   each core, or as much as it may exceed its limit by. A copy never is what exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

__all__ = ["StoredBytes"]


class StoredBytes:
    """Bytes at each worker with a limit, whether the head knows the worker or not. `size_of` is a value's size, and
    `replicas(worker)` returns what a worker has, as values and attempts.
    """

    def __init__(self, size_of: Callable[[int], int], replicas: Callable[[int], Collection[tuple[int, int]]]) -> None:
        self._size_of = size_of
        self._replicas = replicas
        self._limits: dict[int, tuple[int, int | None, int]] = {}
        """Bytes that each worker may keep, and may have beyond that where that is limited, and its cores."""
        self._outputs: set[tuple[int, int, int]] = set()
        """Worker, value and attempt of all that jobs gave where they ran."""

    def limited(self, worker: int, store: int, overdraft: int | None, *, cores: int) -> None:
        """Record how much a worker may have."""
        self._limits[worker] = store, overdraft, cores

    def stored(self, worker: int, value: int, attempt: int, *, is_output: bool) -> None:
        """Check that a worker may have what it has, with a replica that has just come."""
        if is_output:
            self._outputs.add((worker, value, attempt))
        if worker not in self._limits:
            return
        store, overdraft, cores = self._limits[worker]
        here = self._replicas(worker)
        total = sum(self._size_of(number) for number, _ in here)
        given = sorted((self._size_of(row[0]) for row in here if (worker, *row) in self._outputs), reverse=True)
        beyond = sum(given[:cores]) if overdraft is None else min(overdraft, sum(given))
        assert total <= store + beyond, f"worker {worker} has {total} bytes, and may have {store} and {beyond} beyond"

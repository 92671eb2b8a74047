"""`Timeline`: what a pool had given out and had left, each time that something changed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

__all__ = ["Amounts", "Snapshot", "Timeline"]

Amounts: TypeAlias = "dict[str, int | Decimal]"

KEPT = 10_000
"""Number of snapshots that are kept: a pool may live for months."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pool at one moment.

    Attributes:
        timestamp: seconds since the epoch; never earlier than that of the snapshot before.
        event: `"acquire"`, `"release"`, `"reserve"`, `"relinquish"`, `"count"`, or an event of `record`.
        name: name of the acquirer, from `name=`; empty without one.
        allocated: amounts in use just after the event, over all names of the pool.
        available: amounts left just after the event, over all names of the pool.
    """

    timestamp: float
    event: str
    name: str
    allocated: Amounts
    available: Amounts


class Timeline:
    """The history of one pool: the last 10 000 snapshots, and peaks over its whole life.

    Example:
        >>> from grainlike import ResourcePool
        >>> pool = ResourcePool({"gpu": 4})
        >>> allocation = pool.try_acquire({"gpu": 3}, name="train")
        >>> pool.release(allocation)
        >>> [(s.event, s.name, s.allocated["gpu"]) for s in pool.timeline.snapshots]
        [('acquire', 'train', 3), ('release', 'train', 0)]
        >>> pool.timeline.peak_utilization()
        {'gpu': 0.75}
    """

    def __init__(self, capacities: Amounts, read: Callable[[], tuple[Amounts, Amounts]]) -> None:
        """Make an empty timeline; `read` returns what is allocated and available now."""
        self._capacities = capacities
        self._read = read
        self._snapshots: deque[Snapshot] = deque(maxlen=KEPT)
        self._peaks: Amounts = dict.fromkeys(capacities, 0)
        # Wall-clock time that cannot go back: it is looked at once, and counted on from there.
        self._epoch = time.time() - time.monotonic()

    @property
    def snapshots(self) -> list[Snapshot]:
        """The last 10 000 snapshots, oldest first."""
        return list(self._snapshots)

    def record(self, event: str = "record", name: str = "") -> Snapshot:
        """Take a snapshot of the pool as it is now, keep it, and return it.

        Example::

            pool.timeline.record("checkpoint", "epoch 3")
        """
        allocated, available = self._read()
        snapshot = Snapshot(self._epoch + time.monotonic(), event, name, allocated, available)
        self._snapshots.append(snapshot)
        for resource, amount in allocated.items():
            if amount > self._peaks[resource]:
                self._peaks[resource] = amount
        return snapshot

    def peak_utilization(self) -> dict[str, float]:
        """The most that was ever in use at one moment, for each resource, as a fraction of its capacity from 0 to 1."""
        return {name: _fraction(peak, self._capacities[name]) for name, peak in self._peaks.items()}


def _fraction(peak: int | Decimal, capacity: int | Decimal) -> float:
    # Usage callbacks may report more than there is; a capacity of zero is never used.
    return min(1.0, float(peak) / float(capacity)) if capacity else 0.0

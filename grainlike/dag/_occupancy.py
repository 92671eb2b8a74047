"""Slots that the jobs of one run hold, and the most that they held at one moment."""

from __future__ import annotations

from collections.abc import Collection

from grainlike.jobs import Lease
from grainlike.resources import UNIT, Allocation

__all__ = ["Occupancy"]


_Slot = tuple[int, str, int]
"""Key of one core or one device of a worker: (worker number, resource name, id)."""


class Occupancy:
    """The leases of a run's jobs, in the order in which workers granted them.

    A report lists leases begun before those ended, though one of the latter may have made room for one of the former.
    The ids show it: a lease on a core that another held comes after the other.
    """

    def __init__(self) -> None:
        self._held: dict[Lease, Allocation] = {}
        self._holders: dict[_Slot, Lease] = {}
        self._used: dict[str, int] = {}
        self._offers: dict[int, Allocation] = {}
        self._there: dict[str, int] = {}
        self._most: dict[str, float] = {}

    def offer(self, worker: int, offer: Allocation | None) -> None:
        """Set a worker's offer; None when the worker has left."""
        if offer is not None:
            self._offers[worker] = offer
        elif self._offers.pop(worker, None) is not None:
            for lease in [lease for lease in self._held if lease[0] == worker]:
                self.give(lease)
        self._there = {}
        for one in self._offers.values():
            for name, units in one.units.items():
                self._there[name] = self._there.get(name, 0) + units
                self._most.setdefault(name, 0.0)

    def take(self, lease: Lease, allocation: Allocation, ended: Collection[int]) -> None:
        """Record that a lease of one of the run's jobs began; the same report lists the leases in `ended`.

        One that was held for a gang begins again when its job runs there.
        """
        if lease in self._held:
            return
        worker = lease[0]
        for slot in _slots(worker, allocation):
            before = self._holders.get(slot)
            if before is not None and before[1] in ended:
                self.give(before)
            self._holders[slot] = lease
        self._held[lease] = allocation
        for name, units in allocation.units.items():
            self._used[name] = used = self._used.get(name, 0) + units
            there = self._there.get(name, 0)
            if there:
                self._most[name] = max(self._most.get(name, 0.0), min(1.0, used / there))

    def give(self, lease: Lease) -> None:
        """A lease has ended; one that is not the run's is passed over."""
        allocation = self._held.pop(lease, None)
        if allocation is None:
            return
        for name, units in allocation.units.items():
            self._used[name] -= units
        for slot in _slots(lease[0], allocation):
            if self._holders.get(slot) == lease:
                del self._holders[slot]

    def peaks(self) -> dict[str, float]:
        """Return for each resource that workers offered the largest part held at one moment, from 0 to 1."""
        return dict(sorted(self._most.items()))


def _slots(worker: int, allocation: Allocation) -> list[_Slot]:
    return [
        (worker, name, number)
        for name, ids in allocation.ids.items()
        if allocation.units[name] >= len(ids) * UNIT  # a share of a device may have others beside it
        for number in ids
    ]

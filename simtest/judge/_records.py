"""Judge's records of one node, independent of those of `grainlike.resources`: amounts, and the holder of each id."""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.resources import Allocation, Request
from simtest.judge._device_records import DeviceRecords

__all__ = ["NodeRecords"]

_WHOLE = 1_000_000_000


class NodeRecords:
    """Grants of a node, by lease."""

    def __init__(self, offer: Allocation) -> None:
        self.offer = offer
        self._capacity = dict(offer.units)
        self._ids = {name: dict.fromkeys(ids, 0) for name, ids in offer.ids.items()}
        self._used = dict.fromkeys(self._capacity, 0)
        self._leases: dict[int, Allocation] = {}
        self.devices = DeviceRecords()

    def fits_ever(self, request: Request) -> bool:
        """Return True if the empty node, with all of its walltime left, could run it."""
        return any(self._could_run(option) for option in request.options)

    def _could_run(self, option: Request) -> bool:
        if not set(option.tokens) <= set(self.offer.tokens):
            return False
        if (option.walltime_soft or 0.0) > (self.offer.walltime or float("inf")):
            return False
        return all(self._capacity.get(name, 0) >= units for name, units in option.units.items())

    def fits_beside(self, held: Iterable[Allocation], request: Request) -> bool:
        """Return True if the node could run it if only `held` were granted."""
        left = dict(self._capacity)
        for allocation in held:
            for name, units in allocation.units.items():
                left[name] -= units
        return all(left.get(name, 0) >= units for name, units in request.units.items())

    def take(self, lease: int, allocation: Allocation) -> None:
        """Record a grant, and check that it is free."""
        assert lease not in self._leases, f"lease {lease} was granted twice"
        self._leases[lease] = allocation
        self._count(allocation, 1)
        for name, used in self._used.items():
            assert used <= self._capacity[name], f"{name}: {used} granted of {self._capacity[name]}"
        for name, devices in self._ids.items():
            for number, used in devices.items():
                assert used <= _WHOLE, f"{name} {number} was granted twice"

    def change(self, lease: int, allocation: Allocation) -> None:
        """Replace the grant of a lease that lends cores, or has them again."""
        self.give(lease)
        self.take(lease, allocation)

    def give(self, lease: int) -> None:
        """Record the end of a grant."""
        self._count(self._leases.pop(lease), -1)

    def _count(self, allocation: Allocation, sign: int) -> None:
        for name, units in allocation.units.items():
            self._used[name] += sign * units
        for name, ids in allocation.ids.items():
            share = allocation.units[name] // len(ids)
            for number in ids:
                assert number in self._ids[name], f"{name} {number} does not exist"
                self._ids[name][number] += sign * share

    def check_empty(self, worker: int) -> None:
        """Check that nothing is granted."""
        assert not self._leases, f"worker {worker} is idle and holds {list(self._leases)}"
        assert not any(self._used.values()), f"worker {worker} is idle, and {self._used} counts as used"

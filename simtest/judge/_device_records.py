"""Judge's records of the devices of one node: what processes may hold of their memory, from their first job on a device
until they are gone.
"""

from __future__ import annotations

from grainlike.resources import Allocation

__all__ = ["DeviceRecords"]

_WHOLE = 1_000_000_000


class DeviceRecords:
    """Shares of each device that leases and holds have, and those that processes without a lease had last."""

    def __init__(self) -> None:
        self._granted: dict[int, dict[int, int]] = {}
        self._processes: dict[int, dict[int, int]] = {}
        self._lease_of: dict[int, int] = {}
        self._dead: set[int] = set()

    def granted(self, lease: int, runner: int, allocation: Allocation, *, fresh: bool) -> None:
        """Record that a process is given a lease, and check that no other holds the memory of its devices."""
        shares, before = _shares(allocation), self._processes.get(runner, {})
        if not shares:
            assert not before, "a job without devices took the process of one that had some"
            return
        assert fresh or before in ({}, shares), f"a process that had {before} begins a job on {shares} as it is"
        beyond = [device for device, held in before.items() if held > shares.get(device, 0)]
        assert not beyond, f"devices {beyond} are free while a process that is to be replaced holds their memory"
        if runner not in self._dead:  # its node may not know that yet
            self._processes[runner] = shares
            self._lease_of[runner] = lease
        self.held(lease, allocation)

    def held(self, lease: int, allocation: Allocation) -> None:
        """Record a grant, and check that what is left of its devices is not held by processes without a lease."""
        self._granted[lease] = _shares(allocation)
        for device in self._granted[lease]:
            granted = sum(shares.get(device, 0) for shares in self._granted.values())
            idle = [shares for runner, shares in self._processes.items() if runner not in self._lease_of]
            kept = sum(shares.get(device, 0) for shares in idle)
            assert granted + kept <= _WHOLE, f"{kept} of device {device} is held by idle processes, {granted} granted"

    def freed(self, lease: int) -> None:
        """Record the end of a grant; its process lives on without one."""
        self._granted.pop(lease, None)
        self._lease_of = {runner: number for runner, number in self._lease_of.items() if number != lease}

    def died(self, runner: int) -> None:
        """Record that a process is gone."""
        self._dead.add(runner)
        self._processes.pop(runner, None)
        self._lease_of.pop(runner, None)


def _shares(allocation: Allocation) -> dict[int, int]:
    devices = allocation.gpus
    return {device: allocation.units["gpus"] // len(devices) for device in devices}

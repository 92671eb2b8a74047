"""Records of a store: its replicas, in the order of their last use, and the bytes that they take in each tier."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from grainlike.scheduler.store._events import Replica, Tier

__all__ = ["StoreRecords", "StoredReplica"]


class StoredReplica:
    """Record of a replica, or of the room for one.

    Attributes:
        uses: number of jobs and copies that use it now.
        is_spilling: True while it is copied to scratch, where its room is taken already.
        is_stuck: True if it could not be copied to scratch; it is not tried again.
        is_left: True if a copy that broke off has left it, not whole.
        is_found: True if it came into shared memory without asking for room, so that it may exceed the budget.
    """

    __slots__ = (
        "is_found", "is_left", "is_spare", "is_spilling", "is_stuck", "is_whole", "name", "size", "tier", "uses",
    )  # fmt: skip

    def __init__(self, name: Replica, size: int, tier: Tier) -> None:
        self.name: Replica = name
        self.size: int = size
        self.tier: Tier = tier
        self.uses: int = 0
        self.is_whole: bool = False
        self.is_left: bool = False
        self.is_spare: bool = False
        self.is_spilling: bool = False
        self.is_stuck: bool = False
        self.is_found: bool = False


class StoreRecords:
    """Replicas by name, and bytes by tier. A replica that is being spilled counts in both tiers.

    Example::

        records = StoreRecords()
        records.add(StoredReplica((7, 1), 200_000, Tier.MEMORY))
        records.memory                                               # 200000
    """

    __slots__ = ("_lines", "_users", "memory", "overdrafts", "replicas", "scratch", "spilling")

    def __init__(self) -> None:
        self.replicas: dict[Replica, StoredReplica] = {}
        self.memory: int = 0
        self.scratch: int = 0
        self.spilling: int = 0
        """Bytes in shared memory and in scratch, including rooms that are not written yet; and bytes being spilled."""
        self.overdrafts: dict[Replica, None] = {}
        """Outputs in shared memory that had room only beyond the budget, and are not paid back, in order."""
        self._lines: dict[tuple[Tier, bool], dict[Replica, StoredReplica]] = {
            (tier, is_spare): {} for tier in Tier for is_spare in (False, True)
        }
        """Replicas by tier and whether they are spare, least recently used first."""
        self._users: Counter[Replica] = Counter()
        """Number of uses by name, whether or not the replica is here: one may come after its use has begun, or come
        again after it was damaged.
        """

    def add(self, replica: StoredReplica) -> None:
        """Add a replica, or the room for one."""
        replica.uses = self._users[replica.name]
        self.replicas[replica.name] = replica
        self._count(replica, replica.size)
        self._line(replica)[replica.name] = replica

    def use(self, names: Iterable[Replica], count: int) -> None:
        """Add so many uses of these replicas, or take them off."""
        for name in names:
            self._users[name] += count
            replica = self.replicas.get(name)
            if replica is not None:
                replica.uses = self._users[name]
                self.touch(replica)
            if not self._users[name]:
                del self._users[name]

    def remove(self, replica: StoredReplica) -> None:
        """Remove a replica. The room in scratch of a spill under way stays taken until `end_spill`."""
        del self.replicas[replica.name], self._line(replica)[replica.name]
        self._count(replica, -replica.size)
        self.overdrafts.pop(replica.name, None)

    def touch(self, replica: StoredReplica, *, is_spare: bool | None = None) -> None:
        """Record a use of a replica, or that it has become spare, or is spare no more."""
        del self._line(replica)[replica.name]
        if is_spare is not None:
            replica.is_spare = is_spare
        self._line(replica)[replica.name] = replica

    def begin_spill(self, replica: StoredReplica) -> None:
        """Take room in scratch for a replica that is in shared memory."""
        replica.is_spilling = True
        self.scratch += replica.size
        self.spilling += replica.size

    def end_spill(self, replica: StoredReplica, *, is_kept: bool) -> None:
        """End a spill: the replica is in scratch now, or the room there is free again."""
        self.scratch -= replica.size
        if self.replicas.get(replica.name) is not replica:
            return
        self.spilling -= replica.size
        replica.is_spilling = False
        if is_kept:
            self.remove(replica)
            replica.tier = Tier.SCRATCH
            self.add(replica)

    def idle(self, tier: Tier, *, is_spare: bool) -> Iterator[StoredReplica]:
        """Iterate over the unused replicas of a tier, spare ones or others, the least recently used first. Unfinished
        copies are among the spare ones.
        """
        for replica in list(self._lines[tier, is_spare].values()):
            if (replica.is_whole or replica.is_left) and not replica.uses and not replica.is_spilling:
                yield replica

    def _line(self, replica: StoredReplica) -> dict[Replica, StoredReplica]:
        return self._lines[replica.tier, replica.is_spare]

    def _count(self, replica: StoredReplica, size: int) -> None:
        if replica.tier is Tier.SCRATCH:
            self.scratch += size
            return
        self.memory += size
        if replica.is_spilling:
            self.spilling += size

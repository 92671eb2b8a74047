"""Store scheduler: in which tier the bytes of a replica are written, and which replicas are evicted or spilled for
them.

Room is the first of these that there is: free budget of shared memory; the room of spare replicas without users; the
room of other replicas, once they are copied to scratch; scratch itself. An output may also exceed the budget of shared
memory, one for each slot, while a tenth of the machine's memory is free: an *overdraft*.

While there are overdrafts, an output without room waits until bytes are free, and copies are refused. The output is
refused once `PAYBACK_S` have passed since it asked, since the bytes here last reached a new minimum, and since each of
the leases that computed with replicas when it asked has ended or waits. So no wait lasts for ever:

- Each new minimum is lower by a byte at least, so only finitely many prolong a wait.
- A lease counts only while its jobs wait neither for room nor for jobs of their own; so two outputs never wait for each
  other, nor one for a job whose children need its cores. Leases that begin later do not count, so readers that follow
  each other do not prolong a wait.
- Others wait only for copies to scratch, and those end.

"Least recently used" is an order: time plays no other part.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from collections.abc import Set as AbstractSet

from grainlike.scheduler.store._events import (
    CopyLeft,
    EvictReplica,
    GiveRoom,
    LookAt,
    MemoryFree,
    MemoryGranted,
    PaybackDue,
    RefuseRoom,
    Replica,
    ReplicaFound,
    ReplicasRemoved,
    ReplicasUnused,
    ReplicasUsed,
    ReplicaWritten,
    RoomAsked,
    RoomReturned,
    RoomUnfit,
    ScratchLost,
    SpareTold,
    SpillDiscarded,
    SpillEnded,
    SpillKept,
    SpillReplica,
    StoreAction,
    StoreEvent,
    Tier,
)
from grainlike.scheduler.store._records import StoredReplica, StoreRecords

__all__ = ["PAYBACK_S", "StoreScheduler", "busy_leases"]

PAYBACK_S = 5.0
"""Seconds for which an output waits while nothing is freed, and nothing runs that could free any."""


def busy_leases(computing: Mapping[int, Iterable[int]], using: Container[int], waiting: AbstractSet[int]) -> list[int]:
    """Return the leases that use replicas and compute, as `RoomAsked` and `PaybackDue` report them.

    Args:
        computing: the jobs of each lease that does not wait for jobs of its own (`NodeScheduler.computing`).
        using: the leases that use replicas.
        waiting: the jobs that wait for room, or ask for it now.

    >>> busy_leases({1: [7], 2: [8], 3: [9]}, using={1, 2}, waiting={8})
    [1]
    """
    return [lease for lease, jobs in computing.items() if lease in using and waiting.isdisjoint(jobs)]


class _Ask:
    """Demand for room. It waits for spills at most once.

    Attributes:
        unfit: tiers that turned out to have no room.
        free: bytes of the machine's memory that are free beyond a tenth of it.
        due: time at which an output that waits for an overdraft is looked at; None if it never waited for one.
        busy: leases that may free something for it; at first those that computed here when it asked.
        lowest: fewest bytes in memory, and in scratch, since it began to wait.
    """

    __slots__ = ("busy", "due", "event", "free", "has_waited", "lowest", "unfit")

    def __init__(self, event: RoomAsked) -> None:
        self.event = event
        self.free = event.free
        self.has_waited = False
        self.unfit: set[Tier] = set()
        self.due: float | None = None
        self.busy: set[int] = set(event.busy)
        self.lowest: tuple[int, int] = (0, 0)


class StoreScheduler:
    """Room for the replicas of one worker: `memory` bytes of shared memory and `scratch` bytes of disk.

    `slots`: number of outputs that may exceed the budget. `machine`: memory that jobs and the store have in all; memory
    that is granted to jobs is not the store's. With 0, grants do not count.

    Example::

        store = StoreScheduler(memory=1 << 30, scratch=0, slots=2)
        store.handle(RoomAsked((7, 1), 200_000, is_output=True), now=0.0)  # [GiveRoom((7, 1), 200000, Tier.MEMORY)]
        store.handle(ReplicaWritten((7, 1)), now=0.1)                      # []
        store.records.memory                                               # 200000
    """

    __slots__ = (
        "_asks", "_given", "_granted", "_is_looking", "_late", "_machine", "_spills", "_uses", "memory", "records",
        "scratch", "slots",
    )  # fmt: skip

    def __init__(self, *, memory: int, scratch: int, slots: int, machine: int = 0) -> None:
        self.memory: int = memory
        self.scratch: int = scratch
        self.slots: int = slots
        self.records: StoreRecords = StoreRecords()
        self._machine = machine
        self._granted = 0
        self._asks: dict[Replica, _Ask] = {}
        """Demands that wait for spills, in order."""
        self._late: dict[Replica, _Ask] = {}
        """Outputs that wait until an overdraft is paid back, in order."""
        self._is_looking = False
        """True from a `LookAt` until its `PaybackDue`."""
        self._given: dict[Replica, _Ask] = {}
        """Demands that have room, until their replicas are whole."""
        self._spills: dict[Replica, StoredReplica] = {}
        self._uses: dict[int, list[Replica]] = {}
        """Replicas that each lease uses."""

    @property
    def limit(self) -> int:
        """Bytes of shared memory that the store may have now: its budget, less the memory that jobs need."""
        return max(0, min(self.memory, self._machine - self._granted)) if self._machine else self.memory

    @property
    def over(self) -> int:
        """Bytes by which outputs exceed the shared memory that the store may have."""
        return max(0, self.records.memory - self.limit) if self.records.overdrafts else 0

    @property
    def late(self) -> Collection[Replica]:
        """Outputs that wait until an overdraft is paid back."""
        return self._late.keys()

    def handle(self, event: StoreEvent, now: float) -> list[StoreAction]:
        """Take an event; return the actions, in order."""
        out: list[StoreAction] = []
        match event:
            case RoomAsked():
                if not self._goes_on(event, out):
                    self._forget(event.replica)
                    self._answer(_Ask(event), now, out)
            case RoomUnfit(replica=replica):
                self._unfit(replica, now, out)
            case RoomReturned(replica=replica):
                if replica in self._asks or replica in self._given or replica in self._late:
                    self._forget(replica)
            case CopyLeft(replica=replica):
                self._left(replica)
            case ReplicaWritten(replica=replica):
                if self._given.pop(replica, None) is not None:
                    self.records.replicas[replica].is_whole = True
                    self.records.touch(self.records.replicas[replica])
            case ReplicaFound():
                self._found(event)
            case ReplicasUsed(lease=lease, replicas=replicas):
                self._uses[lease] = replicas
                self.records.use(replicas, 1)
            case ReplicasUnused(lease=lease):
                self.records.use(self._uses.pop(lease, ()), -1)
            case ReplicasRemoved(replicas=replicas):
                for replica in replicas:
                    self._forget(replica)
            case SpareTold():
                for record in self._known(event.replicas):
                    if record.is_whole:
                        self.records.touch(record, is_spare=event.is_spare)
            case SpillEnded():
                self._spilled(event, out)
            case ScratchLost():
                self.scratch = 0
            case MemoryGranted(granted=granted):
                self._granted = granted
            case MemoryFree(free=free):
                for ask in self._late.values():
                    ask.free = free
                return out
            case PaybackDue(busy=busy):
                self._look(set(busy), now, out)
        self._settle(now, out)
        return out

    # --- demands -----------------------------------------------------------------------------------------------------

    def _answer(self, ask: _Ask, now: float, out: list[StoreAction]) -> None:
        """Give room, begin to make room, let an output wait, or refuse it."""
        event, size = ask.event, ask.event.size
        if (self.records.overdrafts or self._late) and not event.is_output:
            self._refuse(event, out)
            return
        if Tier.MEMORY not in ask.unfit:
            if self._fits(size) or self._evict(Tier.MEMORY, size, out):
                self._give(ask, Tier.MEMORY, out)
                return
            if not ask.has_waited and self._spill(size, out):
                self._asks[event.replica] = ask
                return
        if Tier.SCRATCH not in ask.unfit and self._has_scratch(size, out):
            self._give(ask, Tier.SCRATCH, out)
        elif Tier.MEMORY not in ask.unfit and self._may_exceed(ask):
            self._give(ask, Tier.MEMORY, out)
            self.records.overdrafts[event.replica] = None
        elif self._may_wait(ask):
            self._wait(ask, now)
        else:
            self._refuse(event, out)

    def _refuse(self, event: RoomAsked, out: list[StoreAction]) -> None:
        out.append(RefuseRoom(event.replica, event.size, self.memory, self.scratch))

    def _give(self, ask: _Ask, tier: Tier, out: list[StoreAction]) -> None:
        event = ask.event
        self._given[event.replica] = ask
        self.records.add(StoredReplica(event.replica, event.size, tier))
        out.append(GiveRoom(event.replica, event.size, tier))

    def _fits(self, size: int) -> bool:
        """Return True if `size` bytes of shared memory are free, and enough remains for demands that wait."""
        room = self.limit - self.records.memory
        return size <= min(room, room + self.records.spilling - self._waited_for())

    def _waited_for(self) -> int:
        return sum(ask.event.size for ask in self._asks.values())

    def _may_exceed(self, ask: _Ask) -> bool:
        """Return True if an output may have shared memory beyond the budget."""
        return ask.event.is_output and len(self.records.overdrafts) < self.slots and ask.event.size <= ask.free

    def _has_scratch(self, size: int, out: list[StoreAction]) -> bool:
        """Return True if `size` bytes of scratch are free, if need be after evicting spare replicas there."""
        return self.records.scratch + size <= self.scratch or self._evict(Tier.SCRATCH, size, out)

    def _unfit(self, replica: Replica, now: float, out: list[StoreAction]) -> None:
        ask = self._given.pop(replica, None)
        if ask is not None:
            record = self.records.replicas[replica]
            self.records.remove(record)
            ask.unfit.add(record.tier)
            self._answer(ask, now, out)

    # --- outputs that wait for overdrafts ----------------------------------------------------------------------------

    def _may_wait(self, ask: _Ask) -> bool:
        """Return True if an output may have room once bytes are freed. Only overdrafts let one begin to wait."""
        if not ask.event.is_output or Tier.MEMORY in ask.unfit:
            return False
        could_fit = ask.event.size <= max(self.memory, self.scratch, ask.free)
        return could_fit and (ask.due is not None or bool(self.records.overdrafts))

    def _wait(self, ask: _Ask, now: float) -> None:
        if ask.due is None:
            ask.due = now + PAYBACK_S
            ask.lowest = self.records.memory, self.records.scratch
        self._late[ask.event.replica] = ask

    def _look(self, busy: set[int], now: float, out: list[StoreAction]) -> None:
        """Refuse room to the outputs whose time has come, unless leases compute that may free some for them."""
        self._is_looking = False
        for replica, ask in list(self._late.items()):
            if ask.due is None or now < ask.due:
                continue
            were_busy, ask.busy = ask.busy, ask.busy & busy
            if were_busy:  # what they free may be known here only a while after their end
                ask.due = now + PAYBACK_S
            else:
                del self._late[replica]
                self._refuse(ask.event, out)

    def _serve_late(self, now: float, out: list[StoreAction]) -> None:
        """Give room to outputs that wait, in order; an output as large as an earlier one without room gets none."""
        memory, scratch = self.records.memory, self.records.scratch
        least: int | None = None
        late, self._late = self._late, {}
        for replica, ask in late.items():
            lowest = min(memory, ask.lowest[0]), min(scratch, ask.lowest[1])
            if lowest != ask.lowest:
                ask.lowest, ask.due = lowest, now + PAYBACK_S
            if least is None or ask.event.size < least:
                self._answer(ask, now, out)
                if replica in self._late:
                    least = ask.event.size
            else:
                self._late[replica] = ask
        due = min((ask.due for ask in self._late.values() if ask.due is not None), default=None)
        if due is not None and not self._is_looking:
            self._is_looking = True
            out.append(LookAt(due))

    # --- unfinished copies -------------------------------------------------------------------------------------------

    def _left(self, replica: Replica) -> None:
        if self._given.pop(replica, None) is not None:
            record = self.records.replicas[replica]
            record.is_left = True
            self.records.touch(record, is_spare=True)
        elif replica in self._asks:
            self._forget(replica)

    def _goes_on(self, event: RoomAsked, out: list[StoreAction]) -> bool:
        """Give a copy the room that an unfinished copy of the same replica has left, if there is one."""
        record = self.records.replicas.get(event.replica)
        if record is None or not record.is_left or record.size != event.size:
            return False
        record.is_left = False
        self.records.touch(record, is_spare=False)
        self._given[event.replica] = _Ask(event)
        out.append(GiveRoom(record.name, record.size, record.tier))
        return True

    # --- eviction and spills -----------------------------------------------------------------------------------------

    def _evict(self, tier: Tier, size: int, out: list[StoreAction]) -> bool:
        """Evict spare replicas so that `size` bytes of a tier are free. If they do not suffice, return False."""
        records = self.records
        if tier is Tier.MEMORY:
            lacking = records.memory + size + max(0, self._waited_for() - records.spilling) - self.limit
        else:
            lacking = records.scratch + size - self.scratch
            if size > self.scratch:
                return False
        spare, lacking = self._spare_for(tier, lacking)
        if lacking > 0:
            return False
        self._evict_all(spare, out)
        return True

    def _spare_for(self, tier: Tier, lacking: int) -> tuple[list[StoredReplica], int]:
        """Return the spare replicas of a tier to evict for `lacking` bytes, and how many bytes are lacking then."""
        chosen: list[StoredReplica] = []
        for spare in self.records.idle(tier, is_spare=True):
            if lacking <= 0:
                break
            chosen.append(spare)
            lacking -= spare.size
        return chosen, lacking

    def _evict_all(self, chosen: Iterable[StoredReplica], out: list[StoreAction]) -> None:
        for spare in chosen:
            self.records.remove(spare)
            out.append(EvictReplica(spare.name))

    def _spill(self, size: int, out: list[StoreAction]) -> bool:
        """Begin to free `size` bytes of shared memory: evict spare replicas, and copy others to scratch. If that is not
        enough, do nothing and return False.
        """
        records = self.records
        lacking = records.memory - records.spilling + self._waited_for() + size - self.limit
        spare, lacking = self._spare_for(Tier.MEMORY, lacking)
        others, room = self._to_spill(lacking)
        if lacking > room:
            return False
        self._evict_all(spare, out)
        self._begin_spills(others, out)
        return True

    def _to_spill(self, lacking: int) -> tuple[list[StoredReplica], int]:
        """Return the replicas to copy to scratch for `lacking` bytes, if scratch has room, and the bytes that this
        frees.
        """
        chosen: list[StoredReplica] = []
        freed = 0
        for one in self.records.idle(Tier.MEMORY, is_spare=False):
            if freed >= lacking:
                break
            if (
                not one.is_stuck
                and one.name not in self._spills
                and self.records.scratch + freed + one.size <= self.scratch
            ):
                chosen.append(one)
                freed += one.size
        return chosen, freed

    def _begin_spills(self, chosen: Iterable[StoredReplica], out: list[StoreAction]) -> None:
        for one in chosen:
            self.records.begin_spill(one)
            self._spills[one.name] = one
            out.append(SpillReplica(one.name, one.size))

    def _spilled(self, event: SpillEnded, out: list[StoreAction]) -> None:
        record = self._spills.pop(event.replica, None)
        if record is None:
            return
        is_here = self.records.replicas.get(record.name) is record
        is_kept = event.is_whole and is_here and not record.uses
        record.is_stuck = not event.is_whole
        self.records.end_spill(record, is_kept=is_kept)
        if event.is_whole:
            out.append(SpillKept(record.name) if is_kept else SpillDiscarded(record.name))

    # --- the end of a turn -------------------------------------------------------------------------------------------

    def _settle(self, now: float, out: list[StoreAction]) -> None:
        """Give room to demands that wait, and free the bytes that exceed the budget."""
        for replica, ask in list(self._asks.items()):
            if ask.event.size <= self.limit - self.records.memory:
                del self._asks[replica]
                self._give(ask, Tier.MEMORY, out)
            elif not self.records.spilling:  # the spills for it have ended, but freed less than expected
                del self._asks[replica]
                ask.has_waited = True
                self._answer(ask, now, out)
        records = self.records
        lacking = records.memory - records.spilling - self.limit
        if lacking > 0:
            spare, lacking = self._spare_for(Tier.MEMORY, lacking)
            self._evict_all(spare, out)
            self._begin_spills(self._to_spill(lacking)[0], out)
        if records.overdrafts:
            self._pay_back()
        if self._late:
            self._serve_late(now, out)

    def _pay_back(self) -> None:
        """Forget overdrafts, the oldest first, as long as the rest of them is as large as what exceeds the budget."""
        records = self.records
        sizes = {replica: records.replicas[replica].size for replica in records.overdrafts}
        rest = self.limit + sum(sizes.values()) - records.memory
        for replica, size in sizes.items():
            if size <= rest:
                rest -= size
                del records.overdrafts[replica]

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless only overdrafts, one a slot, and replicas that were found exceed the budget.
        For tests: walks over all replicas.
        """
        records = self.records
        assert len(records.overdrafts) <= self.slots, "more outputs than slots exceed the budget"
        found = sum(one.size for one in records.replicas.values() if one.is_found)
        beyond = sum(records.replicas[replica].size for replica in records.overdrafts)
        assert records.memory <= self.memory + beyond + found, "what exceeds the budget is no overdraft"
        assert not self._late or self._is_looking, "outputs wait, and no `LookAt` is due"

    # --- replicas ----------------------------------------------------------------------------------------------------

    def _forget(self, replica: Replica) -> None:
        self._asks.pop(replica, None)
        self._given.pop(replica, None)
        self._late.pop(replica, None)
        record = self.records.replicas.get(replica)
        if record is not None:
            self.records.remove(record)

    def _found(self, event: ReplicaFound) -> None:
        if event.replica not in self.records.replicas and event.replica not in self._asks:
            record = StoredReplica(event.replica, event.size, Tier.MEMORY)
            record.is_found = record.is_whole = True
            self.records.add(record)

    def _known(self, replicas: Iterable[Replica]) -> list[StoredReplica]:
        return [self.records.replicas[replica] for replica in replicas if replica in self.records.replicas]

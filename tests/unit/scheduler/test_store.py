"""The store's scheduler: where room comes from, in which order, and what it may never do, over random histories."""

from __future__ import annotations

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

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
from grainlike.scheduler.store._scheduler import PAYBACK_S, StoreScheduler

A, B, C, D = (1, 1), (2, 1), (3, 1), (4, 1)
FREE = 1 << 40


class Store(StoreScheduler):
    """A store's scheduler that is told most things at one time."""

    def handle(self, event: StoreEvent, now: float = 0.0) -> list[StoreAction]:
        return super().handle(event, now)


def store_with(*replicas: tuple[Replica, int], memory: int = 100, scratch: int = 100, slots: int = 1) -> Store:
    """A store with whole outputs in shared memory."""
    store = Store(memory=memory, scratch=scratch, slots=slots)
    for replica, size in replicas:
        assert store.handle(RoomAsked(replica, size, is_output=True)) == [GiveRoom(replica, size, Tier.MEMORY)]
        store.handle(ReplicaWritten(replica))
    return store


def asked(store: Store, replica: Replica, size: int, *, free: int = 0, now: float = 0.0) -> list[StoreAction]:
    return store.handle(RoomAsked(replica, size, is_output=True, free=free), now)


# --- the order -------------------------------------------------------------------------------------------------------


def test_free_budget_comes_first() -> None:
    store = store_with((A, 60))
    assert asked(store, B, 40) == [GiveRoom(B, 40, Tier.MEMORY)]
    assert store.records.memory == 100


def test_spare_replicas_make_way_least_recently_used_first_and_no_more_of_them_than_needed() -> None:
    store = store_with((A, 40), (B, 30), (C, 30))
    store.handle(SpareTold([A, B, C], is_spare=True))
    store.handle(ReplicasUsed(1, [A]))
    store.handle(ReplicasUnused(1))
    assert asked(store, D, 20) == [EvictReplica(B), GiveRoom(D, 20, Tier.MEMORY)]


def test_a_spare_replica_that_a_job_uses_stays() -> None:
    store = store_with((A, 50), (B, 50))
    store.handle(SpareTold([A, B], is_spare=True))
    store.handle(ReplicasUsed(1, [A]))
    assert asked(store, C, 10) == [EvictReplica(B), GiveRoom(C, 10, Tier.MEMORY)]
    assert asked(store, D, 60) == [GiveRoom(D, 60, Tier.SCRATCH)]


def test_primaries_are_spilled_and_whoever_asked_waits_for_that_alone() -> None:
    store = store_with((A, 60), (B, 40))
    assert asked(store, C, 30) == [SpillReplica(A, 60)]
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillKept(A), GiveRoom(C, 30, Tier.MEMORY)]
    assert (store.records.memory, store.records.scratch) == (70, 60)


def test_whoever_waited_in_vain_does_not_wait_for_other_replicas() -> None:
    store = store_with((A, 50), (B, 50))
    assert asked(store, C, 30) == [SpillReplica(A, 50)]
    store.handle(ReplicasUsed(1, [A]))
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillDiscarded(A), GiveRoom(C, 30, Tier.SCRATCH)]
    assert (store.records.memory, store.records.spilling, store.records.scratch) == (100, 0, 30)


def test_what_is_said_too_late_of_room_that_was_given_changes_nothing() -> None:
    store = store_with((A, 60))
    assert store.handle(RoomReturned(A)) == []  # it is whole, so its room is not to be had back
    assert (store.records.memory, store.records.replicas[A].is_whole) == (60, True)
    asked(store, B, 40)
    store.handle(ReplicasRemoved([B]))
    for late in (ReplicaWritten(B), RoomUnfit(B), RoomReturned(B)):
        assert store.handle(late) == []
    assert store.records.memory == 60


def test_a_replica_that_comes_when_its_use_has_begun_stays() -> None:
    store = store_with()
    store.handle(ReplicasUsed(1, [A]))
    store.handle(RoomAsked(A, 60, is_output=False))
    store.handle(ReplicaWritten(A))
    store.handle(SpareTold([A], is_spare=True))
    assert asked(store, B, 50) == [GiveRoom(B, 50, Tier.SCRATCH)]
    store.handle(ReplicasUnused(1))
    assert asked(store, C, 50) == [EvictReplica(A), GiveRoom(C, 50, Tier.MEMORY)]


def test_the_end_of_a_lease_that_used_a_damaged_replica_leaves_other_uses_of_the_one_that_came_in_its_place() -> None:
    store = store_with((A, 60))
    store.handle(ReplicasUsed(1, [A]))
    store.handle(ReplicasRemoved([A]))
    store.handle(RoomAsked(A, 60, is_output=False))
    store.handle(ReplicaWritten(A))
    store.handle(SpareTold([A], is_spare=True))
    store.handle(ReplicasUsed(2, [A]))
    store.handle(ReplicasUnused(1))
    assert asked(store, B, 50) == [GiveRoom(B, 50, Tier.SCRATCH)]
    store.handle(ReplicasUnused(2))
    assert asked(store, C, 50) == [EvictReplica(A), GiveRoom(C, 50, Tier.MEMORY)]


def test_what_is_used_is_not_spilled_and_the_output_goes_to_scratch() -> None:
    store = store_with((A, 60), (B, 40))
    store.handle(ReplicasUsed(1, [A, B]))
    assert asked(store, C, 30) == [GiveRoom(C, 30, Tier.SCRATCH)]


def test_a_replica_that_is_used_while_it_is_spilled_stays_and_the_output_goes_to_scratch() -> None:
    store = store_with((A, 100), scratch=200)
    asked(store, B, 30)
    store.handle(ReplicasUsed(1, [A]))
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillDiscarded(A), GiveRoom(B, 30, Tier.SCRATCH)]
    assert (store.records.memory, store.records.scratch) == (100, 30)


def test_a_replica_that_is_removed_while_it_is_spilled_leaves_nothing() -> None:
    store = store_with((A, 100))
    asked(store, B, 30)
    assert store.handle(ReplicasRemoved([A])) == [GiveRoom(B, 30, Tier.MEMORY)]
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillDiscarded(A)]
    assert (store.records.memory, store.records.scratch) == (30, 0)


def test_a_small_output_does_not_take_what_a_large_one_waits_for() -> None:
    store = store_with((A, 60))
    assert asked(store, B, 90) == [SpillReplica(A, 60)]
    assert asked(store, C, 40) == [GiveRoom(C, 40, Tier.SCRATCH)]
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillKept(A), GiveRoom(B, 90, Tier.MEMORY)]


def test_beyond_the_budget_each_slot_has_one_output_until_that_is_paid_back() -> None:
    store = store_with((A, 100), scratch=0)
    assert asked(store, B, 30, free=FREE) == [GiveRoom(B, 30, Tier.MEMORY)]
    assert asked(store, C, 70, free=FREE) == [LookAt(PAYBACK_S)]
    assert store.handle(ReplicasRemoved([A])) == [GiveRoom(C, 70, Tier.MEMORY)]
    assert asked(store, D, 30, free=FREE) == [GiveRoom(D, 30, Tier.MEMORY)]


def test_what_exceeds_the_budget_is_counted_until_it_is_paid_back() -> None:
    store = store_with((A, 80), scratch=0)
    assert store.over == 0
    asked(store, B, 60, free=FREE)
    assert store.over == 40
    store.handle(ReplicasRemoved([A]))
    assert store.over == 0


def test_nothing_goes_beyond_the_budget_where_the_machine_has_no_memory() -> None:
    assert asked(store_with((A, 100), scratch=0), B, 30, free=29) == [RefuseRoom(B, 30, 100, 0)]


def test_copies_do_not_go_beyond_the_budget_nor_come_before_that_is_paid_back() -> None:
    store = store_with((A, 100), scratch=0)
    assert store.handle(RoomAsked(B, 1, is_output=False, free=FREE)) == [RefuseRoom(B, 1, 100, 0)]
    asked(store, C, 30, free=FREE)
    store.scratch = 100
    assert store.handle(RoomAsked(B, 1, is_output=False, free=FREE))[0] == RefuseRoom(B, 1, 100, 100)


def test_what_is_beyond_the_budget_is_spilled_as_soon_as_scratch_has_room() -> None:
    store = store_with((A, 100), scratch=40)
    store.handle(RoomAsked(B, 40, is_output=True))
    store.handle(ReplicaWritten(B))
    assert asked(store, C, 40, free=FREE) == [GiveRoom(C, 40, Tier.MEMORY)]
    store.handle(ReplicaWritten(C))
    assert store.handle(ReplicasRemoved([B])) == [SpillReplica(C, 40)]


def test_where_the_file_system_has_no_room_the_output_goes_on_to_scratch() -> None:
    store = store_with((A, 10))
    asked(store, B, 30)
    assert store.handle(RoomUnfit(B)) == [GiveRoom(B, 30, Tier.SCRATCH)]
    assert store.handle(RoomUnfit(B)) == [RefuseRoom(B, 30, 100, 100)]
    assert (store.records.memory, store.records.scratch) == (10, 0)


def test_a_disk_that_is_lost_is_a_tier_no_more_and_its_spill_is_not_tried_again() -> None:
    store = store_with((A, 100))
    asked(store, B, 30, free=FREE)
    store.handle(ScratchLost())
    assert store.handle(SpillEnded(A, is_whole=False)) == [GiveRoom(B, 30, Tier.MEMORY)]
    assert store.records.scratch == 0


def test_a_spill_that_failed_is_not_tried_again() -> None:
    store = store_with((A, 100))
    asked(store, B, 30)
    assert store.handle(SpillEnded(A, is_whole=False)) == [GiveRoom(B, 30, Tier.SCRATCH)]
    assert asked(store, C, 30) == [GiveRoom(C, 30, Tier.SCRATCH)]


def test_values_give_way_to_memory_that_is_granted_to_jobs() -> None:
    store = Store(memory=100, scratch=100, slots=1, machine=120)
    for replica in (A, B):
        asked(store, replica, 50)
        store.handle(ReplicaWritten(replica))
    assert store.handle(MemoryGranted(20)) == []
    assert store.handle(MemoryGranted(60)) == [SpillReplica(A, 50)]
    store.handle(SpillEnded(A, is_whole=True))
    assert store.records.memory == 50
    assert asked(store, C, 20)[0] == SpillReplica(B, 50)


def test_room_is_returned_whatever_became_of_it() -> None:
    store = store_with((A, 100))
    asked(store, B, 30)
    store.handle(RoomReturned(B))
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillKept(A)]
    asked(store, C, 30)
    store.handle(RoomReturned(C))
    store.handle(RoomReturned(A))  # whole: nobody is to write it
    assert (store.records.memory, store.records.scratch) == (0, 100)


def test_what_a_copy_has_left_makes_way_and_until_then_the_next_goes_on_there() -> None:
    store = store_with((A, 60))
    copy = RoomAsked(B, 40, is_output=False)
    assert store.handle(copy) == [GiveRoom(B, 40, Tier.MEMORY)]
    assert store.handle(SpareTold([B], is_spare=True)) == []  # of those that are whole
    assert asked(store, C, 30) == [SpillReplica(A, 60)]
    store.handle(RoomReturned(C))
    store.handle(SpillEnded(A, is_whole=False))
    assert store.handle(CopyLeft(B)) == []
    store.handle(SpareTold([B], is_spare=False))
    assert store.records.memory == 100
    assert store.handle(copy) == [GiveRoom(B, 40, Tier.MEMORY)]
    assert store.records.memory == 100
    assert asked(store, C, 30) == [GiveRoom(C, 30, Tier.SCRATCH)]
    store.handle(CopyLeft(B))
    assert asked(store, D, 30) == [EvictReplica(B), GiveRoom(D, 30, Tier.MEMORY)]
    assert store.handle(CopyLeft(B)) == []
    assert store.handle(copy) != [GiveRoom(B, 40, Tier.MEMORY)]


def test_a_copy_goes_on_in_the_tier_where_its_bytes_are() -> None:
    store = store_with((A, 90))
    store.handle(ReplicasUsed(1, [A]))
    copy = RoomAsked(B, 40, is_output=False)
    assert store.handle(copy) == [GiveRoom(B, 40, Tier.SCRATCH)]
    store.handle(CopyLeft(B))
    store.handle(ReplicasRemoved([A]))
    assert store.handle(copy) == [GiveRoom(B, 40, Tier.SCRATCH)]
    store.handle(CopyLeft(B))
    assert store.handle(RoomAsked(B, 41, is_output=False)) == [GiveRoom(B, 41, Tier.MEMORY)]  # another attempt's
    assert (store.records.memory, store.records.scratch) == (41, 0)


def test_a_copy_that_is_broken_off_before_it_had_room_waits_for_none() -> None:
    store = store_with((A, 100))
    assert store.handle(RoomAsked(B, 30, is_output=False)) == [SpillReplica(A, 100)]
    store.handle(CopyLeft(B))
    assert store.handle(SpillEnded(A, is_whole=True)) == [SpillKept(A)]
    assert store.records.memory == 0


# --- outputs that wait until an overdraft is paid back --------------------------------------------------------------


def overdrawn(*, slots: int = 1) -> Store:
    """A full store without a disk, with one output beyond its budget."""
    store = store_with((A, 100), scratch=0, slots=slots)
    assert asked(store, B, 30, free=FREE) == [GiveRoom(B, 30, Tier.MEMORY)]
    store.handle(ReplicaWritten(B))
    return store


def due(store: Store, now: float, *busy: int) -> list[StoreAction]:
    return store.handle(PaybackDue([*busy]), now)


def test_an_output_waits_for_an_overdraft_that_is_never_paid_back_and_is_refused_then() -> None:
    store = overdrawn()
    assert asked(store, C, 10, free=FREE, now=1.0) == [LookAt(1.0 + PAYBACK_S)]
    assert asked(store, D, 10, free=FREE, now=2.0) == []
    assert due(store, 1.0 + PAYBACK_S) == [RefuseRoom(C, 10, 100, 0), LookAt(2.0 + PAYBACK_S)]
    assert due(store, 2.0 + PAYBACK_S) == [RefuseRoom(D, 10, 100, 0)]
    assert list(store.late) == []


def test_what_is_freed_but_not_enough_makes_the_wait_longer_once() -> None:
    store = overdrawn(slots=2)
    assert asked(store, C, 10, free=9) == [LookAt(PAYBACK_S)]
    assert store.handle(ReplicasRemoved([B]), 3.0) == []
    assert due(store, PAYBACK_S) == [LookAt(3.0 + PAYBACK_S)]
    assert asked(store, D, 30, free=FREE, now=4.0) == [GiveRoom(D, 30, Tier.MEMORY)]
    store.handle(ReplicaWritten(D), 4.0)
    assert store.handle(ReplicasRemoved([D]), 5.0) == [], "no fewer bytes are here than before"
    assert due(store, 3.0 + PAYBACK_S) == [RefuseRoom(C, 10, 100, 0)]


def test_an_output_waits_as_long_as_leases_compute_that_may_free_something() -> None:
    store = overdrawn()
    store.handle(RoomAsked(C, 10, is_output=True, free=FREE, busy=[1, 2]))
    assert due(store, PAYBACK_S, 1, 3) == [LookAt(2 * PAYBACK_S)]
    assert due(store, 2 * PAYBACK_S, 2, 3) == [LookAt(3 * PAYBACK_S)], "what lease 1 has freed may not be known yet"
    assert due(store, 3 * PAYBACK_S, 2, 3) == [RefuseRoom(C, 10, 100, 0)], "those that began later do not count"


def test_outputs_that_wait_are_served_in_order_and_those_that_have_room_do_not_wait_for_them() -> None:
    store = overdrawn()
    store.handle(ReplicasUsed(1, [A]))
    asked(store, C, 40, free=FREE)
    asked(store, D, 20, free=FREE)
    asked(store, (5, 1), 40, free=FREE)
    assert store.handle(ReplicasRemoved([B])) == [GiveRoom(C, 40, Tier.MEMORY)]
    store.scratch = 40
    assert store.handle(ReplicasUnused(1)) == [GiveRoom(D, 20, Tier.SCRATCH)]
    assert list(store.late) == [(5, 1)]
    assert asked(store, (6, 1), 20, free=FREE) == [GiveRoom((6, 1), 20, Tier.SCRATCH)]


def test_an_overdraft_is_paid_back_as_soon_as_the_others_are_as_large_as_what_exceeds_the_budget() -> None:
    store = store_with((A, 60), ((5, 1), 40), scratch=0, slots=2)
    for replica, size in ((B, 30), (C, 40)):
        assert asked(store, replica, size, free=FREE) == [GiveRoom(replica, size, Tier.MEMORY)]
    assert asked(store, D, 50, free=FREE) == [LookAt(PAYBACK_S)]
    assert store.handle(ReplicasRemoved([(5, 1)])) == [GiveRoom(D, 50, Tier.MEMORY)]
    assert list(store.records.overdrafts) == [C, D]


def test_no_copy_comes_while_an_output_waits() -> None:
    store = overdrawn()
    asked(store, C, 60, free=FREE)
    store.handle(MemoryFree(0))
    store.handle(ReplicasUsed(1, [A]))
    store.handle(ReplicasRemoved([B]))
    assert not store.records.overdrafts
    store.scratch = 50
    assert store.handle(RoomAsked(D, 50, is_output=False))[0] == RefuseRoom(D, 50, 100, 50)


def test_an_output_that_waits_may_exceed_the_budget_only_if_the_machine_has_memory_by_then() -> None:
    store = overdrawn()
    asked(store, C, 60, free=FREE)
    store.handle(MemoryFree(59))
    assert store.handle(ReplicasRemoved([B])) == []
    assert store.handle(MemoryFree(60)) == []
    assert store.handle(ReplicasUnused(9)) == [GiveRoom(C, 60, Tier.MEMORY)]


def test_an_output_that_is_given_up_or_dropped_waits_no_more() -> None:
    store = overdrawn()
    for event in (RoomReturned(C), ReplicasRemoved([C])):
        asked(store, C, 60, free=FREE)
        store.handle(event)
        assert list(store.late) == []


def test_an_output_that_could_not_be_had_even_then_is_refused_at_once() -> None:
    store = overdrawn()
    assert asked(store, C, 101, free=100) == [RefuseRoom(C, 101, 100, 0)]
    assert asked(store, C, 101, free=101) == [LookAt(PAYBACK_S)]
    assert asked(store_with((A, 100), scratch=0), C, 30, free=0) == [RefuseRoom(C, 30, 100, 0)], "no overdraft"


# --- random histories ------------------------------------------------------------------------------------------------


class World:
    """A worker that does what the scheduler says, knows what is truly where, and judges each step."""

    def __init__(self, memory: int, scratch: int, slots: int) -> None:
        self.store = Store(memory=memory, scratch=scratch, slots=slots)
        self.slots = slots
        self.memory: dict[Replica, int] = {}
        self.scratch: dict[Replica, int] = {}
        self.whole: set[Replica] = set()
        self.spare: set[Replica] = set()
        self.left: set[Replica] = set()
        """Those of copies that were broken off."""
        self.used: dict[int, Replica] = {}
        """What each lease uses, if it is here."""
        self.found: set[Replica] = set()
        self.asked: dict[Replica, int] = {}
        """Those that have no answer yet."""
        self.spills: list[tuple[Replica, int]] = []
        self.last = self.leases = 0
        self.now = 0.0
        self.look: float | None = None
        """When outputs that wait for an overdraft are to be looked at."""

    def tell(self, event: StoreEvent) -> None:
        for action in self.store.handle(event, self.now):
            self._do(action)
        self._judge()

    def _do(self, action: StoreAction) -> None:
        match action:
            case GiveRoom(replica=replica, size=size, tier=tier):
                assert self.asked.pop(replica) == size
                if replica in self.left:
                    assert replica in (self.memory if tier is Tier.MEMORY else self.scratch)
                    self.left.discard(replica)
                (self.memory if tier is Tier.MEMORY else self.scratch)[replica] = size
            case RefuseRoom(replica=replica):
                del self.asked[replica]
            case EvictReplica(replica=replica):
                assert replica in self.spare | self.left, "a primary was evicted"
                assert replica not in self.used.values(), "a replica in use was evicted"
                assert replica in self.whole | self.left, "room was evicted"
                self.gone(replica)
            case SpillReplica(replica=replica, size=size):
                assert replica in self.whole, "room was spilled"
                assert self.memory[replica] == size
                assert replica not in self.used.values(), "a replica in use was spilled"
                self.spills.append((replica, size))
            case SpillKept(replica=replica):
                assert replica not in self.used.values(), "a replica in use was spilled"
                self.scratch[replica] = self.memory.pop(replica)
            case SpillDiscarded():
                pass
            case LookAt(at=at):
                assert self.look is None
                self.look = at

    def gone(self, replica: Replica) -> None:
        for place in (self.memory, self.scratch, self.asked):
            place.pop(replica, None)
        for names in (self.whole, self.spare, self.found, self.left):
            names.discard(replica)

    def _judge(self) -> None:
        self.store.check()
        records = self.store.records
        assert sum(self.memory.values()) == records.memory
        assert sum(self.scratch.values()) + sum(size for _, size in self.spills) == records.scratch
        found = sum(self.memory.get(replica, 0) for replica in self.found)
        beyond = sorted(self.memory.values(), reverse=True)[: self.slots]
        assert sum(self.memory.values()) <= self.store.memory + found + sum(beyond)
        assert records.scratch <= max(self.store.scratch, self.most_scratch)
        assert len(records.overdrafts) <= self.slots
        late = set(self.store.late)
        assert self.asked.keys() == late or self.spills, "somebody waits for nothing"
        assert not late or self.look is not None, "somebody waits for ever"

    @property
    def most_scratch(self) -> int:
        return 0 if self.store.scratch else 1 << 60  # a disk that was given up keeps what it has

    # --- what may happen ---------------------------------------------------------------------------------------------

    def step(self, what: int, pick: int, size: int) -> None:
        """Let one of those things happen that can."""
        written = sorted(self.whole)
        rooms = sorted({*self.memory, *self.scratch} - self.whole - self.left)
        can = [self.ask, self.ask, self.ask, *([self.lose_scratch, self.find] if pick % 16 == 0 else [])]
        can += [partial(self.write, rooms), partial(self.write, rooms), partial(self.give_up, rooms)] if rooms else []
        can += [partial(self.misfit, rooms)] if rooms and pick % 4 == 0 else []
        can += [partial(do, written) for do in (self.offer, self.use, self.remove)] if written else []
        can += [self.use_no_more] if self.used else []
        can += [partial(self.give_up, sorted(self.asked))] if self.asked and pick % 4 == 0 else []
        can += [partial(self.break_off, rooms)] if rooms and pick % 3 == 0 else []
        can += [partial(self.go_on, sorted(self.left))] if self.left else []
        can += [self.some_spill_ends] if self.spills else []
        can += [self.time_passes] if self.look is not None else []
        can[what % len(can)](pick, size)

    def ask(self, pick: int, size: int) -> None:
        self.last += 1
        self.asked[self.last, 1] = size
        self.tell(RoomAsked((self.last, 1), size, is_output=pick % 3 > 0, free=FREE if pick % 2 else size - 1))

    def write(self, rooms: list[Replica], pick: int, _: int) -> None:
        self.whole.add(rooms[pick % len(rooms)])
        self.tell(ReplicaWritten(rooms[pick % len(rooms)]))

    def give_up(self, rooms: list[Replica], pick: int, _: int) -> None:
        self.gone(rooms[pick % len(rooms)])
        self.tell(RoomReturned(rooms[pick % len(rooms)]))

    def misfit(self, rooms: list[Replica], pick: int, _: int) -> None:
        room = rooms[pick % len(rooms)]
        self.asked[room] = self.memory.pop(room, 0) or self.scratch.pop(room, 0)
        self.tell(RoomUnfit(room))

    def break_off(self, rooms: list[Replica], pick: int, _: int) -> None:
        self.left.add(rooms[pick % len(rooms)])
        self.tell(CopyLeft(rooms[pick % len(rooms)]))

    def go_on(self, left: list[Replica], pick: int, _: int) -> None:
        one = left[pick % len(left)]
        self.asked[one] = self.memory.get(one) or self.scratch[one]
        self.tell(RoomAsked(one, self.asked[one], is_output=False))

    def offer(self, written: list[Replica], pick: int, _: int) -> None:
        self.spare.add(written[pick % len(written)])
        self.tell(SpareTold([written[pick % len(written)]], is_spare=True))

    def use(self, written: list[Replica], pick: int, _: int) -> None:
        self.leases += 1
        self.used[self.leases] = written[pick % len(written)]
        self.tell(ReplicasUsed(self.leases, [self.used[self.leases]]))

    def use_no_more(self, pick: int, _: int) -> None:
        lease = sorted(self.used)[pick % len(self.used)]
        del self.used[lease]
        self.tell(ReplicasUnused(lease))

    def remove(self, written: list[Replica], pick: int, _: int) -> None:
        self.gone(written[pick % len(written)])
        self.tell(ReplicasRemoved([written[pick % len(written)]]))

    def find(self, _: int, size: int) -> None:
        self.last += 1
        self.memory[self.last, 1] = size
        self.whole.add((self.last, 1))
        self.found.add((self.last, 1))
        self.tell(ReplicaFound((self.last, 1), size))

    def lose_scratch(self, _: int, __: int) -> None:
        self.tell(ScratchLost())

    def time_passes(self, pick: int, _: int) -> None:
        assert self.look is not None
        self.now, self.look = self.look, None
        self.tell(PaybackDue([1] if pick % 3 == 0 else []))

    def some_spill_ends(self, pick: int, _: int) -> None:
        self.end_spill(pick, is_whole=pick % 5 != 0)

    def end_spill(self, pick: int, *, is_whole: bool) -> None:
        replica, _ = self.spills.pop(pick % len(self.spills))
        self.tell(SpillEnded(replica, is_whole=is_whole))

    def rest(self) -> None:
        """Let all end, and look that nothing is left."""
        while self.spills:
            self.end_spill(0, is_whole=True)
        while self.look is not None:
            self.time_passes(1, 0)
        assert not self.asked, "somebody was not answered"
        for replica in sorted({*self.memory, *self.scratch}):
            is_whole = replica in self.whole | self.left
            self.gone(replica)
            self.tell(ReplicasRemoved([replica]) if is_whole else RoomReturned(replica))
        while self.spills:
            self.end_spill(0, is_whole=False)
        records = self.store.records
        assert (records.memory, records.scratch, records.spilling, records.replicas, records.overdrafts) == (
            0,
            0,
            0,
            {},
            {},
        )


STEPS = st.lists(st.tuples(st.integers(0, 23), st.integers(0, 239), st.integers(1, 60)), max_size=60)


@settings(derandomize=True, max_examples=400)
@given(steps=STEPS, scratch=st.sampled_from([0, 50, 150]), slots=st.integers(1, 3))
def test_nothing_is_lost_exceeded_or_left_waiting(steps: list[tuple[int, int, int]], scratch: int, slots: int) -> None:
    world = World(100, scratch, slots)
    for step in steps:
        world.step(*step)
    world.rest()

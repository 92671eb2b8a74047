"""Simulated store of a worker: the real `StoreScheduler`, with rooms that cost nothing and spills that take time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from grainlike.scheduler.store import (
    CopyLeft,
    EvictReplica,
    GiveRoom,
    LookAt,
    MemoryFree,
    PaybackDue,
    RefuseRoom,
    Replica,
    ReplicasRemoved,
    ReplicasUnused,
    ReplicasUsed,
    ReplicaWritten,
    RoomAsked,
    RoomReturned,
    SpareTold,
    SpillDiscarded,
    SpillEnded,
    SpillKept,
    SpillReplica,
    StoreAction,
    StoreEvent,
    StoreScheduler,
    Tier,
    busy_leases,
)
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import NodePlan

__all__ = ["SimulatedStore"]

_DISK_BYTES_PER_S = 2e8

_FREE = 1 << 50
"""Bytes of memory that are free on a machine without a limit for outputs beyond the budget."""

_Later = Callable[[Callable[[], None]], None]


class SimulatedStore:
    """Store of one worker with the limits of `plan`. `later` has a function called once the worker is not frozen,
    unless it is dead. `evicted` is called with each replica or unfinished copy that made way, `changed` with the bytes
    beyond the budget when these have changed; `computing` is that of the `NodeScheduler`.
    """

    def __init__(self, clock: Clock, plan: NodePlan, computing: Callable[[], Mapping[int, Collection[int]]]) -> None:
        assert plan.store is not None
        assert plan.scratch is not None
        slots = max(1, len(plan.offer.cores))
        self.scheduler: StoreScheduler = StoreScheduler(memory=plan.store, scratch=plan.scratch, slots=slots)
        self.later: _Later = _at_once
        self.evicted: Callable[[Replica], None] = _ignore
        self.changed: Callable[[int], None] = _ignore
        self.tiers: dict[Replica, Tier] = {}
        """Tier of each whole replica, and of each room."""
        self._clock = clock
        self._plan = plan
        self._computing = computing
        self._answers: dict[Replica, Callable[[bool], None]] = {}
        self._over = 0
        self._uses: dict[int, list[Replica]] = {}

    @property
    def waiting(self) -> int:
        """Number of outputs that wait for an overdraft."""
        return len(self.scheduler.late)

    def ask(self, replica: Replica, size: int, then: Callable[[bool], None], *, is_output: bool) -> None:
        """Ask for room; `then` is called, now or later, with whether there is some. A whole replica is removed before
        its room is asked for again: the store would forget bytes that are still there.
        """
        assert not self._is_whole(replica), f"room is asked for {replica}, which is whole and was not removed"
        self._answers[replica] = then
        busy = self._busy({replica[0]}) if is_output else []
        self._tell(RoomAsked(replica, size, is_output, self._free() if is_output else 0, busy))

    def written(self, replica: Replica) -> None:
        """Note that a replica is whole."""
        assert replica in self.scheduler.records.replicas, f"{replica} came without room"
        self._tell(ReplicaWritten(replica))

    def returned(self, replica: Replica) -> None:
        """Note that a replica will never be written."""
        assert not self._is_whole(replica), f"the room of {replica} is returned, which is whole"
        self._answers.pop(replica, None)
        self.tiers.pop(replica, None)
        self._tell(RoomReturned(replica))

    def broke_off(self, replica: Replica) -> None:
        """Note that a copy was given up that has left a part of its bytes."""
        self._answers.pop(replica, None)
        self._tell(CopyLeft(replica))

    def removed(self, replicas: Iterable[Replica]) -> None:
        """Note that whole replicas are not here any more."""
        gone = list(replicas)
        for replica in gone:
            self.tiers.pop(replica, None)
        self._tell(ReplicasRemoved(gone))

    def spare(self, replicas: Iterable[Replica], *, is_spare: bool) -> None:
        """Let whole replicas make way, or no longer."""
        self._tell(SpareTold(list(replicas), is_spare))

    def used(self, lease: int, replicas: list[Replica]) -> None:
        """Note that a lease begins whose jobs need replicas."""
        self._uses[lease] = replicas
        self._tell(ReplicasUsed(lease, replicas))

    def ended_use(self, lease: int) -> None:
        """Note that a lease has ended."""
        if self._uses.pop(lease, None) is not None:
            self._tell(ReplicasUnused(lease))

    def check_at_rest(self, sizes: Mapping[Replica, int]) -> None:
        """Raise `AssertionError` unless exactly these whole replicas, and unfinished copies, have room, and none uses
        them or waits. For tests.
        """
        records = self.scheduler.records.replicas
        kept = {name: one.size for name, one in records.items() if not one.is_left}
        assert kept == sizes, f"room is taken for {kept}, and {sizes} are here"
        assert not any(one.uses for one in records.values()), "a replica is used, and no job runs"
        assert not self._answers, f"{list(self._answers)} wait for room"
        assert (
            sum(one.size for one in records.values()) == self.scheduler.records.memory + self.scheduler.records.scratch
        )

    def _is_whole(self, replica: Replica) -> bool:
        record = self.scheduler.records.replicas.get(replica)
        return record is not None and record.is_whole

    def _free(self) -> int:
        if self._plan.overdraft is None:
            return _FREE
        return max(0, self._plan.overdraft - max(0, self.scheduler.records.memory - self.scheduler.limit))

    def _busy(self, asking: Iterable[int] = ()) -> list[int]:
        return busy_leases(self._computing(), self._uses, {*asking, *(job for job, _ in self._answers)})

    def _tell(self, event: StoreEvent) -> None:
        told: list[tuple[Callable[[bool], None], bool]] = []
        events = [MemoryFree(self._free()), event] if self.scheduler.late else [event]
        for one in events:
            for action in self.scheduler.handle(one, self._clock.now):
                self._act(action, told)
        self.scheduler.check()
        self._say_over()
        for then, has_room in told:
            then(has_room)

    def _say_over(self) -> None:
        if self.scheduler.over != self._over:
            self._over = self.scheduler.over
            self.changed(self._over)

    def _act(self, action: StoreAction, told: list[tuple[Callable[[bool], None], bool]]) -> None:
        match action:
            case GiveRoom(replica=replica):
                self.tiers[replica] = action.tier
                told.append((self._answers.pop(replica), True))
            case RefuseRoom(replica=replica):
                self.tiers.pop(replica, None)
                told.append((self._answers.pop(replica), False))
            case EvictReplica(replica=replica):
                del self.tiers[replica]
                self._say_over()  # first, as workers do
                self.evicted(replica)
            case SpillReplica(replica=replica, size=size):
                ended = partial(self._tell, SpillEnded(replica, is_whole=True))
                self._clock.after(size / _DISK_BYTES_PER_S, self.later, ended)
            case SpillKept(replica=replica):
                self.tiers[replica] = Tier.SCRATCH
            case SpillDiscarded():
                pass
            case LookAt(at=at):
                self._clock.at(at, self.later, self._look)

    def _look(self) -> None:
        self._tell(PaybackDue(self._busy()))


def _at_once(function: Callable[[], None]) -> None:
    function()


def _ignore(_: object) -> None:
    """Ignore what nothing needs to know."""

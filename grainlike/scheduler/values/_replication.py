"""Replication: each value has as many replicas as it should have, at workers that stay, even when workers go.

One replica is enough unless a program asked for more; a value that may not be made again has two. Values that only
leaving workers have are copied first, the largest before others. A copy is asked for only at a worker with room for the
value beside what is kept for other inputs of the oldest job that waits for room. If no worker has room, the copy waits
for it; a worker whose store could never hold the value does not count.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike._shown import bytes_text
from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._value_events import ReplicasUnfit, ReplicationReached
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._leaving import Departures
from grainlike.scheduler.values._records import ValueState
from grainlike.scheduler.values._table import ValueTable
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["EVERYWHERE", "SAFE_COPIES", "Replication"]

EVERYWHERE = 1 << 30
"""Number of replicas that means one at each worker."""

SAFE_COPIES = 2
"""Number of replicas of a value that may not be made again."""

ENDS_SOON_S = 600.0
"""Seconds before its end in which a worker gets replicas for safety only if no other worker can."""


class Replication:
    """Asks for copies where replicas are too few. The arguments are the scheduler's own objects, not copies.

    Attributes:
        due: values to look at before the turn ends, by number.
        kept: values that keep more than one replica, by number.
        warned: functions for which a warning said that the stores of some workers are too small for a value.
    """

    __slots__ = ("_leaving", "_table", "_transfers", "_workers", "due", "kept", "warned")

    def __init__(
        self, workers: dict[int, WorkerState], table: ValueTable, transfers: Transfers, leaving: Departures
    ) -> None:
        self._workers = workers
        self._table = table
        self._transfers = transfers
        self._leaving = leaving
        self.due: dict[int, ValueState] = {}
        self.kept: dict[int, ValueState] = {}
        self.warned: set[int] = set()

    def keep(self, value: ValueState, copies: int) -> None:
        """Keep at least this many replicas of a value from now on."""
        value.copies = max(value.copies, copies)
        self.kept[value.id] = value
        self.look_at(value)

    def look_at(self, value: ValueState | None) -> None:
        """Look at a value before the turn ends, because its replicas have changed; None stands for an unknown value."""
        if value is not None and (value.copies > 1 or value.unreached or self._leaving.workers):
            self.due[value.id] = value
            self._table.unsettled = True
            self._table.shift(value)

    def look_at_all(self) -> None:
        """Look at all values whose replicas may be too few, because workers have come or will go."""
        for value in self.kept.values():
            self.look_at(value)
        if self._leaving.workers:
            for value in self._leaving.refill():
                self.look_at(value)
        self._table.note_room()  # those that wait for room may have it now, or need none any more

    def forget(self, values: Iterable[int]) -> None:
        """Forget values that are not known any more."""
        for number in values:
            self.kept.pop(number, None)
            self.due.pop(number, None)
            self._table.awaiting_room.pop(number, None)

    def make_good(self, now: float, out: list[HeadAction]) -> None:
        """Ask for the copies that are missing, and answer the programs whose values have their replicas."""
        due, self.due = self.due, {}
        due.update((value.id, value) for value in self.with_room())
        able = [worker for worker in self._workers.values() if self._leaving.is_able(worker)] if due else []
        free = {worker.id: self._transfers.room_for_safety(worker) for worker in able}
        reached: list[int] = []
        for value in due.values():
            self._table.awaiting_room.pop(value.id, None)
            if not (value.is_needed and (value.replicas or value.origin)):
                continue
            if self._has_enough(value, able, free, now, out) and value.unreached:
                value.unreached = False
                reached.append(value.id)
                self._table.look_at(value)
        if reached:
            out.append(ReplicationReached(reached))

    def with_room(self) -> list[ValueState]:
        """Return the values with a replica that waits for room, if some worker has that room now."""
        waiting, transfers, known = self._table.awaiting_room, self._transfers, self._transfers.known
        able = [worker for worker in self._workers.values() if waiting and self._leaving.is_able(worker)]
        free = [(worker, transfers.room_for_safety(worker)) for worker in able]
        return [
            value
            for value in waiting.values()
            if any(
                transfers.may_copy(value, worker, room)
                and not (worker.id in value.replicas or (value.id, worker.id) in known)
                and transfers.rooms.could_hold(worker, (value.id,))
                for worker, room in free
            )
        ]

    def _has_enough(
        self, value: ValueState, able: list[WorkerState], free: dict[int, int], now: float, out: list[HeadAction]
    ) -> bool:
        """Ask for the copies that a value lacks, at workers with enough `free` bytes. Return True if the value has all
        replicas that it can have, now or ever.
        """
        here = sum(self._leaving.stays(worker) for worker in value.replicas)
        if here >= value.copies:
            return True
        coming, new = self._others(value, able)
        fit = [worker for worker in new if self._transfers.rooms.could_hold(worker, (value.id,))]
        with_room = [worker for worker in fit if self._transfers.may_copy(value, worker, free[worker.id])]
        lacking = value.copies - here - len(coming)
        if 0 < lacking < len(with_room):
            with_room.sort(key=lambda worker: self._rank(value, worker, now))
        chosen = with_room[: max(0, lacking)]
        for worker in chosen:
            free[worker.id] -= value.size
        for worker in coming + chosen:
            self._transfers.copy(value, worker.id, first=not here)
        if len(with_room) < min(lacking, len(fit)):
            self._table.awaiting_room[value.id] = value
        elif len(fit) < min(lacking, len(new)):
            self._tell(value, new, out)
        return not (coming or chosen or value.id in self._table.awaiting_room)

    def _tell(self, value: ValueState, workers: list[WorkerState], out: list[HeadAction]) -> None:
        """Tell once for each function that the stores of these workers are too small for its value."""
        fn = 0 if value.fn is None else value.fn.id
        if fn not in self.warned:
            self.warned.add(fn)
            out.append(ReplicasUnfit(value.id, self._too_little(value, workers)))

    def why_few(self, number: int, failure: str) -> str:
        """Return in words which room is lacking for replicas that a value is to have, or which copy has failed, with
        its `failure`; empty where no room is lacking, and none has failed.
        """
        value = self._table.values.get(number)
        if value is None or not 0 < len(value.replicas) < value.copies:
            return ""
        able = [worker for worker in self._workers.values() if self._leaving.is_able(worker)]
        coming, new = self._others(value, able)
        if new and len(value.replicas) + len(coming) < value.copies:
            return self._too_little(value, new)
        failed = [worker.name for worker in coming if self._transfers.has_failed(value, worker.id)]
        why = f": {failure}" if failure else ""
        return f"a copy to {failed[0]} has failed, and is tried again{why}" if failed else ""

    def _others(self, value: ValueState, able: list[WorkerState]) -> tuple[list[WorkerState], list[WorkerState]]:
        """Return the workers to which a value is on its way, and the others that do not have it."""
        known = self._transfers.known
        others = [worker for worker in able if worker.id not in value.replicas]
        coming = [worker for worker in others if (value.id, worker.id) in known]
        return coming, [worker for worker in others if (value.id, worker.id) not in known]

    def _too_little(self, value: ValueState, workers: list[WorkerState]) -> str:
        could_hold, free = self._transfers.rooms.could_hold, self._transfers.room_for_safety
        widest = max(workers, key=lambda one: (could_hold(one, (value.id,)), free(one), -one.id))
        is_for_now = could_hold(widest, (value.id,))
        room = max(0, free(widest)) if is_for_now else max(widest.store or (0,))
        words = "of it now" if is_for_now else "at most"
        return f"its value is {bytes_text(value.size)}; {widest.name} has room for {bytes_text(room)} {words}"

    def _rank(self, value: ValueState, worker: WorkerState, now: float) -> tuple[bool, bool, bool, int, int, int]:
        """Return the order in which workers get replicas for safety: the fewest bytes first, after workers that should
        get any.
        """
        rests = bool(self._transfers.rests(value, worker.id, now))
        ends_soon = worker.until < now + ENDS_SOON_S
        held = self._table.stored.get(worker.id, 0) + self._transfers.coming.get(worker.id, 0)
        return rests, bool(worker.shut), ends_soon, held, len(worker.held), worker.id

    def check(self) -> None:
        """Raise `AssertionError` unless each value has its replicas, or they are on their way. For tests."""
        assert not self.due, "a turn ended before all replicas were looked at"
        able = [worker for worker in self._workers.values() if self._leaving.is_able(worker)]
        could_hold, free = self._transfers.rooms.could_hold, self._transfers.room_for_safety
        may_copy = self._transfers.may_copy
        for value in self._table.values.values():
            if not (value.is_needed and (value.replicas or (value.origin and value.unreached))):
                continue
            here = sum(self._leaving.stays(worker) for worker in value.replicas)
            coming, new = self._others(value, able)
            fit = [worker for worker in new if could_hold(worker, (value.id,))]
            here, waits = here + len(coming), value.id in self._table.awaiting_room
            enough = here >= min(value.copies, here + len(fit))
            assert enough or waits, f"value {value.id} has too few replicas"
            has_room = any(may_copy(value, worker, free(worker)) for worker in fit)
            assert not (waits and has_room), f"value {value.id} has room"
            assert not value.unreached or coming or waits, f"value {value.id} has its replicas, and nobody was told"
            assert value.copies == 1 or value.id in self.kept, f"value {value.id} is not kept"

"""Table of the values that stay at workers: creation, interest, drops, and which values are to be made again.

A value whose bytes nothing needs loses its replicas at the end of the turn and not before: within the turn, a job that
makes another value again may come to need it. A value is forgotten when no known value has it in its lineage either.
The table keeps sums, so a step costs only what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._inputs import JobInputs
from grainlike.scheduler.values._primaries import Primaries
from grainlike.scheduler.values._records import ValueState, shared

__all__ = ["ValueTable"]

CROWDED_PERCENT = 80
"""Percentage of a worker's store above which jobs go first there whose end frees a value."""


class ValueTable:
    """Values of one head, by number. `workers` is the scheduler's own mapping, not a copy.

    Attributes:
        parked: jobs that wait outside all queues because no worker can give one of their inputs for now.
        ended: jobs with inputs, or that made a value again, which have ended since the last `settle`.
        unavailable: values that have lost their last replica, or are wanted without one: to be made again, or given up.
        idle: values that nothing needed when they were looked at since the last `settle`.
        unwanted: jobs that make a value again which nothing needs any more.
        placed: values whose replicas have changed since the last pass.
        filled: workers that may have less room than in the last pass.
        moved: values with several replicas, now or before, whose replicas have changed since the last `settle`.
        stored: bytes of values, by worker that has any.
        single: values that exactly one unfinished job needs.
        bound: number of jobs on their way to a worker that need a value, by value and worker.
        awaiting_room: values with a replica that waits for room, by number.
        crowded: workers with more bytes than `CROWDED_PERCENT` of their stores.
        tight: workers that had no room for a job's value in the last pass.
        spare: sizes of the replicas that may be evicted, by worker and value.
        primaries: the other replicas, of workers where a job lacked room.
        drops: replicas to be removed, as value and attempt, by worker.
        freed: own values that their programs need not keep any more.
        forgotten: values that are not known any more.
        unsettled: True if `settle` has something to do.
    """

    __slots__ = (
        "_workers", "awaiting_room", "bound", "crowded", "drops", "ended", "filled", "forgotten", "freed", "idle",
        "moved", "parked", "placed", "primaries", "single", "spare", "stored", "tight", "unavailable", "unsettled",
        "unwanted", "values",
    )  # fmt: skip

    def __init__(self, workers: dict[int, WorkerState]) -> None:
        self._workers = workers
        self.values: dict[int, ValueState] = {}
        self.parked: dict[int, HeadJob] = {}
        self.ended: list[HeadJob] = []
        self.unavailable: dict[int, ValueState] = {}
        self.idle: dict[int, ValueState] = {}
        self.unwanted: list[int] = []
        self.stored: dict[int, int] = {}
        self.spare: dict[int, dict[int, int]] = {}
        self.primaries = Primaries()
        self.single: dict[int, ValueState] = {}
        self.bound: dict[tuple[int, int], int] = {}
        self.awaiting_room: dict[int, ValueState] = {}
        self.crowded: dict[int, WorkerState] = {}
        self.tight: dict[int, WorkerState] = {}
        self.placed: list[int] = []
        self.filled: dict[int, None] = {}
        self.moved: dict[int, ValueState] = {}
        self.drops: dict[int, list[tuple[int, int]]] = {}
        self.freed: list[int] = []
        self.forgotten: list[int] = []
        self.unsettled = False

    # --- where values are --------------------------------------------------------------------------------------------

    def total(self, inputs: Iterable[int]) -> int:
        """Return the bytes of these values."""
        return sum(self.values[number].size for number in inputs)

    def missing(self, inputs: Iterable[int], worker: int) -> int:
        """Return the bytes of these values that a worker does not have."""
        values = self.values
        return sum(value.size for number in inputs if worker not in (value := values[number]).replicas)

    def whole_at(self, inputs: tuple[int, ...]) -> list[int]:
        """Return the workers that have all of these values."""
        first, *others = [self.values[number].replicas for number in inputs]
        return [worker for worker in first if all(worker in replicas for replicas in others)]

    def bytes_at(self, inputs: Iterable[int]) -> dict[int, int]:
        """Return the bytes of these values at each worker that has any."""
        found: dict[int, int] = {}
        for number in inputs:
            value = self.values[number]
            for worker in value.replicas:
                found[worker] = found.get(worker, 0) + value.size
        return found

    def can_be_had(self, value: ValueState) -> bool:
        """Return True if a worker that is not suspected has a value, or no worker but the origin has it."""
        workers = self._workers
        if value.origin and not value.replicas:
            return True
        return any("suspect" not in workers[number].shut for number in value.replicas)

    def all_can_be_had(self, inputs: Iterable[int]) -> bool:
        """Return True if each of these values can be had."""
        return all(self.can_be_had(self.values[number]) for number in inputs)

    # --- creation and interest ---------------------------------------------------------------------------------------

    def born(self, job: HeadJob, attempt: int, size: int, worker: int) -> ValueState:
        """Record that a job has succeeded, and that its value stays at its worker."""
        value = self.values.get(job.id)
        if value is None:
            value = self.values[job.id] = ValueState.made_by(job, attempt, size, worker)
            self._count(worker, size)
            if self.primaries.listed:
                self.primaries.add(worker, value)
            for number in value.inputs:
                self.values[number].dependents += 1
            return value
        value.maker = None
        self._place(value, ())
        value.attempt, value.size, value.why = attempt, size, ""
        self._place(value, (worker,))
        self.unavailable.pop(value.id, None)
        self.look_at(value)
        return value

    def add_own(self, origin: int, number: int, size: int) -> None:
        """Record a program's own value, which no worker has yet."""
        if number not in self.values:
            value = self.values[number] = ValueState(number, 1, size)
            value.origin = origin

    def need(self, job: HeadJob, inputs: tuple[int, ...], *, remakes: bool = False) -> None:
        """Record the inputs of an unfinished job; all these values are known."""
        job.remembered().data = JobInputs(inputs, remakes=remakes)
        for number in inputs:
            value = self.values[number]
            if value.users is None:
                value.users = {}
            value.users[job.id] = job
            self._count_users(value)
            if not value.replicas:
                self.lacks(value)

    def _count_users(self, value: ValueState) -> None:
        if value.users is not None and len(value.users) == 1:
            self.single[value.id] = value
        else:
            self.single.pop(value.id, None)

    def last_user(self, number: int) -> HeadJob | None:
        """Return the job that needs a value if it is the last one, and nothing else waits for the bytes; else None."""
        value = self.single.get(number)
        if value is None or not value.users or value.asked or value.givers or value.unreached:
            return None
        return next(iter(value.users.values()))

    def last_users(self) -> Iterator[HeadJob]:
        """Iterate over the jobs that are the last to need a value; a job can come several times."""
        return (job for number in self.single if (job := self.last_user(number)) is not None)

    def park(self, job: HeadJob) -> None:
        """Let a job that is in no queue wait until its inputs can be had."""
        self.parked[job.id] = job
        for number in job.inputs:
            value = self.values[number]
            if not value.replicas:
                self.lacks(value)

    def end(self, job: HeadJob) -> None:
        """Record that a job with inputs, or one that makes a value again, has ended."""
        self.ended.append(job)
        self.unsettled = True

    def needs_less(self, job: HeadJob, values: list[int]) -> None:
        """Record that an unfinished job does not need these of its inputs any more."""
        assert job.rare is not None, "it has inputs"
        assert job.rare.data is not None, "it has inputs"
        self.parked.pop(job.id, None)
        self._drop_interest(job, values)
        job.rare.data.inputs = tuple(number for number in job.inputs if number not in values)
        if not job.inputs and not job.rare.data.remakes:
            job.rare.data = None

    def needs_no_more(self, job: HeadJob) -> None:
        """Drop the interest of a job that has ended."""
        self._drop_interest(job, job.inputs)

    def _drop_interest(self, job: HeadJob, values: Iterable[int]) -> None:
        for number in values:
            value = self.values.get(number)
            if value is not None and value.users is not None and value.users.pop(job.id, None) is not None:
                if not value.users:
                    value.users = None  # an empty dict that had entries takes 224 bytes
                self._count_users(value)
                self.look_at(value)

    def release(self, number: int) -> None:
        """Record that the owner of a value does not refer to it any more."""
        value = self.values.get(number)
        if value is not None and value.owned:
            value.owned = value.unreached = False  # a program that waits for replicas owns the value
            self.look_at(value)

    def look_at(self, value: ValueState) -> None:
        """Mark a value as idle if nothing needs it, and stop making it again if only its owner needs it."""
        if not value.is_needed:
            self.unavailable.pop(value.id, None)
            self.idle[value.id] = value
            self.unsettled = True
        if value.maker is not None and not value.is_awaited:
            self.unwanted.append(value.maker.id)
            self.unsettled = True

    def let_go(self) -> None:
        """Remove all replicas of idle values that nothing needs, and forget the values that no lineage needs either."""
        while self.idle:
            value = self.idle.pop(next(iter(self.idle)))
            if value.is_needed:
                continue
            if value.replicas or value.origin:
                self.drop(value, value.replicas)
                value.why = "its bytes were not needed any more"
            if value.origin:
                self.freed.append(value.id)
                value.origin = 0
            if not value.dependents:
                self._forget(value)

    def _forget(self, value: ValueState) -> None:
        stack = [value]
        while stack:
            gone = stack.pop()
            del self.values[gone.id]
            self.forgotten.append(gone.id)
            self.unsettled = True
            if gone.is_kept:
                stack += self._inherit_less(gone)

    def _inherit_less(self, value: ValueState) -> list[ValueState]:
        """Take a value off the dependents of its inputs; return the inputs that nothing needs any more."""
        free: list[ValueState] = []
        for number in value.inputs:
            before = self.values[number]
            before.dependents -= 1
            if not (before.dependents or before.is_needed or before.id in self.idle):
                free.append(before)
        return free

    def give_up_lineage(self, number: int) -> None:
        """Record that the call which made a value is not kept any more."""
        value = self.values.get(number)
        if value is not None and value.is_kept:
            value.is_kept = False
            for before in self._inherit_less(value):
                self._forget(before)

    # --- replicas come and go ----------------------------------------------------------------------------------------

    def drop(self, value: ValueState, workers: Iterable[int]) -> None:
        """Let these workers remove their replicas of a value."""
        for worker in workers:
            self.drop_stale(worker, value.id, value.attempt)
        gone = set(workers)
        self._place(value, tuple(worker for worker in value.replicas if worker not in gone))

    def drop_stale(self, worker: int, number: int, attempt: int) -> None:
        """Let a worker remove a replica that does not count, or that nothing needs."""
        self.drops.setdefault(worker, []).append((number, attempt))
        self.unsettled = True

    def whole(self, value: ValueState, worker: int) -> None:
        """Record that a worker has a whole replica of a value. No job needs to make the value again then."""
        if worker not in value.replicas:
            self._place(value, (*value.replicas, worker))
        value.why = ""
        self.unavailable.pop(value.id, None)
        if value.maker is not None:
            self.unwanted.append(value.maker.id)
            self.unsettled = True

    def gone(self, value: ValueState, worker: int, why: str) -> None:
        """Record that a worker does not have its replica of a value any more."""
        if worker not in value.replicas:
            return
        self._place(value, tuple(number for number in value.replicas if number != worker))
        if worker in value.givers:
            value.asked += value.givers.count(worker)
            value.givers = tuple(number for number in value.givers if number != worker)
        if not value.replicas:
            value.why = why
            if value.users or value.asked or value.unreached:
                self.lacks(value)

    def _place(self, value: ValueState, replicas: tuple[int, ...]) -> None:
        """Record which workers have a value."""
        listed = self.primaries.listed
        for worker in value.replicas:
            if worker not in replicas:
                self._count(worker, -value.size)
                if listed:
                    self.primaries.discard(worker, value)
        for worker in replicas:
            if worker not in value.replicas:
                self._count(worker, value.size)
                if listed:
                    self.primaries.add(worker, value)
        if len(value.replicas) > 1 or len(replicas) > 1:
            self.moved[value.id] = value
            self.unsettled = True
        value.replicas = shared(replicas)
        self.placed.append(value.id)

    def count_last(self, value: ValueState, worker: int) -> None:
        """Put a worker's replica of a value behind the others, so that it is the first to be spare."""
        if worker in value.replicas:
            self._place(value, (*(number for number in value.replicas if number != worker), worker))

    def shift(self, value: ValueState) -> None:
        """Tell workers again, at the end of the turn, which replicas of a value are spare."""
        if len(value.replicas) > 1:
            self.moved[value.id] = value
            self.unsettled = True

    def bind(self, value: ValueState, worker: int) -> None:
        """Record that a job is on its way to a worker that needs a value."""
        key = value.id, worker
        self.bound[key] = self.bound.get(key, 0) + 1
        if self.bound[key] == 1:
            self.shift(value)

    def unbind(self, value: ValueState, worker: int) -> None:
        """Record that such a job has started there, goes elsewhere or has ended."""
        key = value.id, worker
        count = self.bound.pop(key, 1) - 1
        if count:
            self.bound[key] = count
        else:
            self.shift(value)

    def _count(self, worker: int, size: int) -> None:
        self.filled[worker] = None
        stored = self.stored.pop(worker, 0) + size
        if stored:
            self.stored[worker] = stored
        self.look_at_room(worker)
        self.note_room()

    def note_room(self) -> None:
        """Have values looked at before the turn ends that wait for room: some worker may have more."""
        self.unsettled |= bool(self.awaiting_room)

    def look_at_room(self, number: int) -> None:
        """Record whether a worker is crowded, after its values or its store have changed."""
        worker = self._workers.get(number)
        if worker is None or worker.store is None:
            self.crowded.pop(number, None)
            return
        stored, most = self.stored.get(number, 0), sum(worker.store)
        worker.store_left = most - stored
        if worker.note_crowded(100 * stored > CROWDED_PERCENT * most):
            self.crowded[number] = worker
        else:
            self.crowded.pop(number, None)

    def lacks(self, value: ValueState) -> None:
        """Look at a value that is needed and has no replica before the turn ends."""
        self.unavailable[value.id] = value
        self.unsettled = True

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self, jobs: Mapping[int, HeadJob]) -> None:
        """Raise `AssertionError` unless sums and interest match the unfinished jobs. For tests: walks over all."""
        dependents = dict.fromkeys(self.values, 0)
        users: dict[int, set[int]] = {number: set() for number in self.values}
        for value in self.values.values():
            for number in value.inputs if value.is_kept else ():
                dependents[number] += 1
        ended = {job.id for job in self.ended}
        for job in jobs.values():
            for number in job.inputs:
                users[number].add(job.id)
        for value in self.values.values():
            assert value.dependents == dependents[value.id], f"value {value.id} has not {value.dependents} dependents"
            assert (value.id in self.single) == (len(value.users or ()) == 1), f"value {value.id} has other users"
            assert set(value.users or ()) - ended == users[value.id], f"value {value.id} has other users"
            assert value.is_needed or value.dependents, f"value {value.id} is known, and nobody needs it"
            assert value.is_needed or not value.replicas, f"value {value.id} has replicas that nobody needs"
            assert value.is_needed or not value.origin, f"a program keeps value {value.id}, which nobody needs"
            assert all(worker in self._workers for worker in value.replicas), f"value {value.id} is where nobody is"
        assert self.stored == self.bytes_at(self.values), "bytes are counted where they are not"
        for worker, listed in self.primaries.listed.items():
            here = (value for value in self.values.values() if worker in value.replicas)
            kept = sorted((value.size, -value.id) for value in here if value.id not in self.spare.get(worker, {}))
            assert listed == kept, f"worker {worker} keeps {kept}, and {listed} are listed"
        crowded = {number for number, worker in self._workers.items() if worker.crowded}
        assert self.crowded.keys() == crowded, (sorted(self.crowded), sorted(crowded))
        assert not self.unsettled, "a turn ended before all was settled"

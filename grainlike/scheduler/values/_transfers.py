"""Transfers of values from worker to worker: which copies are under way, which come next, and from where.

At most two copies go into a worker at once, and two out of it; sixteen small copies count as one. The copy for the
oldest job comes first, from the replica with the fewest copies going out; each new replica is a source at once. If the
target can reach a source directly, only direct sources are used. Copies through the head have the same limits. A
program gives an own value only while no worker has it, and to one worker at a time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from heapq import heappop, heappush

from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._records import HeadJob, order
from grainlike.scheduler._value_events import FetchReplicas, ReplicasFailed
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._reach import Reach
from grainlike.scheduler.values._records import ReplicaCopy, ValueState
from grainlike.scheduler.values._rooms import KEPT_SCHEMA, LAPSE_SCHEMA, Rooms
from grainlike.scheduler.values._table import ValueTable

__all__ = ["Transfers"]

WHOLE = 16
"""Weight of a transfer of 1 MiB or more; a smaller one weighs 1."""

AT_ONCE = 2 * WHOLE
"""Most weight of the copies that go into a worker at once, or out of it."""

SMALL_BYTES = 1 << 20

ASIDE_SCHEMA = 7
"""Schema of journals from which on a job whose inputs cannot be copied for now waits outside its queue, and a worker
that is idle gets no more jobs with inputs than have their turn.
"""

LOOKED_AT_MOST = 64
"""Most transfers to one worker that are looked at to find a source that is free."""

_FIRST = -(1 << 40)
"""Order of a copy that goes before all copies for which jobs wait."""

_Entry = tuple[tuple[int, int], int]
"""Order of the oldest job that waits for a value, and the value."""


class Transfers:
    """Transfers of one head. `workers` and `table` are the scheduler's own objects, not copies.

    Attributes:
        known: copies that are asked for or under way, by value and target.
        claims: amounts of the jobs that were sent to a worker and have not started there, by worker.
        coming: bytes that are asked for or under way, by target.
        reach: the pairs of workers, and how well copies go between them.
        rooms: the room in the stores of workers.
        rules: schema of the journals by whose rules these transfers decide.
        is_due: True if a transfer may have become possible.
        turned: workers to which the jobs or copies on their way have changed since the last pass.
        wake: time at which a pair of workers has rested, if a transfer waits for that.
    """

    __slots__ = ("_going_in", "_going_out", "_waiting", "_workers", "claims", "coming", "is_due", "known", "reach",
                 "rooms", "rules", "table", "turned", "wake")  # fmt: skip

    def __init__(self, workers: dict[int, WorkerState], table: ValueTable) -> None:
        self._workers = workers
        self.table = table
        self.known: dict[tuple[int, int], ReplicaCopy] = {}
        self.claims: dict[int, dict[str, int]] = {}
        self.coming: dict[int, int] = {}
        self.is_due = False
        self.turned: list[int] = []
        self.wake: float | None = None
        self._waiting: dict[int, list[_Entry]] = {}
        self._going_in: dict[int, int] = {}
        self._going_out: dict[int, int] = {}
        self.reach = Reach(workers)
        self.rooms = Rooms(workers, table, self.known, self.coming)
        self.rules = LAPSE_SCHEMA

    def seconds(self, inputs: Iterable[int], target: int, now: float) -> float:
        """Return the seconds that it takes to copy the values that a worker lacks there, one after another."""
        found = 0.0
        for number in inputs:
            value = self.table.values[number]
            if target not in value.replicas:
                direct = any(self.reach.is_direct(source, target, now) for source in value.replicas)
                found += value.size / self.reach.bytes_per_s(direct=direct)
        return found

    # --- jobs on their way -------------------------------------------------------------------------------------------

    def has_turn(self, worker: WorkerState, units: tuple[tuple[str, int], ...]) -> bool:
        """Return True if a worker may get another job: jobs may claim what is free there, and its capacity beyond."""
        claimed = self.claims.get(worker.id)
        if claimed is None:
            return True
        free, capacity = worker.free, worker.capacity
        return all(claimed.get(name, 0) + amount <= max(0, free[name]) + capacity[name] for name, amount in units)

    def goes_first(self, job: HeadJob, worker: WorkerState, now: float) -> bool:
        """Return True if an input of a job would be the next to be copied to a worker, before all that wait."""
        if self.rules < ASIDE_SCHEMA:
            return True
        values, target = self.table.values, worker.id
        lacking = [number for number in job.inputs if target not in values[number].replicas]
        if all((number, target) in self.known for number in lacking):
            return False
        waiting = self._waiting.get(target)
        first = self.known.get((waiting[0][1], target)) if waiting else None
        if waiting is None or first is None or first.source or order(job) < waiting[0][0]:
            return True
        return not self.table.can_be_had(first.value) or bool(self.rests(first.value, target, now))

    def send(self, job: HeadJob, worker: WorkerState) -> None:
        """Send a job, with its `claim`, to a worker, and ask for copies of the inputs that the worker lacks."""
        data = job.data
        assert data is not None
        data.target = worker.id
        claimed = self.claims.setdefault(worker.id, {})
        for name, amount in data.claim:
            claimed[name] = claimed.get(name, 0) + amount
        self.turned.append(worker.id)
        for number in data.inputs:
            value = self.table.values[number]
            if worker.id not in value.replicas:
                data.lacks += 1
                self._want(value, worker.id, job)
            self.table.bind(value, worker.id)

    def unclaim(self, job: HeadJob) -> None:
        """Drop a job's claim at its target, and its interest in copies: it starts, goes elsewhere or has ended."""
        data = job.data
        if data is None or not data.target:
            return
        claimed = self.claims.get(data.target)
        if claimed is not None:  # the worker has not been lost
            for name, amount in data.claim:
                claimed[name] -= amount
            if not any(claimed.values()):
                del self.claims[data.target]
            self.turned.append(data.target)
        self.wait_no_more(job)
        for number in data.inputs:
            self.table.unbind(self.table.values[number], data.target)
        data.target, data.claim = 0, ()
        self.table.note_room()

    def wait_no_more(self, job: HeadJob) -> None:
        """Let a job wait for no copy any more, because it lacks none, or goes elsewhere."""
        data = job.data
        if data is None or not data.lacks:
            return
        data.lacks = 0
        for number in data.inputs:
            transfer = self.known.get((number, data.target))
            if transfer is None or transfer.jobs.pop(job.id, None) is None:
                continue
            if not (transfer.jobs or transfer.source or transfer.is_safety):
                self._forget(transfer)

    def turn_away(self, worker: int) -> list[HeadJob]:
        """Give up copies to a worker that have not begun and serve no job; return the jobs that wait for the others."""
        bound = [transfer for transfer in self.known.values() if transfer.target == worker]
        for transfer in bound:
            transfer.is_safety = False
            if not (transfer.jobs or transfer.source):
                self._forget(transfer)
        return list({job.id: job for transfer in bound for job in transfer.jobs.values()}.values())

    def forget_copies(self) -> None:
        """Give up copies not begun that no job waits for, and whose values nothing needs, or no worker has."""
        for transfer in list(self.known.values()):
            value = transfer.value
            can_be_given = bool(value.replicas or value.origin)
            transfer.is_safety &= can_be_given or bool(transfer.source)
            if not (transfer.jobs or transfer.source or (value.is_needed and can_be_given)):
                self._forget(transfer)

    # --- what is asked for -------------------------------------------------------------------------------------------

    def copy(self, value: ValueState, target: int, *, first: bool = False) -> None:
        """Ask for a copy of a value whether or not a job needs it. A copy that goes `first` goes before all others,
        large values before small ones.
        """
        when = (_FIRST, -value.size) if first else (0, value.id)
        transfer = self.known.get((value.id, target))
        if transfer is None:
            transfer = self._ask(value, target, when)
        elif not (transfer.is_safety or transfer.source):
            self._push(target, when, value)
        transfer.is_safety = True

    def room_for_safety(self, worker: WorkerState) -> int:
        """Return the free bytes of a worker's store for copies for safety, beside those kept for a waiting job."""
        free, oldest = self.rooms.free(worker), self.rooms.claimant(worker)
        if oldest is None or self.rules < KEPT_SCHEMA:
            return free
        its_own = sum(self.known[key].size for number in oldest.inputs if (key := (number, worker.id)) in self.known)
        return min(free, its_own - self.rooms.shortage(worker, oldest) - self.coming.get(worker.id, 0))

    def may_copy(self, value: ValueState, worker: WorkerState, room: int) -> bool:
        """Return True if a value fits into the `room_for_safety` of a worker, or into what is kept there for a job that
        needs this value.
        """
        oldest = self.rooms.claims.get(worker.id)
        is_kept = self.rules >= KEPT_SCHEMA and oldest is not None and value.id in oldest.inputs
        return value.size <= (max(room, self.rooms.free(worker)) if is_kept else room)

    def _want(self, value: ValueState, target: int, job: HeadJob) -> None:
        transfer = self.known.get((value.id, target))
        if transfer is None:
            transfer = self._ask(value, target, order(job))
        elif not transfer.source:
            self._push(target, order(job), value)
        transfer.jobs[job.id] = job

    def _ask(self, value: ValueState, target: int, when: tuple[int, int]) -> ReplicaCopy:
        weight = 1 if value.size < SMALL_BYTES else WHOLE
        transfer = self.known[value.id, target] = ReplicaCopy(value, target, weight)
        self.coming[target] = self.coming.get(target, 0) + transfer.size
        self.table.filled[target] = None
        self._push(target, when, value)
        self.is_due = True
        return transfer

    def _push(self, target: int, when: tuple[int, int], value: ValueState) -> None:
        heappush(self._waiting.setdefault(target, []), (when, value.id))

    def count_coming(self) -> None:
        """Count again the bytes that come to each worker: the image of these transfers did not have the counts."""
        self.coming.clear()
        for transfer in self.known.values():
            transfer.size, transfer.is_safety = transfer.value.size, not transfer.jobs
            self.coming[transfer.target] = self.coming.get(transfer.target, 0) + transfer.size

    def _forget(self, transfer: ReplicaCopy) -> None:
        """Forget a copy that is not under way, or has ended."""
        del self.known[transfer.value.id, transfer.target]
        self.turned.append(transfer.target)
        self.coming[transfer.target] -= transfer.size
        if not self.coming[transfer.target]:
            del self.coming[transfer.target]
        self.table.note_room()

    def start(self, now: float, out: list[HeadAction]) -> None:
        """Start the copies that can go now, those for the oldest jobs first."""
        self.is_due = False
        self.wake = None
        started: dict[int, list[ReplicaCopy]] = {}
        for target in sorted(self._waiting, key=lambda target: self._waiting[target][0]):
            self._fill(target, now, started)
        for target, transfers in started.items():
            values = [transfer.value for transfer in transfers]
            columns = [value.id for value in values], [value.attempt for value in values]
            sizes, sources = [value.size for value in values], [one.source for one in transfers]
            out.append(FetchReplicas(target, *columns, sizes, sources, [not one.direct for one in transfers]))

    def _fill(self, target: int, now: float, started: dict[int, list[ReplicaCopy]]) -> None:
        waiting = self._waiting[target]
        passed: list[_Entry] = []
        seen: set[int] = set()
        while waiting and len(passed) < LOOKED_AT_MOST and self._going_in.get(target, 0) < AT_ONCE:
            entry = heappop(waiting)
            transfer = self.known.get((entry[1], target))
            if transfer is None or transfer.source or entry[1] in seen:
                continue
            seen.add(entry[1])
            source = self._source(transfer, now)
            if source and self._going_in.get(target, 0) + transfer.weight <= AT_ONCE:
                self._begin(transfer, source, now)
                started.setdefault(target, []).append(transfer)
            else:
                passed.append(entry)
        for entry in passed:
            heappush(waiting, entry)
        if not waiting:
            del self._waiting[target]

    def _begin(self, transfer: ReplicaCopy, source: int, now: float) -> None:
        transfer.source, transfer.began, transfer.attempt = source, now, transfer.value.attempt
        self.turned.append(transfer.target)
        if source == transfer.value.origin:
            transfer.direct, transfer.value.first_to = False, transfer.target
        else:
            transfer.direct = self.reach.is_direct(source, transfer.target, now)
        self._going_in[transfer.target] = self._going_in.get(transfer.target, 0) + transfer.weight
        self._going_out[source] = self._going_out.get(source, 0) + transfer.weight

    def _source(self, transfer: ReplicaCopy, now: float) -> int:
        """Return the worker from which a copy can come now; 0 if none is free. Direct sources go first; of these, the
        one with the fewest copies going out; of equal ones, the youngest replica.
        """
        target, reach = transfer.target, self.reach
        if transfer.value.origin and not transfer.value.replicas:
            return self._origin_for(transfer, now)
        able = [number for number in transfer.value.replicas if "suspect" not in self._workers[number].shut]
        ready = [number for number in able if not reach.rests_until(number, target, now)]
        direct = [number for number in ready if reach.is_direct(number, target, now)]
        best, least = 0, AT_ONCE - transfer.weight
        for number in direct or ready:
            going = self._going_out.get(number, 0)
            if going <= least:
                best, least = number, going
        if able and not ready:
            self._wake_at(min(reach.rests_until(number, target, now) for number in able))
        return best

    def _origin_for(self, transfer: ReplicaCopy, now: float) -> int:
        """Return the program that gives its own value, which no worker has; 0 if the program gives it to another
        worker, rests for this target, or has too many copies going out.
        """
        value = transfer.value
        until = self.reach.rests_until(value.origin, transfer.target, now)
        if until:
            self._wake_at(until)
        is_free = self._going_out.get(value.origin, 0) <= AT_ONCE - transfer.weight
        return value.origin if is_free and not (until or value.first_to) else 0

    def _wake_at(self, at: float) -> None:
        self.wake = at if self.wake is None else min(self.wake, at)

    def rests(self, value: ValueState, target: int, now: float) -> float:
        """Return the time until which every pair rests that could give a value to a worker; 0.0 if one does not."""
        sources = value.replicas or ((value.origin,) if value.origin else ())
        return min((self.reach.rests_until(number, target, now) for number in sources), default=0.0)

    def input_rests(self, job: HeadJob, worker: int, now: float) -> float:
        """Return until when an input cannot go to a worker that lacks it, as that failed; 0.0 if none rests."""
        values = map(self.table.values.__getitem__, job.inputs)
        ends = (self.rests(value, worker, now) for value in values if worker not in value.replicas)
        return next(filter(None, ends), 0.0)

    def may_wait_for(self, worker: WorkerState, job: HeadJob, now: float) -> bool:
        """Return True if a job with room at a worker may wait for it in its queue: no input of the job rests."""
        return self.rules < ASIDE_SCHEMA or not self.input_rests(job, worker.id, now)

    def has_failed(self, value: ValueState, target: int) -> bool:
        """Return True if the last copies to a worker failed, from whatever worker that has a value."""
        return all(self.reach.has_failed(number, target) for number in value.replicas)

    # --- how they end ------------------------------------------------------------------------------------------------

    def arrived(self, worker: int, number: int, attempt: int, now: float) -> list[HeadJob]:
        """Record that a copy is whole. Return the jobs to queue again: they lack nothing at the worker now, or the copy
        does not count, so that they go elsewhere.
        """
        transfer = self._end(worker, number, attempt)
        value = self.table.values.get(number)
        self.is_due = True
        if value is None or value.attempt != attempt or not value.is_needed:
            self.table.drop_stale(worker, number, attempt)
            return [] if transfer is None else list(transfer.jobs.values())
        self.table.whole(value, worker)
        if transfer is None:  # the copy was given up when its source was lost
            return self.is_here(worker, number)
        self.reach.worked(transfer.source, worker)
        if transfer.weight == WHOLE and now > transfer.began:
            self.reach.measured(transfer.value.size, now - transfer.began, direct=transfer.direct)
        return self._ready(transfer)

    def is_here(self, worker: int, number: int) -> list[HeadJob]:
        """Record that a worker has a value although no copy to it is under way; return the jobs that have all their
        inputs there now.
        """
        transfer = self.known.get((number, worker))
        if transfer is None or transfer.source:
            return []
        self._forget(transfer)
        return self._ready(transfer)

    def _ready(self, transfer: ReplicaCopy) -> list[HeadJob]:
        ready: list[HeadJob] = []
        for job in transfer.jobs.values():
            assert job.data is not None
            job.data.lacks -= 1
            if not job.data.lacks:
                ready.append(job)
        return ready

    def failed(self, event: ReplicasFailed, number: int, attempt: int, now: float) -> list[HeadJob]:
        """Record that a copy failed. Return the jobs that waited for it if no worker can give it for now, or its target
        refused it.
        """
        transfer = self._end(event.worker, number, attempt)
        if transfer is None:
            return []
        worker = self._workers[event.worker]
        if event.unreachable and transfer.direct:
            self.reach.unreachable(transfer.source, worker.id, now)
        elif event.refused and transfer.jobs and worker.store is not None and self.rules >= KEPT_SCHEMA:
            self.rooms.refuse(worker, number, now)
        else:
            self.reach.failed(transfer.source, worker.id, now)
        return self._again(transfer, now)

    def _again(self, transfer: ReplicaCopy, now: float) -> list[HeadJob]:
        """Ask again for a copy whose source has failed; return its jobs if no worker can give the value for now."""
        value, self.is_due = transfer.value, True
        is_gone = value.id not in self.table.values or not (value.is_needed or value.fn)
        if transfer.source and (is_gone or value.attempt != transfer.attempt):
            # No copy goes on with these bytes, so the target removes them. Otherwise they stay for the next copy.
            self.table.drop_stale(transfer.target, value.id, transfer.attempt)
        if not transfer.jobs:
            return []
        if (
            self._workers[transfer.target].over
            or not self.table.can_be_had(value)
            or self.rests(value, transfer.target, now)
            or (value.id, transfer.target) in self.rooms.refusals
        ):
            return list(transfer.jobs.values())
        oldest = min(transfer.jobs.values(), key=order)
        again = self._ask(value, transfer.target, order(oldest))
        again.jobs, again.is_safety = transfer.jobs, transfer.is_safety
        return []

    def _end(self, worker: int, number: int, attempt: int) -> ReplicaCopy | None:
        transfer = self.known.get((number, worker))
        if transfer is None or not transfer.source or transfer.attempt != attempt:
            return None
        self._forget(transfer)
        if transfer.value.first_to == worker:
            transfer.value.first_to = 0
        self._going_in[worker] -= transfer.weight
        self._going_out[transfer.source] -= transfer.weight
        for going, at in ((self._going_in, worker), (self._going_out, transfer.source)):
            if not going[at]:
                del going[at]
        return transfer

    def left(self, worker: int, now: float) -> list[HeadJob]:
        """Record that a worker is lost: copies to it and from it end without an answer. Return the jobs that were sent
        there, and the jobs whose inputs no worker can give now.
        """
        jobs: dict[int, HeadJob] = {}
        self.is_due = True
        for transfer in [one for one in self.known.values() if worker in (one.target, one.source)]:
            if transfer.source:
                self._end(transfer.target, transfer.value.id, transfer.attempt)
            else:
                self._forget(transfer)
            waited = transfer.jobs if transfer.target == worker else {job.id: job for job in self._again(transfer, now)}
            jobs.update(waited)
        self._waiting.pop(worker, None)
        self.claims.pop(worker, None)
        self.reach.left(worker)
        return list(jobs.values())

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self, jobs: dict[int, HeadJob]) -> None:
        """Raise `AssertionError` unless counts match the copies under way. For tests: walks over all."""
        coming, going_in, going_out = Counter[int](), Counter[int](), Counter[int]()
        for (number, target), transfer in self.known.items():
            assert (transfer.value.id, transfer.target) == (number, target)
            assert target in self._workers, "a copy is made for a worker that is gone"
            for job in transfer.jobs.values():
                assert jobs.get(job.id) is job and job.data is not None and job.data.target == target  # noqa: PT018
            can_begin = transfer.jobs or transfer.source or transfer.value.replicas or transfer.value.origin
            assert can_begin, f"room is kept at worker {target} for value {number}, which nobody has"
            coming[target] += transfer.size
            if transfer.source:
                going_in[target] += transfer.weight
                going_out[transfer.source] += transfer.weight
        counts = (coming, self.coming), (going_in, self._going_in), (going_out, self._going_out)
        assert all(found == kept for found, kept in counts), counts
        assert all(weight <= AT_ONCE for going in (going_in, going_out) for weight in going.values())
        claims: dict[int, Counter[str]] = defaultdict(Counter)
        bound = Counter[tuple[int, int]]()
        for job in jobs.values():
            if job.data is not None and job.data.target:
                bound.update((number, job.data.target) for number in job.data.inputs)
                to = [self.known.get((number, job.data.target)) for number in job.data.inputs]
                lacked = [transfer.value.id for transfer in to if transfer is not None and job.id in transfer.jobs]
                assert job.data.lacks == len(lacked), f"job {job.id} waits for {lacked}, and counts {job.data.lacks}"
                if job.data.target in self._workers:
                    claims[job.data.target].update(dict(job.data.claim))
        assert bound == self.table.bound, f"other jobs are on their way than {self.table.bound}"
        found, known = (
            {worker: Counter(units) for worker, units in some.items() if any(units.values())}
            for some in (claims, self.claims)
        )
        assert found == known, f"jobs on their way are counted with {known}, not {found}"

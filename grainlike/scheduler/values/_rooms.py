"""Room in the stores of workers, as the head counts it: the size of each store, its replicas, and what comes there.

All inputs that a job lacks at a worker have room there, or none of them is sent. Spare replicas are evicted for them,
unless a job there uses the replica or is on its way to it. The oldest job that will have room at a worker after such
evictions has a claim: nothing is sent there for younger jobs meanwhile. A job without room waits outside all queues, so
that other jobs of its class go on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping
from itertools import islice

from grainlike._shown import bytes_text
from grainlike.resources import fits_tiers
from grainlike.scheduler._records import HeadJob, order
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import UNLIMITED, WorkerState
from grainlike.scheduler.values._inputs import RoomTries
from grainlike.scheduler.values._reach import REST_S
from grainlike.scheduler.values._records import ReplicaCopy, ValueState
from grainlike.scheduler.values._table import ValueTable

__all__ = ["KEPT_SCHEMA", "LAPSE_SCHEMA", "Rooms", "tries_text"]

LOOKED_AT_MOST = 64
"""Most jobs without room that one pass looks at."""

KEPT_SCHEMA = 8
"""Schema of journals since which inputs have room only where each fits whole into one tier beside what is kept; copies
for safety leave the room alone that is kept for a waiting job; jobs keep none while an input is made again; own values
travel with a job for which nothing could make room for long; and a job has no room for a while where one was refused.
"""

LAPSE_SCHEMA = 9
"""Schema of journals since which refusals lapse also while no job waits outside its queue; a job does not wait for the
room that another worker has for its value if its inputs have none there; and passes use the index of waiting classes
from 17 of them on (`planning._waiting`).
"""

PACKED_MOST = 64
"""Most values that are packed into two tiers. More count as fitting."""

_IsOpen = Callable[[WorkerState, HeadJob], bool]
"""Returns True if the inputs that a worker lacks of a job can be copied there now."""


class Rooms:
    """Room at the workers of one head. The arguments are the scheduler's own objects, not copies.

    Attributes:
        claims: oldest job that waits for room, by worker.
        parked: jobs that wait for room outside all queues; jobs that were looked at last stand at the end.
        without_room: jobs of the last look that will have room at no worker, even without its spare replicas.
        misfits: jobs whose inputs fit into no store, to be looked at before the turn ends.
        refusals: values that workers could not write for jobs, by value and worker: until when, and what was kept then.
        rules: schema of the journals by whose rules room is counted.
        warned: functions for which it was reported that inputs of their jobs fit into no store.
    """

    __slots__ = (
        "_coming",
        "_known",
        "_table",
        "_workers",
        "claims",
        "misfits",
        "parked",
        "refusals",
        "rules",
        "warned",
        "without_room",
    )

    def __init__(
        self,
        workers: Mapping[int, WorkerState],
        table: ValueTable,
        known: Mapping[tuple[int, int], ReplicaCopy],
        coming: Mapping[int, int],
    ) -> None:
        self._workers = workers
        self._table = table
        self._known = known
        self._coming = coming
        self.claims: dict[int, HeadJob] = {}
        self.without_room: dict[int, HeadJob] = {}
        self.parked: dict[int, HeadJob] = {}
        self.misfits: dict[int, HeadJob] = {}
        self.refusals: dict[tuple[int, int], tuple[float, int]] = {}
        self.warned: set[int] = set()
        self.rules = LAPSE_SCHEMA

    # --- what can never be ------------------------------------------------------------------------------------------

    def could_hold(self, worker: WorkerState, inputs: Iterable[int]) -> bool:
        """Return True if a worker has these values, or if its empty store could hold them all."""
        if worker.store is None:
            return True
        values = [self._table.values[number] for number in inputs]
        is_here = all(worker.id in value.replicas for value in values)
        return is_here or fits_tiers([value.size for value in values], *worker.store)

    def is_misfit(self, job: HeadJob) -> bool:
        """Return True if some worker could run a job, and no such worker's empty store could hold the inputs."""
        able = self._able(job)
        return bool(able) and not any(self.could_hold(worker, job.inputs) for worker in able)

    def note_misfit(self, job: HeadJob) -> None:
        """Look at a job before the turn ends, because its inputs fit into no store."""
        self.misfits[job.id] = job
        self._table.unsettled = True

    def is_missed(self, gone: WorkerState) -> bool:
        """Return True if a worker that has gone had a larger store than a worker that is left."""
        stores = [worker.store for worker in self._workers.values() if worker.store is not None]
        return any(gone.store is None or sum(store) < sum(gone.store) for store in stores)

    def travelling(self, job: HeadJob) -> list[int]:
        """Return the inputs of a job that are its program's own values; none if no store could hold the others."""
        own = [number for number in job.inputs if self._table.values[number].origin]
        others = [number for number in job.inputs if number not in own]
        return own if any(self.could_hold(worker, others) for worker in self._able(job)) else []

    def largest(self) -> int:
        """Return the bytes of the largest value that an empty store could hold."""
        stores = [worker.store for worker in self._workers.values()]
        return max((UNLIMITED if store is None else max(store) for store in stores), default=UNLIMITED)

    def widest(self, job: HeadJob) -> WorkerState:
        """Return the worker with the largest store among the workers that could run a job; there is one."""
        return max(self._able(job), key=lambda worker: (sum(worker.store or ()), -worker.id))

    def why_misfit(self, job: HeadJob) -> str:
        """Return the size of a job's inputs and the largest store for them, in words."""
        widest = self.widest(job)
        size, most = self._table.total(job.inputs), sum(widest.store or ())
        return f"its inputs are {bytes_text(size)}; {widest.name} has room for {bytes_text(most)} at most"

    def why_not_now(self, job: HeadJob) -> tuple[WorkerState, str] | None:
        """Return a worker that could start a job but has no room for its inputs, and its room in words. Return None if
        the job lacks no room, or no worker could start it.
        """
        able, with_room = self.fitting_now(job)
        if not able or with_room is not None:
            return None
        widest = max(able, key=lambda worker: (self.free(worker, job.inputs), -worker.id))
        size, free = self._table.total(job.inputs), max(0, self.free(widest, job.inputs))
        if widest.over:
            return widest, f"{widest.name} keeps {bytes_text(widest.over)} more than it has room for"
        oldest = self.claimant(widest)
        if oldest is not None and free >= self._lacking(widest, job):
            return widest, f"the room of {widest.name} is kept for the inputs of job {oldest.id}, which is older"
        parted = ", and not for each whole in memory or on disk" if free >= self._lacking(widest, job) else ""
        found = f"its inputs are {bytes_text(size)}; {widest.name} has room for {bytes_text(free)} of them now"
        return widest, found + parted

    def why_unpaid(self, job: HeadJob) -> str:
        """Return which bytes a job lacks at a worker with an overdraft, and how large that is, in words."""
        over = [worker for worker in self.hosts(job) if worker.over]
        worker = min(over, key=lambda worker: (self._lacking(worker, job), worker.over, worker.id))
        size, lacking = self._table.total(job.inputs), self._lacking(worker, job)
        return (
            f"its inputs are {bytes_text(size)}, of which {worker.name} lacks {bytes_text(lacking)};"
            f" {worker.name} keeps {bytes_text(worker.over)} more than it has room for, and nothing can pay that back"
        )

    def able(self, job: HeadJob) -> list[WorkerState]:
        """Return the workers that could run a job, and whose empty stores could hold its inputs. If the job's value
        found no room somewhere, these are the workers where it may find some.
        """
        untried = [] if job.tried is None else self._could_give(job, job.tried.size)
        return untried or self.hosts(job)

    def hosts(self, job: HeadJob) -> list[WorkerState]:
        """Return the workers that could run a job, and whose empty stores could hold its inputs."""
        return [worker for worker in self._able(job) if self.could_hold(worker, job.inputs)]

    def fitting_now(
        self, job: HeadJob, is_open: _IsOpen = lambda _worker, _job: True
    ) -> tuple[list[WorkerState], WorkerState | None]:
        """Return the workers that could start a job now if its inputs were there and whose empty stores could hold
        them; and the first of these workers that has room now and is open to the inputs.
        """
        able = [worker for worker in self.able(job) if any(map(worker.fits_now, job.cls.shapes))]
        return able, next((worker for worker in able if self.has_room(worker, job) and is_open(worker, job)), None)

    def _able(self, job: HeadJob) -> list[WorkerState]:
        return [worker for worker in self._workers.values() if any(map(worker.fits_ever, job.cls.shapes))]

    # --- what can be now --------------------------------------------------------------------------------------------

    def free(self, worker: WorkerState, beside: Container[int] = ()) -> int:
        """Return the free bytes of a worker's store. Unused spare replicas that are not in `beside` are free."""
        if worker.store is None:
            return UNLIMITED
        number = worker.id
        free = sum(worker.store) - self._table.stored.get(number, 0) - self._coming.get(number, 0)
        here = self._table.spare.get(number)
        if here:
            used = (self._table.values[value] for value in here if value not in beside)
            free += sum(here[value.id] for value in used if not self.is_used(value, number))
        return free

    def has_more_elsewhere(self, worker: WorkerState, job: HeadJob) -> WorkerState | None:
        """Return another worker that could run a job and has room for the largest value of the job's function so far,
        or for the job's own value if that found no room here. Return None if this worker has that room, or none has.
        """
        tries = job.tried
        size = job.fn.gives if tries is None else tries.size
        is_tried = tries is not None and worker.id in tries.workers
        if not (is_tried or (size and self.free(worker) < size)):
            return None
        others = (other for other in self._could_give(job, size) if other is not worker)
        if not is_tried:
            others = (one for one in others if not (one.shut or one.over or self._lacks_room(one, job, size)))
            if self.rules >= LAPSE_SCHEMA:
                others = (one for one in others if self.shortage(one, job) <= 0)
        return next(others, None)

    def _lacks_room(self, worker: WorkerState, job: HeadJob, size: int) -> bool:
        """Return True if a worker has no room now for so many bytes beside a job's inputs."""
        return self.free(worker, job.inputs) < size + self._lacking(worker, job)

    # --- what found none ---------------------------------------------------------------------------------------------

    def lacked(self, worker: WorkerState, job: HeadJob, size: int) -> bool:
        """Record that the value of a job found no room at a worker, and how large it was; return True if the job may
        run again where it was not tried.
        """
        if size <= self.largest():
            job.fn.gives = max(job.fn.gives, size)
        extra = job.remembered()
        tries = extra.tried = extra.tried or RoomTries()
        tries.size = size
        tries.workers[worker.id] = f"{worker.name} (store {bytes_text(max(worker.store or (0,)))})"
        return job.parent is None and job.fn.losses > 0 and bool(self._could_give(job, size))

    def _could_give(self, job: HeadJob, size: int) -> list[WorkerState]:
        """Return the workers at which a job may give so many bytes, as their stores could hold these beside its inputs,
        and its value was not without room there.
        """
        sizes = [size, *(self._table.values[number].size for number in job.inputs)]
        others = [worker for worker in self._alone(job) if job.tried is None or worker.id not in job.tried.workers]
        return [worker for worker in others if worker.store is None or fits_tiers(sizes, *worker.store)]

    def let_repeat(self, jobs: Iterable[HeadJob]) -> bool:
        """Let the oldest of these jobs that can run once more where its value found no room; return True if one can.

        They wait for room for their inputs at other workers. If jobs that wait in the same way need what stays there,
        each waits for the room of another, and all would wait for ever.
        """
        tried = sorted((job for job in jobs if job.tried is not None), key=order)
        soon = self._soon_free() if tried else {}
        for job in tried:
            worker = self._repeats_at(job, soon)
            if worker is not None and job.tried is not None:
                job.tried.repeat(worker.id)
                return True
        return False

    def _repeats_at(self, job: HeadJob, soon: Mapping[int, int]) -> WorkerState | None:
        """Return a worker where the value of a job found no room, and has room now. Return None without one, and while
        another worker may have room for its inputs once the bytes of `soon` are free.
        """
        tries = job.tried
        if tries is None:
            return None
        for worker in self._workers.values():
            has_room = not (worker.shut or worker.over or self._lacks_room(worker, job, tries.size))
            if tries.may_repeat(worker.id) and has_room:
                able = self.able(job)
                hopeless = all(self.shortage(other, job) > soon.get(other.id, 0) for other in able)
                return worker if hopeless and not any(self._is_refused(other, job) for other in able) else None
        return None

    def _soon_free(self) -> dict[int, int]:
        """Return the bytes at each worker that may become free as jobs end that are at workers, or on their way there,
        and as copies arrive elsewhere.
        """
        active = [job for worker in self._workers.values() for job in worker.held.values()]
        active += [job for copy in self._known.values() for job in copy.jobs.values()]
        numbers = {number for job in active for number in job.inputs} | {number for number, _ in self._known}
        found: dict[int, int] = {}
        for value in filter(None, map(self._table.values.get, numbers)):
            for worker in value.replicas:
                if value.id not in self._table.spare.get(worker, ()):
                    found[worker] = found.get(worker, 0) + value.size
        return found

    def why_nowhere(self, job: HeadJob) -> str:
        """Return in words where the value of a job found no room, and why it is not made elsewhere; empty where the
        worker that it was made at is the only one.
        """
        tries = job.tried
        others = [] if tries is None else [worker for worker in self._alone(job) if worker.id not in tries.workers]
        if tries is None or not (others or len(set(map(abs, tries.workers))) > 1):
            return ""
        if not others:
            return tries_text(tries)
        if not job.fn.losses:
            return f"{tries_text(tries)}, and its function may not run again (losses=0)"
        widest = max(others, key=lambda worker: (max(worker.store or (0,)), -worker.id))
        store = bytes_text(max(widest.store or (0,)))
        return f"{tries_text(tries)}; the largest store of all others that could run it, {widest.name}'s, is {store}"

    def _alone(self, job: HeadJob) -> list[WorkerState]:
        """Return the workers that could run a job by themselves."""
        shapes = [shape for shape in job.cls.shapes if shape.nodes == 1]
        return [worker for worker in self._workers.values() if any(map(worker.fits_ever, shapes))]

    # --- room for inputs ---------------------------------------------------------------------------------------------

    def has_room(self, worker: WorkerState, job: HeadJob) -> bool:
        """Return True if the inputs that a job lacks at a worker may be sent there, or it may use all of them there."""
        if worker.store is None:
            return True
        lacking = self._lacking(worker, job)
        if not lacking and not self._table.missing(job.inputs, worker.id):
            return self.may_use(worker, job)
        if worker.over or self.free(worker, job.inputs) < lacking:
            return False
        if self.rules >= KEPT_SCHEMA and self.shortage(worker, job) > 0:
            return False
        oldest = self.claimant(worker)
        return oldest is None or order(job) <= order(oldest)

    def may_use(self, worker: WorkerState, job: HeadJob) -> bool:
        """Return True if a job may start at a worker that has its inputs. The room of spare replicas among these may be
        promised to copies on their way or to an older job; then only a job that was sent there with its inputs may.
        """
        spare = self._table.spare.get(worker.id)
        if worker.store is None or not spare or job.data is None or job.data.target == worker.id:
            return True
        found = [number for number in job.inputs if number in spare]
        unused = sum(spare[value] for value in found if not self.is_used(self._table.values[value], worker.id))
        if unused and worker.id in self._coming and self.free(worker) < unused:
            return False
        oldest = self.claimant(worker)
        return oldest is None or order(job) <= order(oldest) or set(found) <= set(oldest.inputs)

    def claim(self, worker: WorkerState, job: HeadJob) -> None:
        """Keep a worker's room for a job that has none there now, if no older job will have room there."""
        oldest = self.claimant(worker)
        if (oldest is None or order(job) < order(oldest)) and self._will_have_room(worker, job):
            self.claims[worker.id] = job
            self._table.filled[worker.id] = None

    def wait_again(self, jobs: Iterable[HeadJob]) -> None:
        """Record that jobs wait in queues again; a worker's room may still be kept for them."""
        numbers = {job.id for job in jobs}
        for worker, job in self.claims.items():
            if job.id in numbers:
                self._table.filled[worker] = None

    def claimant(self, worker: WorkerState) -> HeadJob | None:
        """Return the job for which a worker's room is kept; None without one."""
        oldest = self.claims.get(worker.id)
        return oldest if oldest is not None and self._will_have_room(worker, oldest) else None

    def is_kept(self, worker: WorkerState) -> bool:
        """Return True if a worker's room is kept for a job; heads of before counted jobs that waited no more."""
        return worker.id in self.claims and (self.rules < KEPT_SCHEMA or self.claimant(worker) is not None)

    def is_used(self, value: ValueState, worker: int) -> bool:
        """Return True if a job that is at a worker, or on its way there, needs a value."""
        users = (value.users or {}).values()
        return any(job.worker == worker or (job.data is not None and job.data.target == worker) for job in users)

    # --- jobs that wait for it ---------------------------------------------------------------------------------------

    @property
    def are_awaited(self) -> bool:
        """True while jobs wait outside all queues, or a job in a queue may wait until a refusal lapses."""
        return bool(self.parked or (self.refusals and self.rules >= LAPSE_SCHEMA))

    def park(self, job: HeadJob) -> None:
        """Let a job that is in no queue wait for room."""
        job.state = JobState.MOVING
        self.parked[job.id] = job
        able = self.able(job)
        if not any(self.has_room(worker, job) for worker in able):
            self._note_if_cramped(job, able)

    def waits(self, job: HeadJob) -> bool:
        """Return True while a job waits in a queue, or for room."""
        return (job.state is JobState.QUEUED and not job.cancelled) or self.parked.get(job.id) is job

    def take_ready(self, is_open: _IsOpen) -> list[HeadJob]:
        """Return the jobs to queue again because there is room for their inputs, at workers that are open to these.
        Look at parked jobs that have a claim, and at `LOOKED_AT_MOST` others whose last look is longest ago.
        """
        self.claims = {at: job for at, job in self.claims.items() if at in self._workers and self.waits(job)}
        self.without_room = {}
        claiming = {job.id: job for job in self.claims.values() if job.id in self.parked}
        looked_at = {**claiming, **dict(islice(self.parked.items(), LOOKED_AT_MOST))}
        for number in looked_at:
            self.parked[number] = self.parked.pop(number)
        ready = [job for job in sorted(looked_at.values(), key=order) if self._is_ready(job, is_open)]
        for job in ready:
            del self.parked[job.id]
        return ready

    def _is_ready(self, job: HeadJob, is_open: _IsOpen) -> bool:
        """Return True if a worker that could start a job now has room for its inputs, and is open to them; claim the
        room of workers that have none.
        """
        able = self.able(job)
        with_room = [worker for worker in able if self.has_room(worker, job)]
        for worker in able:
            if worker not in with_room:
                self.claim(worker, job)
        if not with_room:
            self._note_if_cramped(job, able)
        able_now = (worker for worker in with_room if any(map(worker.fits_now, job.cls.shapes)))
        return any(is_open(worker, job) for worker in able_now)

    def _note_if_cramped(self, job: HeadJob, able: list[WorkerState]) -> None:
        """Remember a job without room if none of the workers that could hold its inputs will have room."""
        if able and not any(self._will_have_room(worker, job) for worker in able):
            self.without_room[job.id] = job

    def _lacking(self, worker: WorkerState, job: HeadJob) -> int:
        """Return the bytes of a job's inputs that a worker does not have, and that are not on their way there."""
        values, number = self._table.values, worker.id
        lacking = (values[value] for value in job.inputs if (value, number) not in self._known)
        return sum(value.size for value in lacking if number not in value.replicas)

    def _will_have_room(self, worker: WorkerState, job: HeadJob) -> bool:
        """Return True if a waiting job has room at a worker once all spare replicas there are evicted."""
        if not self.waits(job) or worker.store is None or worker.leaving or worker.shut:
            return False
        are_known = all(number in self._table.values for number in job.inputs)
        return are_known and self.shortage(worker, job) <= 0

    def shortage(self, worker: WorkerState, job: HeadJob) -> int:
        """Return the bytes that a job lacks at a worker once all spare replicas there are evicted; 0 or less if it has
        room. It lacks one at least where memory and disk have the bytes together, and neither has them for a value; or
        where the worker has refused one.
        """
        if worker.store is None:
            return 0
        spare = self._table.spare.get(worker.id, {})
        values = [self._table.values[number] for number in job.inputs]
        sizes = [value.size for value in values if worker.id not in value.replicas or value.id in spare]
        lacking = self._kept(worker) + sum(sizes) - sum(worker.store)
        if lacking > 0 or (self._fit_whole(worker, sizes, -lacking) and not self._is_refused(worker, job)):
            return lacking
        return 1

    def refuse(self, worker: WorkerState, number: int, now: float) -> None:
        """Record that a worker could not write a copy for a job: what it keeps may lie so that neither memory nor disk
        has room for the value. There is none for a while, or until the worker keeps less.
        """
        self.refusals[number, worker.id] = now + REST_S, self._kept(worker)

    def _is_refused(self, worker: WorkerState, job: HeadJob) -> bool:
        """Return True if a worker refused an input of a job a short while ago, and keeps no less than then."""
        refusals = (self.refusals[number, worker.id] for number in job.inputs if (number, worker.id) in self.refusals)
        return any(kept <= self._kept(worker) for _, kept in refusals)

    def _kept(self, worker: WorkerState) -> int:
        """Return the bytes of the primaries of a worker."""
        return self._table.stored.get(worker.id, 0) - sum(self._table.spare.get(worker.id, {}).values())

    def _fit_whole(self, worker: WorkerState, sizes: list[int], left: int) -> bool:
        """Return True if values of these sizes fit beside the primaries of a worker, each whole into one tier. `left`
        bytes stay free.
        """
        # A value of that size or less always fits: one tier has half of what is free before it comes, at least.
        store = worker.store or (0, 0)
        if self.rules < KEPT_SCHEMA or min(max(sizes, default=0), *store) <= left:
            return True
        table = self._table
        listed = table.primaries.of(worker.id, table.values, table.spare.get(worker.id, {}))
        large = listed[bisect_left(listed, (left + 1,)) :]
        found = [size for size in sizes if size > left] + [size for size, _ in large]
        return len(found) > PACKED_MOST or fits_tiers(found, *store)

    def check_at_rest(self) -> None:
        """Raise `AssertionError` if a job waits for room elsewhere in vain. For tests."""
        soon = self._soon_free()
        vain = [job.id for job in self.parked.values() if self._repeats_at(job, soon) is not None]
        assert not vain, f"jobs {vain} could run once more where their values found no room"


def tries_text(tries: RoomTries) -> str:
    """Return in words where the value of a job found no room."""
    stores = dict.fromkeys(tries.workers.values())  # a worker may be named twice, as `RoomTries` says
    return f"its value of {bytes_text(tries.size)} found no room at {' and '.join(stores)}"

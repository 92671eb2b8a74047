"""Values of one head: events about them, which values are made again, and which are given up.

`_replication` decides how many replicas there are. `settle` ends a turn, by worklist: jobs that have ended lose their
interest, values that are needed and have no replica are made again or given up, and values that nothing needs are
removed. A value is made again by its own job, under the same number, as the job's next attempt. The function's `losses`
must allow that, and the lineage must be kept.
"""

from __future__ import annotations

from grainlike.scheduler._events import HeadAction, JobsSubmitted
from grainlike.scheduler._job_tree import stands_still
from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._state import SchedulerState
from grainlike.scheduler._states import JobState
from grainlike.scheduler._value_events import (
    CopiesLost,
    CopyMade,
    GiveValues,
    InputsLost,
    JobsRevived,
    LineageDropped,
    OverdraftUnpaid,
    OwnValuesAdded,
    OwnValuesFreed,
    OwnValuesLost,
    ReplicasArrived,
    ReplicasDropped,
    ReplicasFailed,
    ReplicasGone,
    ReplicationAsked,
    ValueEvent,
    ValuesForgotten,
    ValuesGiven,
    ValuesLost,
    ValuesReleased,
    ValuesWanted,
)
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.values._misfits import Misfits
from grainlike.scheduler.values._overdrafts import PAYBACK_S
from grainlike.scheduler.values._records import CopyReader, ValueState
from grainlike.scheduler.values._replication import EVERYWHERE, SAFE_COPIES
from grainlike.scheduler.values._rooms import KEPT_SCHEMA, LOOKED_AT_MOST
from grainlike.scheduler.values._transfers import ASIDE_SCHEMA
from grainlike.wire import Code, Completed

__all__ = ["Values"]

_NOT_KEPT = "the head does not keep it any more"

ROUND_S = 0.02
"""Seconds between two looks at different jobs that wait for room."""


class Values:
    """Handles events about values. `state` is the scheduler's state.

    Attributes:
        misfits: jobs whose inputs no store could hold.
        revived: True if a job makes a value again.
        room_wake: time of the next look at jobs that wait for room if no event comes before; None without one.
    """

    __slots__ = (
        "_leaving", "_replication", "_spares", "_state", "_table", "_transfers", "_unseen", "misfits", "revived",
        "room_wake",
    )  # fmt: skip

    def __init__(self, state: SchedulerState) -> None:
        self.revived = False
        self.room_wake: float | None = None
        self._unseen = 0
        """Number of jobs that wait for room and were not looked at since the last event."""
        self._state = state
        self._table = state.values
        self._transfers = state.transfers
        self._leaving = state.leaving
        self._replication = state.replication
        self._spares = state.spares
        self.misfits = Misfits(state)

    def handle(self, event: ValueEvent, now: float, out: list[HeadAction]) -> None:
        """Handle an event about values."""
        table = self._table
        match event:
            case ValuesReleased():
                for number in event.values:
                    table.release(number)
            case ValuesWanted():
                self._wanted(event.values, out)
            case ValuesGiven():
                for number in event.values:
                    self._given(number)
            case ReplicasArrived():
                self._arrived(event, now, out)
            case ReplicasFailed():
                self._failed(event, now, out)
            case ReplicasGone():
                worker = self._state.workers.get(event.worker)
                if worker is not None:
                    known = table.values
                    rows = zip(event.values, event.attempts, strict=True)
                    current = [value for value, attempt in rows if value in known and known[value].attempt == attempt]
                    self.gone(worker, current, out)
            case LineageDropped():
                for number in event.values:
                    table.give_up_lineage(number)
            case OwnValuesAdded():
                for number, size in zip(event.values, event.sizes, strict=True):
                    table.add_own(event.origin, number, size)
            case OwnValuesLost():
                self._lose_origins(event.values)
            case ReplicationAsked():
                self._replicate(event.values, event.copies or EVERYWHERE, out)
            case CopyMade():
                value, reader = table.values.get(event.value), table.values.get(event.reader)
                if value is not None and reader is not None:
                    value.durable = CopyReader(reader)

    def _arrived(self, event: ReplicasArrived, now: float, out: list[HeadAction]) -> None:
        """Record copies that are whole; queue the jobs that waited for them, and give the values to readers outside."""
        ready: list[HeadJob] = []
        if event.worker in self._state.workers:
            for number, attempt in zip(event.values, event.attempts, strict=True):
                ready += self._transfers.arrived(event.worker, number, attempt, now)
                ready += self._parked_for(number)
                self._give(number, out)
                if self._state.relocations.under_way:
                    self._state.relocations.arrived(number, event.worker)
                self._came(number, event.worker, now)
        self._queue_again(ready, out)

    def _failed(self, event: ReplicasFailed, now: float, out: list[HeadAction]) -> None:
        """Record copies that have failed; queue the jobs whose inputs no worker can give for now."""
        back: list[HeadJob] = []
        for number, attempt in zip(event.values, event.attempts, strict=True):
            back += self._transfers.failed(event, number, attempt, now)
            self._replication.look_at(self._table.values.get(number))
        self._queue_again(back, out)

    # --- jobs --------------------------------------------------------------------------------------------------------

    def admit(
        self, jobs: list[HeadJob], event: JobsSubmitted, out: list[HeadAction]
    ) -> tuple[list[HeadJob], list[int]]:
        """Queue new jobs that need values; return the other jobs, with their ages."""
        known = self._table.values
        others: list[HeadJob] = []
        their_ages: list[int] = []
        mine: list[HeadJob] = []
        ages = event.ages or [0] * len(jobs)
        for job, named, age in zip(jobs, event.inputs, ages, strict=True):
            inputs = tuple(dict.fromkeys(named))
            unknown = next((number for number in inputs if number not in known), 0)
            if not inputs:
                others.append(job)
                their_ages.append(age)
            elif unknown:
                self._state.drop(job)
                out.append(InputsLost([job.id], unknown, _NOT_KEPT))
            else:
                job.inherit(age)
                self._table.need(job, inputs)
                mine.append(job)
        self._state.queue_new(mine)
        return others, their_ages

    def records(self, worker: WorkerState, completed: Completed) -> list[HeadJob | None]:
        """Return the job of each attempt in a report that has values; None for an attempt that does not count."""
        current = self._state.current
        return [current(worker, *row) for row in zip(completed.jobs, completed.attempts, strict=True)]

    def born(
        self,
        worker: WorkerState,
        completed: Completed,
        jobs: list[HeadJob | None],
        rows: list[int],
        now: float,
        out: list[HeadAction],
    ) -> None:
        """Record the values of attempts that succeeded (`rows`); let the worker remove the values of other attempts."""
        table, counted = self._table, set(rows)
        for row, job in enumerate(jobs):
            size, attempt = completed.sizes[row], completed.attempts[row]
            if not size:
                continue
            if job is None or row not in counted or completed.codes[row] != Code.SUCCEEDED:
                table.drop_stale(worker.id, completed.jobs[row], attempt)
                continue
            again = job.id in table.values
            if job.data is not None and job.data.remakes and not again:
                table.drop_stale(worker.id, job.id, attempt)
                continue
            job.fn.gives = max(job.fn.gives, size)
            value = table.born(job, attempt, size, worker.id)
            if again:
                value.recomputed += job.fn is value.fn
                self._whole_again(value, out)
            elif not job.fn.losses:
                self._replication.keep(value, SAFE_COPIES)
            self._came(value.id, worker.id, now)

    def _queue_again(self, jobs: list[HeadJob], out: list[HeadAction]) -> None:
        """Queue jobs that were on their way or parked: their inputs are there, or they must go elsewhere."""
        moving = [job for job in dict.fromkeys(jobs) if job.state is JobState.MOVING]
        for job in moving:
            self._table.parked.pop(job.id, None)
            self._transfers.rooms.parked.pop(job.id, None)
        self._state.requeue(moving, out)

    # --- readers outside the workers ---------------------------------------------------------------------------------

    def _wanted(self, numbers: list[int], out: list[HeadAction]) -> None:
        for number in numbers:
            value = self._table.values.get(number)
            if value is None:
                out.append(ValuesLost([number], _NOT_KEPT))
                continue
            value.asked += 1
            self._give(number, out)
            if value.asked and not value.replicas:
                self._table.lacks(value)

    def _give(self, number: int, out: list[HeadAction]) -> None:
        """Let a worker give a value to the readers outside that want it, if a worker can."""
        value = self._table.values.get(number)
        if value is None or not (value.asked and value.replicas) or not self._table.can_be_had(value):
            return
        shut = {worker: "suspect" in self._state.workers[worker].shut for worker in value.replicas}
        giver = next(worker for worker in value.replicas if not shut[worker])
        out += [GiveValues(giver, [number], [value.attempt], [value.size]) for _ in range(value.asked)]
        value.givers += (giver,) * value.asked
        value.asked = 0

    def _given(self, number: int) -> None:
        value = self._table.values.get(number)
        if value is None:
            return
        if value.givers:
            value.givers = value.givers[1:]
        elif value.asked:
            value.asked -= 1
        self._table.look_at(value)

    def _replicate(self, numbers: list[int], copies: int, out: list[HeadAction]) -> None:
        """Keep this many replicas of values; the program that asked is told when they are there."""
        for number in numbers:
            value = self._table.values.get(number)
            if value is None:
                out.append(ValuesLost([number], _NOT_KEPT))
                continue
            value.unreached = True
            self._replication.keep(value, copies)
            if not value.replicas:
                self._table.lacks(value)

    def _came(self, number: int, worker: int, now: float) -> None:
        """Record that a worker has a value; if the worker leaves, other workers get the value in time."""
        value = self._table.values.get(number)
        if value is not None:
            self._leaving.has(value, worker)
            self._leaving.watch(self._state.workers[worker], now)
            self._replication.look_at(value)

    # --- workers -----------------------------------------------------------------------------------------------------

    def left(self, worker: WorkerState, now: float, out: list[HeadAction]) -> None:
        """Record that a worker and its replicas are lost. Its own jobs are queued again elsewhere in the scheduler."""
        table = self._table
        table.drops.pop(worker.id, None)
        self._leaving.lost(worker.id)
        self._state.overdrafts.lost(worker.id)
        if not (table.values or self._transfers.known):
            return
        for value in list(table.values.values()):
            if worker.id in value.replicas:
                table.gone(value, worker.id, f"worker {worker.name} was lost with it")
                self._give(value.id, out)
        for value in list(table.values.values()):
            self._ask_origin(value, out)
        self._transfers.forget_copies()  # of what is nowhere now: the room that they were to have is for others
        self._replication.look_at_all()
        astray = self._transfers.left(worker.id, now)
        self._queue_again(astray, out)
        self.rehome(worker.id, out)
        if self._transfers.rooms.is_missed(worker):
            self.misfits.recheck()

    def leaving(self, worker: WorkerState, out: list[HeadAction], *, held: bool) -> None:
        """Let a leaving worker give away the values that only it has, and release it then if `held`. Jobs on their way
        to it go elsewhere.
        """
        self._leaving.begin(worker, held=held)
        self._queue_again(self._transfers.turn_away(worker.id), out)
        self._replication.look_at_all()
        if self._transfers.rooms.is_missed(worker):
            self.misfits.recheck()

    def exceeded(self, worker: WorkerState, over: int, out: list[HeadAction]) -> None:
        """Record by how many bytes a worker's values exceed its store. Nothing is sent there while they do."""
        began = over and not worker.over
        self._state.overdrafts.changed(worker, over)
        if began:
            self._queue_again(self._transfers.turn_away(worker.id), out)
        if began or not over:
            self._replication.look_at_all()

    def watch(self, now: float) -> None:
        """Let workers whose end is near give away the values that only they have."""
        if self._leaving.look(now):
            self._replication.look_at_all()

    def rehome(self, worker: int, out: list[HeadAction]) -> None:
        """Queue again the jobs that wait near a worker that is gone."""
        state = self._state
        for cls in [cls for cls in state.catalogue.classes.values() if cls.near == worker]:
            jobs = cls.live()
            cls.clear()
            for job in jobs:
                state.planner.reserving.release(job)
            state.planner.waiting.touch(cls)
            state.requeue(jobs, out)

    def heard(self, out: list[HeadAction]) -> None:
        """Record that a suspected worker is back, or that one has joined; values that only it has can be had again."""
        self._transfers.is_due = True
        self._replication.look_at_all()
        for value in self._table.values.values():
            if value.asked:
                self._give(value.id, out)
        self._queue_again(list(self._table.parked.values()), out)

    def missed(self, worker: WorkerState, completed: Completed, out: list[HeadAction]) -> None:
        """Record the inputs that jobs did not find at the worker where they were to begin."""
        known, gone = self._table.values, set(completed.gone)
        for number, attempt, code in zip(completed.jobs, completed.attempts, completed.codes, strict=True):
            job = self._state.current(worker, number, attempt) if code == Code.INPUT_GONE else None
            if job is not None and job.data is not None:
                needed = zip(job.inputs, job.data.attempts, strict=True)
                lost = [value for value, needed in needed if value in gone and known[value].attempt == needed]
                self.gone(worker, lost, out)

    def gone(self, worker: WorkerState, numbers: list[int], out: list[HeadAction]) -> None:
        """Record that a worker has no good replica of these values any more."""
        for number in numbers:
            value = self._table.values.get(number)
            if value is None or worker.id not in value.replicas:
                continue
            self._table.gone(value, worker.id, f"worker {worker.name} does not have it any more")
            self._replication.look_at(value)
            self._give(number, out)
            self._ask_origin(value, out)
            here = [job for job in (value.users or {}).values() if job.data is not None]
            self._state.retract([job for job in here if job.worker == worker.id], worker, out)
            self._queue_again([job for job in here if job.data is not None and job.data.target == worker.id], out)
        self._transfers.forget_copies()

    def _ask_origin(self, value: ValueState, out: list[HeadAction]) -> None:
        """Let the program give an own value again that has lost its last replica."""
        if value.origin and not value.replicas:
            self._transfers.is_due = True
            self._queue_again(self._parked_for(value.id), out)

    def _lose_origins(self, numbers: list[int]) -> None:
        """Record that programs cannot give these own values any more."""
        for number in numbers:
            value = self._table.values.get(number)
            if value is not None and value.origin:
                value.origin, value.why = 0, "its program could not give it"
                if not value.replicas:
                    self._table.lacks(value)
        self._transfers.forget_copies()

    # --- the end of a turn -------------------------------------------------------------------------------------------

    def make_use_of_room(self, now: float, out: list[HeadAction], *, goes_on: bool) -> None:
        """Queue again the jobs for whose inputs there is room now. A turn looks at some of the jobs; if nothing has
        happened since the last turn, it `goes_on` with the others, or begins again if there are none.
        """
        transfers, rooms = self._transfers, self._transfers.rooms
        if not rooms.are_awaited:
            return
        if not goes_on or (self._unseen <= 0 and transfers.rules >= ASIDE_SCHEMA):
            self._unseen = len(rooms.parked)
        self._unseen -= LOOKED_AT_MOST
        self.room_wake = now + ROUND_S if self._unseen > 0 else None
        rooms.refusals = {copy: refusal for copy, refusal in rooms.refusals.items() if refusal[0] > now}
        self._state.requeue(rooms.take_ready(lambda worker, job: transfers.may_wait_for(worker, job, now)), out)

    def are_unsettled(self) -> bool:
        """Return True if `settle` has something to do once jobs were placed: room may be kept for them no longer."""
        transfers, table = self._transfers, self._table
        if transfers.rules >= KEPT_SCHEMA and transfers.rooms.claims and table.awaiting_room:
            table.unsettled |= bool(self._replication.with_room())
        return table.unsettled

    def make_room(self, now: float, out: list[HeadAction]) -> float | None:
        """Move at most one value for jobs that will have room nowhere, else let one run once more where its value found
        no room; look again soon if there is room for a job at once. Return when to look again at jobs that nothing can
        make room for if no event comes before.
        """
        rooms, relocations = self._transfers.rooms, self._state.relocations
        jobs, rooms.without_room = rooms.without_room, {}
        has_room = bool(jobs) and relocations.make_room(jobs.values(), now)
        if has_room or (not relocations.under_way and rooms.let_repeat(jobs.values())):
            self.look_soon(now)
        return self._help_stuck(now, out)

    def _help_stuck(self, now: float, out: list[HeadAction]) -> float | None:
        """Let own values travel with a job, or drop one that waits for an overdraft, if nothing could make room for
        long. Return when to look again if no event comes before.
        """
        overdrafts, rooms = self._state.overdrafts, self._transfers.rooms
        stuck = overdrafts.stuck() if rooms.parked and self._is_still(now) else []
        travels = overdrafts.to_travel(stuck, self.misfits.travelling)
        job = travels or overdrafts.to_give_up(stuck)
        if job is None:
            overdrafts.still = None
            return None
        since = overdrafts.still = now if overdrafts.still is None else overdrafts.still
        if now < since + PAYBACK_S:
            return since + PAYBACK_S
        if self.room_wake is None:
            if travels:
                self.misfits.let_travel([job], out)
            else:
                out.append(OverdraftUnpaid([job.id], rooms.why_unpaid(job)))
                self._state.withdraw(job)
            self.look_soon(now)
        return None

    def _is_still(self, now: float) -> bool:
        """Return True if no job computes, and nothing is under way or due that may free bytes at a worker."""
        state, workers = self._state, self._state.workers.values()
        planner = state.planner
        if self._transfers.known or state.backoffs.waiting or planner.wake is not None or not planner.whole:
            return False
        if any(worker.shut or worker.leaving for worker in workers):
            return False
        return all(stands_still(job, now) for worker in workers for job in worker.held.values())

    def next_look(self, now: float) -> float | None:
        """Return the time of the next look at jobs that wait for room if no event comes before; it is returned once."""
        transfers = self._transfers
        if transfers.rooms.without_room:
            self.look_soon(now)
        wake, self.room_wake = self.room_wake, None
        if wake is None and transfers.rooms.are_awaited and transfers.rules >= ASIDE_SCHEMA:
            ends = [until for until, _ in transfers.rooms.refusals.values()]
            wake = min(filter(None, [transfers.reach.next_end(now), *ends]), default=None)
        return wake

    def look_soon(self, now: float) -> None:
        """Look again soon at the jobs that wait for room, even if no event comes before."""
        self._unseen = len(self._transfers.rooms.parked)
        self.room_wake = now + ROUND_S

    def settle(self, now: float, out: list[HeadAction], *, closed: bool) -> list[int]:
        """Settle all that follows from the events of a turn. Return the jobs to cancel, because the values that
        they make again are not needed; settle again after that.
        """
        table = self._table
        if self._transfers.rooms.misfits:
            self.misfits.resolve(out, closed=closed)
        if table.moved and self._transfers.rules >= KEPT_SCHEMA:  # copies may not take what is spare no more
            self._spares.tell(out)
        self._replication.make_good(now, out)
        while table.ended or table.unavailable or table.idle:
            ended, table.ended = table.ended, []
            for job in ended:
                self._ended(job, out)
            if table.unwanted:
                break
            if table.ended:
                continue
            lacking = [value for _, value in sorted(table.unavailable.items()) if self._is_lacking(value)]
            hopeless = [value for value in lacking if self._why_not(value)]
            table.unavailable = {value.id: value for value in lacking} if hopeless else {}
            for value in hopeless or lacking:  # hopeless ones first: their jobs go, and may have needed others
                self._renew(value, out)
            if not (table.ended or table.unavailable or table.unwanted):  # not before: a rerun may need idle ones
                table.let_go()
        unwanted, table.unwanted = table.unwanted, []
        if unwanted:
            return unwanted
        for worker, rows in table.drops.items():
            if worker in self._state.workers:
                out.append(ReplicasDropped(worker, [number for number, _ in rows], [attempt for _, attempt in rows]))
        if table.moved:
            self._spares.tell(out)
        if table.drops or table.forgotten or table.freed:
            self._transfers.forget_copies()
        if table.freed:
            out.append(OwnValuesFreed(table.freed))
        if table.forgotten:
            self._replication.forget(table.forgotten)
            out.append(ValuesForgotten(table.forgotten))
        if self._state.overdrafts.workers:
            self._state.overdrafts.pay_back()
        table.drops, table.freed, table.forgotten, table.unsettled = {}, [], [], bool(self._replication.with_room())
        return []

    def _ended(self, job: HeadJob, out: list[HeadAction]) -> None:
        table = self._table
        table.parked.pop(job.id, None)
        self._transfers.rooms.parked.pop(job.id, None)
        self._transfers.unclaim(job)
        table.needs_no_more(job)
        if job.id in self._state.relocations.jobs:
            self._state.relocations.ended(job)
        value = table.values.get(job.id)
        if value is not None and value.maker is job:
            value.maker, value.last = None, max(value.last, job.attempt)
            if job.cancelled and not value.replicas:
                table.lacks(value)  # the job was cancelled while nothing needed the value; a job may need it now
            elif not value.replicas and value.durable is not None:
                value.why += ", and its copy could not be read"
                value.durable = None
                out.append(CopiesLost([value.id]))
                table.lacks(value)
            elif not value.replicas:
                value.why += ", and its function gave no value when it was run again"
                table.give_up_lineage(value.id)
                self._lose(value, value.why, out)

    def _renew(self, value: ValueState, out: list[HeadAction]) -> None:
        """Make a value again that is needed and has no replica, or give it up if it cannot be made again."""
        self._table.unavailable.pop(value.id, None)
        if not self._is_lacking(value):
            return
        why = self._why_not(value)
        if why:
            self._lose(value, f"{value.why}, and {why}", out)
            return
        made = value.durable or value
        assert made.cls is not None, "a value that no job made is not made again"
        assert made.fn is not None, "a value that no job made is not made again"
        job = HeadJob(value.id, made.cls, made.fn)
        job.own = made.own
        job.age, job.attempt = value.age, max(value.attempt, value.last) + 1
        job.remembered().losses = 1
        self._table.need(job, value.inputs if made is value else (), remakes=True)
        value.maker = self._state.jobs[job.id] = job
        self.revived = True
        out.append(JobsRevived([job.id], by_copy=made is not value))
        if self._transfers.rules >= KEPT_SCHEMA:  # jobs on their way keep room, which the job may need that makes it
            users = (value.users or {}).values()
            self._queue_again([user for user in users if user.data is not None and user.data.target], out)
        self._state.requeue([job], out)

    def _is_lacking(self, value: ValueState) -> bool:
        """Return True if a value has no replica, no job makes it, and it is needed where it is not yet."""
        if value.replicas or value.origin or value.maker is not None:
            return False
        here = self._state.jobs
        users = (value.users or {}).values()
        return bool(value.asked or value.unreached) or any(not job.worker and here.get(job.id) is job for job in users)

    def why_lost(self, number: int) -> str:
        """Return why a value has no replica and cannot be made again; an empty text if it has one, or can."""
        value = self._table.values.get(number)
        if value is None:
            return _NOT_KEPT
        why = "" if value.replicas or value.origin or value.maker is not None else self._why_not(value)
        return f"{value.why}, and {why}" if why else ""

    def _why_not(self, value: ValueState) -> str:
        """Return why a value cannot be made again; an empty text if it can."""
        if value.durable is not None:
            return ""
        if value.fn is None:
            return "no job can make it: the program had given it"
        if not value.fn.losses:
            return "its function may not run again (losses=0)"
        if not value.is_kept:
            return "the call that made it was not kept"
        if self._state.functions.get(value.fn.id) is not value.fn:
            return "its function is not known any more"
        return ""

    def _lose(self, value: ValueState, why: str, out: list[HeadAction]) -> None:
        """Give up a value that is needed: tell readers outside that it is lost, and drop the jobs that need it."""
        if value.asked or value.givers or value.unreached:
            value.asked, value.givers, value.unreached = 0, (), False
            out.append(ValuesLost([value.id], why))
        here = self._state.jobs
        jobs = [job for job in (value.users or {}).values() if not job.worker and here.get(job.id) is job]
        if jobs:
            for job in jobs:
                self._state.withdraw(job)
            out.append(InputsLost([job.id for job in jobs], value.id, why))
        self._table.look_at(value)

    def _whole_again(self, value: ValueState, out: list[HeadAction]) -> None:
        """Pass on a value that was made again to the jobs and readers that wait for it."""
        self._transfers.is_due = True
        self._queue_again(self._transfers.is_here(value.replicas[0], value.id), out)
        self._give(value.id, out)
        self._queue_again(self._parked_for(value.id), out)

    def _parked_for(self, number: int) -> list[HeadJob]:
        """Return the parked jobs that need a value."""
        table = self._table
        value = table.values.get(number) if table.parked else None
        return [] if value is None else [job for job in (value.users or {}).values() if job.id in table.parked]

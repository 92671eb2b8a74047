"""Sending ahead: quick jobs wait at workers that are full, so that the next one starts without a round trip.

Jobs are *sent ahead* when their function is known to be quick: enough to last `AHEAD_S`, refilled when half of it is
used up. Sending nothing ahead costs a factor of seven on tiny jobs; sending more piles up work behind a job that turns
out long.

A shape is sent ahead only to where jobs of it run now, so that each end makes exactly the room that the next one needs;
otherwise a job could wait there for room that never comes, out of the queue and without a reservation. What was sent
ahead is taken back when its shape has lost its slots there, when another worker has room for it, or when a reservation
takes the worker. Nor may a job sent ahead overtake a blocked job that goes before it: where that one could use the room
that the next end makes, nothing is sent ahead, and what is there is taken back. Otherwise quick jobs would pass their
slots on to one another, unseen by the head, and a more urgent job would wait for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, islice
from operator import attrgetter

from grainlike.scheduler._events import AssignJobs, HeadAction, RetractJobs
from grainlike.scheduler._records import HeadFunction, HeadJob, RequestClass, Shape, order
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._consumers import Consumers
from grainlike.scheduler.planning._near import NearPlacing
from grainlike.scheduler.planning._reservations import Reservations
from grainlike.scheduler.planning._shares import Shares
from grainlike.scheduler.planning._waiting import WaitingClasses

__all__ = ["AheadPlanner", "assignment"]

AHEAD_S = 0.025
"""Expected seconds of work that a worker holds ahead for each job that it runs."""

AHEAD_MOST = 4096
"""The most jobs that one worker holds ahead."""

_COLUMNS = attrgetter("id", "attempt", "fn.id")

SENT_MOST = 4096
"""Number of jobs sent ahead after which a pass ends early."""

FRESH_MOST = 64
"""Number of busy workers on which a class that just got jobs looks for room ahead; the others are filled at their next
end of a job.
"""

BLOCKED_AHEAD_MOST = 4
"""Number of blocked classes that are protected from being overtaken by jobs sent ahead; a bound on the work of a
pass.
"""


class AheadPlanner:
    """Decides which jobs are sent ahead, and which are taken back. The other parts of the planner are shared, not
    copied.

    Attributes:
        fresh: the classes that got jobs since the last pass that placed all that fits.
        left: where a pass that ended early would have looked next for room ahead.
    """

    def __init__(
        self,
        workers: dict[int, WorkerState],
        classes: dict[int, RequestClass],
        waiting: WaitingClasses,
        reserving: Reservations,
        shares: Shares,
        near: NearPlacing,
        consumers: Consumers,
    ) -> None:
        self.fresh: set[int] = set()
        self.left: list[WorkerState] = []
        self._workers = workers
        self._classes = classes
        self._waiting = waiting
        self._reserving = reserving
        self._shares = shares
        self.near = near
        self.consumers = consumers
        self._room = 0
        self._holders: dict[int, dict[int, WorkerState]] = {}
        """Workers that hold jobs of a shape ahead; some may hold none any more."""
        self._looked_at: dict[int, HeadJob] = {}
        """The first job of each blocked class for which all that was sent ahead has been looked at."""

    def may_act(self, classes: Iterable[RequestClass]) -> bool:
        """Return True if a job of one of these classes may be sent ahead, or some that were sent may be taken back."""
        slow: HeadFunction | None = None  # most jobs are of one function
        for cls in classes:
            if cls.may_be_ahead and cls.shapes[0].users:
                job = cls.head()
                if job is not None and job.fn is not slow:
                    if job.fn.is_quick:
                        return True
                    slow = job.fn
        return bool(self._holders)

    def spread(
        self, blocked: list[RequestClass], changed: list[WorkerState], now: float, out: list[HeadAction]
    ) -> bool:
        """Send jobs ahead, and take back those that should not wait where they do; return False if there is more to
        send.

        `blocked`: the classes found blocked by a pass that looked at all classes; `changed`: the workers whose free
        amounts have changed.
        """
        blocked_ahead: list[RequestClass] = []
        self._room = SENT_MOST
        few = self._waiting.are_few
        for cls in blocked if few else self._in_front(self._may_be_sent(changed)):
            # Of most classes with a request of their own no job runs, so there is no end to wait for.
            if cls.may_be_ahead and (cls.shapes[0].users or self._room <= 0):
                self._send_ahead(cls, blocked_ahead, changed, now, out)
                if not few:
                    self._waiting.renew(cls, now)
            if (
                len(blocked_ahead) < BLOCKED_AHEAD_MOST
                and (cls.aged or cls.id not in self._reserving.by_class)
                and cls.head() is not None
            ):
                blocked_ahead.append(cls)
        if self._holders:
            self._retract(blocked_ahead, changed, out)
        self.fresh.clear()
        return not self.left

    def _may_be_sent(self, changed: list[WorkerState]) -> dict[int, RequestClass]:
        """Return the classes of which a job may now be sent ahead: those with new jobs, or whose shape runs on changed
        workers.
        """
        found: dict[int, RequestClass] = {}
        for number in self.fresh:
            cls = self._classes.get(number)
            if cls is not None and cls.may_be_ahead and cls.entry is not None and cls.shapes[0].users:
                found[number] = cls
        alike = self._waiting.of_shape
        if alike:
            for worker in changed:
                for shape in worker.using.keys() & alike.keys():
                    found.update(alike[shape])
        return found

    def _in_front(self, wanted: dict[int, RequestClass]) -> list[RequestClass]:
        """Return the classes in `wanted` and the first `BLOCKED_AHEAD_MOST` others without a reservation, in order."""
        if not self.may_act(wanted.values()):
            return []
        found: list[RequestClass] = []
        others = 0
        for client in sorted(self._waiting.queues, key=self._shares.used):
            queue = self._waiting.queues[client]
            mine = [cls.entry for cls in wanted.values() if cls.client == client and cls.entry is not None]
            if others < BLOCKED_AHEAD_MOST:
                for entry in queue:
                    reserved = entry[2] in self._reserving.by_class and not self._classes[entry[2]].aged
                    if entry[2] not in wanted and not reserved:
                        mine.append(entry)
                        others += 1
                        if others == BLOCKED_AHEAD_MOST:
                            break
            found += [self._classes[entry[2]] for entry in sorted(mine)]
        return found

    def _send_ahead(
        self,
        cls: RequestClass,
        blocked_ahead: list[RequestClass],
        changed: list[WorkerState],
        now: float,
        out: list[HeadAction],
    ) -> None:
        shape = cls.shapes[0]
        if cls.id in self.fresh:
            changed = [self._workers[number] for number in islice(shape.users, FRESH_MOST)]
        for at, worker in enumerate(changed):
            job = cls.head()
            if job is None or not job.fn.is_quick:
                return
            if self._room <= 0:
                self.left += changed[at:]
                return
            if not worker.using.get(shape.id) or worker.recalled or not self._may_wait_at(worker, cls):
                continue
            is_tight = worker.crowded or job.fn.gives > worker.store_left
            if is_tight and not self.consumers.may_start(worker, job, now):
                continue
            if not any(_goes_first(blocked_class, job, shape, worker) for blocked_class in blocked_ahead):
                self._fill(worker, cls, shape, now, out)

    def _may_wait_at(self, worker: WorkerState, cls: RequestClass) -> bool:
        if cls.near not in (0, worker.id):
            return False
        held = self._reserving.by_worker.get(worker.id, ())
        return not (worker.leaving or worker.shut) and all(reservation.job.cls is cls for reservation in held)

    def _fill(self, worker: WorkerState, cls: RequestClass, shape: Shape, now: float, out: list[HeadAction]) -> None:
        budget = AHEAD_S * worker.using[shape.id]
        before = None
        if worker.ahead_s > budget / 2 or len(worker.ahead) > AHEAD_MOST / 2:
            if not cls.aged:
                return
            # Jobs that are older by their inputs go before those that wait here: the node goes by age.
            before, budget = worker.ahead_last, 2 * budget
        most = AHEAD_MOST
        if cls.near:
            most = min(most, len(worker.ahead) + self.near.ready_at(cls, worker, AHEAD_MOST))
        jobs = worker.fill_ahead(cls, shape, budget, most, before)
        if jobs:
            if cls.near:
                for job in jobs:
                    self.near.transfers.unclaim(job)
            last = order(jobs[-1])  # jobs of a class are sent in order
            worker.ahead_last = last if len(worker.ahead) == len(jobs) else max(last, worker.ahead_last)
            self._holders.setdefault(shape.id, {})[worker.id] = worker
            out.append(assignment(worker.id, shape.id, jobs, self.near, ahead=True))
            self._room -= len(jobs)
            if self._waiting.patience.unpassed:
                self._waiting.patience.started(jobs[-1], now)

    # --- taking back -------------------------------------------------------------------------------------------------

    def _retract(self, blocked_ahead: list[RequestClass], changed: list[WorkerState], out: list[HeadAction]) -> None:
        for reservation in chain.from_iterable(self._reserving.by_class.values()):
            worker = reservation.worker
            self._recall(worker, [job for job in worker.ahead.values() if not self._may_wait_at(worker, job.cls)], out)
        for blocked_class in blocked_ahead:
            self._make_way(blocked_class, changed, out)
        for worker in changed:
            if worker.ahead:
                stranded = _stranded(worker)
                if stranded:
                    self._recall(worker, stranded, out)
            elif worker.id not in self._reserving.by_worker:
                self._help(worker, out)

    def _make_way(self, blocked_class: RequestClass, changed: list[WorkerState], out: list[HeadAction]) -> None:
        """Take back, at one worker, jobs sent ahead that would overtake the first job of a blocked class, which could
        use their room.
        """
        first = blocked_class.head()
        if first is None:
            return
        workers: Iterable[WorkerState] = changed
        if self._looked_at.get(blocked_class.id) is not first:
            if len(self._looked_at) > 2 * len(self._classes) + 64:
                self._looked_at = {number: job for number, job in self._looked_at.items() if number in self._classes}
            self._looked_at[blocked_class.id] = first
            workers = dict.fromkeys(worker for holders in self._holders.values() for worker in holders.values())
        for worker in workers:
            if not blocked_class.aged and len(worker.ahead) == worker.ahead_in.get(blocked_class.id, 0):
                continue  # all of them are of its own class: no need to look at thousands of jobs
            past = [] if worker.gone else _past(blocked_class, first, worker)
            if past:
                self._recall(worker, past, out)
                return

    def forget(self, shapes: Iterable[int]) -> None:
        """Drop what is known of shapes that no job asks for any more."""
        for number in shapes:
            self._holders.pop(number, None)

    def _recall(self, worker: WorkerState, jobs: Iterable[HeadJob], out: list[HeadAction]) -> None:
        if not worker.recalled:
            _take_back(worker, jobs, out)

    def recall_all(self, worker: WorkerState, out: list[HeadAction]) -> None:
        """Take back all jobs that were sent ahead to a worker and have not begun."""
        _take_back(worker, [job for job in worker.ahead.values() if job.id not in worker.recalled], out)

    def _help(self, idle: WorkerState, out: list[HeadAction]) -> None:
        """Take back the younger half of the jobs that wait elsewhere, of a shape for which `idle` has room and no job
        is queued, but for those with large arguments: these are quick to run, and were slow to send.
        """
        for number, holders in self._holders.items():
            worker = _first_holder(number, holders)
            if worker is None or worker.recalled:
                continue
            waiting = [job for job in worker.ahead.values() if job.shape is not None and job.shape.id == number]
            shape = waiting[0].shape
            if shape is not None and not waiting[0].cls.near and waiting[0].cls.head() is None and idle.fits_now(shape):
                back = [job for job in waiting[len(waiting) // 2 :] if not job.size]  # large arguments travel once
                if back:
                    self._recall(worker, back, out)
                    return


def _take_back(worker: WorkerState, jobs: Iterable[HeadJob], out: list[HeadAction]) -> None:
    back = [job for job in jobs if not job.cancelled]
    if back:
        worker.recalled.update(job.id for job in back)
        out.append(RetractJobs(worker.id, [job.id for job in back], [job.attempt for job in back]))


def _first_holder(shape: int, holders: dict[int, WorkerState]) -> WorkerState | None:
    """Return a worker that holds jobs of the shape ahead; drop those on the way that do no more."""
    while holders:
        number, worker = next(iter(holders.items()))
        if not worker.gone and worker.ahead_of.get(shape):
            return worker
        del holders[number]
    return None


def _past(blocked_class: RequestClass, first: HeadJob, worker: WorkerState) -> list[HeadJob]:
    """Return the jobs sent ahead to a worker that `first`, the first of `blocked_class`, goes before.

    Thousands of jobs may wait there, of few classes and shapes.
    """
    mine = order(first)
    if mine > worker.ahead_last:
        return []
    makes_room: dict[tuple[int, int], bool] = {}
    found: list[HeadJob] = []
    for job in worker.ahead.values():
        shape = job.shape
        assert shape is not None
        key = job.cls.id, shape.id
        room = makes_room.get(key)
        if room is None:
            room = makes_room[key] = _makes_room(blocked_class, first, job.cls, shape, worker)
        if room and mine < order(job):  # of two that are as old as one input, neither has to make way
            found.append(job)
    return found


def _goes_first(blocked_class: RequestClass, job: HeadJob, shape: Shape, worker: WorkerState) -> bool:
    """Return True if the first job of `blocked_class` goes before `job`, and one end of the job's shape here makes room
    for it.
    """
    first = blocked_class.head()
    if first is None or order(first) > order(job):
        return False
    return _makes_room(blocked_class, first, job.cls, shape, worker)


def _makes_room(
    blocked_class: RequestClass, first: HeadJob, cls: RequestClass, shape: Shape, worker: WorkerState
) -> bool:
    """Return True if `first`, of `blocked_class`, could use the room that one end of a job of `cls` makes.

    Two classes of one priority that both have quick jobs running here are both sent ahead: the node goes by age. So it
    is within a class, whose jobs go in order unless `first` is older by its inputs. Room at one worker does not help a
    gang; it has reservations instead.
    """
    if blocked_class is cls:
        return cls.aged and not first.fn.is_quick
    if blocked_class.priority == cls.priority and worker.using.get(blocked_class.shapes[0].id) and first.fn.is_quick:
        return False
    if blocked_class.near not in (0, worker.id):
        return False
    return any(wanted.nodes == 1 and worker.fits_after(wanted, shape) for wanted in blocked_class.shapes)


def _stranded(worker: WorkerState) -> list[HeadJob]:
    """Return jobs sent ahead whose shape does not run here any more, and does not fit."""
    idle = worker.ahead_of.keys() - worker.using.keys()
    if not idle:
        return []
    lost = {number for number in idle if worker.ahead_of[number]}
    fits: dict[int, bool] = {}
    for shape in (job.shape for job in worker.ahead.values()):
        if shape is not None and shape.id in lost and shape.id not in fits:
            fits[shape.id] = worker.fits_now(shape)
            if len(fits) == len(lost):
                break  # thousands of jobs may wait here, nearly always all of one shape
    stuck = {number for number, fitting in fits.items() if not fitting}
    if not stuck:
        return []
    return [job for job in worker.ahead.values() if job.shape is not None and job.shape.id in stuck]


def assignment(worker: int, shape: int, jobs: list[HeadJob], near: NearPlacing, *, ahead: bool) -> AssignJobs:
    """Return the action that sends jobs of one shape to a worker."""
    numbers, attempts, fns = map(list, zip(*map(_COLUMNS, jobs), strict=True))
    hard_s = None if jobs[0].shape is None else jobs[0].shape.hard_s
    memory = tuple([job.memory for job in jobs]) if jobs[0].shape is not None and jobs[0].shape.varied else ()
    ages = tuple([job.age for job in jobs]) if ahead and jobs[0].cls.aged else ()
    needs = near.needs(jobs) if jobs[0].shape is not None and jobs[0].shape.with_inputs else ()
    return AssignJobs(worker, shape, ahead, numbers, attempts, fns, hard_s, memory=memory, ages=ages, needs=needs)

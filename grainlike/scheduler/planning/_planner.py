"""Planner: a pass of the head's policy, which places what fits, reserves for what must not starve, and sends the next
jobs ahead.

Order is fair share between clients, then priority, then age. A class whose oldest job does not fit anywhere drops out
of the pass and never blocks the classes behind it; if it is wide or has waited for long, a worker is reserved for it.
Of several shapes the first is preferred, if it can start now. A pass costs what changed and what it assigns: never the
number of jobs that wait, nor, but for reservations, the number of workers.

A pass ends early when it has placed many jobs, so that other events do not wait long for its end: it asks to be woken
at once, and the next one goes on. Until a pass has placed all that fits, nothing is sent ahead (`_ahead`).

A gang is placed when as many workers as it has nodes have room at the same time, on all of them or on none, and is
reserved for in the same way (`_gangs` says what follows). It is never sent ahead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heapreplace
from itertools import filterfalse
from operator import attrgetter

from grainlike.scheduler._events import HeadAction
from grainlike.scheduler._job_tree import JobTree
from grainlike.scheduler._records import HeadJob, RequestClass, Shape, order
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import ChangeLog, WorkerState
from grainlike.scheduler.planning._ahead import AheadPlanner, assignment
from grainlike.scheduler.planning._candidates import ROOMS_MOST, Candidates, FreeRooms, nobody_has_room, tightest_of
from grainlike.scheduler.planning._consumers import Consumers
from grainlike.scheduler.planning._gangs import Gangs
from grainlike.scheduler.planning._near import NearPlacing
from grainlike.scheduler.planning._reservation import PATIENCE_S, patience_of, soft_limit
from grainlike.scheduler.planning._reservations import Reservations
from grainlike.scheduler.planning._resting import Resting
from grainlike.scheduler.planning._search import LOAN_S, VISITS_MOST
from grainlike.scheduler.planning._shares import Shares
from grainlike.scheduler.planning._start_limits import StartLimits
from grainlike.scheduler.planning._waiting import FEW, FEW_BEFORE, WaitingClasses
from grainlike.scheduler.values._rooms import LAPSE_SCHEMA
from grainlike.scheduler.values._transfers import Transfers

__all__ = ["Planner"]

PLACED_MOST = 256
"""Number of jobs placed in free slots after which a pass ends early: some ten milliseconds of work, with all that
follows.
"""

VISITED_MOST = 4
"""Number of searches of a class for a worker until its shapes are given heaps of workers. Where classes are very many,
most have one job, which is looked at when it comes and when it starts.
"""

COMPARED_MOST = 4
"""Number of workers up to which no heap of them is kept for a shape, as a look at each costs less."""

_PLANNED = JobState.PLANNED
_IS_GONE = attrgetter("gone")

_Rank = tuple[int, int, int, HeadJob]
"""Priority and age of a class's oldest job, the class, the job: the smallest goes first."""

_Batch = dict[tuple[int, int], list[HeadJob]]
"""Jobs that a pass places, by worker and shape."""


class Planner:
    """Makes one pass after another over the head's state. `wake` is when a pass is due even if nothing happens."""

    def __init__(
        self, workers: dict[int, WorkerState], classes: dict[int, RequestClass], job_tree: JobTree, transfers: Transfers
    ) -> None:
        self._job_tree = job_tree
        self._lend_to_all = False
        self.log = ChangeLog()
        self.start_limits = StartLimits()
        self.shares = Shares()
        self.gangs = Gangs(self.shares)
        self.wake: float | None = None
        self.whole = True
        """True if the last pass came to its end."""
        self.waiting = WaitingClasses(classes)
        self.reserving = Reservations(workers, classes, self.waiting)
        self.near = self.reserving.near = NearPlacing(workers, transfers, self.log, self.admits)
        self.consumers = Consumers(self.near.table, self.near.rooms, self.near.start_on)
        self.ahead = AheadPlanner(
            workers, classes, self.waiting, self.reserving, self.shares, self.near, self.consumers
        )
        self._resting = Resting(workers, transfers, self.log, self.waiting, self.reserving)
        self._blocked: list[RequestClass] = []
        """Classes that a pass over all classes found blocked, in order."""
        self._all_anew = False
        """True if the next search is to look at all workers."""
        self._lending: dict[int, WorkerState] = {}
        """Workers with cores that are lent."""
        self._workers = workers
        self._classes = classes
        self._candidates: dict[int, Candidates] = {}
        self._read = (0, 0)

    def begin_near(self, transfers: Transfers) -> None:
        """Make the part that places jobs near values, for a planner that comes from an image without it."""
        self.near = self.ahead.near = self.reserving.near = NearPlacing(self._workers, transfers, self.log, self.admits)
        self.begin_consumers()
        self.begin_resting(transfers)

    def begin_consumers(self) -> None:
        """Make the part that has consumers go first, for a planner that comes from an image without it."""
        self.consumers = self.ahead.consumers = Consumers(self.near.table, self.near.rooms, self.near.start_on)

    def begin_resting(self, transfers: Transfers) -> None:
        """Make the part that knows which classes need no look, for a planner that comes from an image without it."""
        self._resting = Resting(self._workers, transfers, self.log, self.waiting, self.reserving)

    def plan(self, now: float, out: list[HeadAction], *, lend_to_all: bool = False) -> None:
        """Assign what can be assigned. With `lend_to_all`, any job that a job submitted may use lent cores, of whatever
        tree, as nothing could continue otherwise.
        """
        self.wake = None
        self.near.now = now
        self._lend_to_all = lend_to_all
        if self.reserving.by_class:
            self.reserving.review(now)
        if not self.waiting.are_few and self._nothing_can_start(now):
            return
        if self.near.table.crowded:
            self.consumers.begin_pass()
        self.whole = self._place_all(now, out) and self.ahead.spread(self._blocked, self._changed(), now, out)
        if not self.whole:
            self.wake = now
        self.reserving.search = None
        self._blocked = []
        self.log.compact(len(self._workers))

    def _nothing_can_start(self, now: float) -> bool:
        """Return True if a pass over many classes would place, reserve and send nothing: nothing has happened but that
        jobs came, and no worker has room for those. New classes of them are then where the pass would have put them.
        """
        waiting, kept, table, log = self.waiting, self.reserving, self.near.table, self.log
        changed = self._all_anew or self._lending or self._read != (log.epoch, len(log.entries))
        kept_for = kept.reopened or table.crowded or table.tight or waiting.dormant.records
        if changed or kept_for or self._lend_to_all or not self.whole or waiting.patience.is_any_due(now):
            return False
        if self.ahead.may_act(filter(None, map(self._classes.get, self.ahead.fresh))):
            return False
        if kept.by_class or waiting.wait_for_more:
            search = kept.begin_search([self._workers[number] for number in kept.by_worker], now)
            kept.search = None
            if any(map(search.next_of, search.turns)):
                return False
        if not waiting.block_new(self._workers, kept.kinds, now, self._few):
            return False
        self.ahead.fresh.clear()
        return True

    @property
    def _few(self) -> int:
        """Number of classes up to which a pass looks at all of them."""
        return FEW if self.near.transfers.rules >= LAPSE_SCHEMA else FEW_BEFORE

    @property
    def is_settled(self) -> bool:
        """True if a pass now would find what the last one left: no free amounts have changed, no jobs have come, and no
        reservation or gang depends on when leases began.
        """
        quiet = not (self.ahead.fresh or self.reserving.by_worker or self.gangs.assembling)
        return self.whole and quiet and self._read == (self.log.epoch, len(self.log.entries))

    def _changed(self) -> list[WorkerState]:
        """Return the workers whose free amounts have changed, after those that the last pass had no time for."""
        epoch, read = self._read
        entries = self.log.entries[read:] if epoch == self.log.epoch else list(self._workers.values())
        self._read = self.log.epoch, len(self.log.entries)
        left, self.ahead.left = self.ahead.left, []
        return list(filterfalse(_IS_GONE, dict.fromkeys([*left, *entries] if left else entries)))

    def forget(self, shapes: Iterable[int]) -> None:
        """Drop what is known of shapes that no job asks for any more."""
        for number in shapes:
            self._candidates.pop(number, None)
            self.near.forget(number)
        self.reserving.forget(shapes)
        self.ahead.forget(shapes)

    def check(self) -> None:
        """Raise `AssertionError` unless what is kept of waiting classes and of workers is so. For tests."""
        self.waiting.check()
        for candidates in self._candidates.values():
            candidates.check()

    # --- placing -----------------------------------------------------------------------------------------------------

    def _place_all(self, now: float, out: list[HeadAction]) -> bool:
        """Place jobs until no class's oldest fits. Return False if the next pass is to go on: the limit was reached, or
        a reservation was dropped, which may have blocked a class that had its turn before.
        """
        waiting = self.waiting
        reopened = self.reserving.reopened
        if reopened:
            self.reserving.reopened = {}
        if not waiting.are_few or len(waiting.few) > FEW:  # the least of both numbers
            waiting.refresh(now, self._few)  # also where none was touched: there may be few by now
        batch: dict[tuple[int, int], list[HeadJob]] = {}
        if waiting.are_few:
            self._all_anew = True
            self.near.table.tight = {}
            if self.near.table.placed or self.near.transfers.turned:
                self._resting.skip()
            whole = not waiting.few or self._place_few(now, batch, out)
        else:
            whole = self._place_many(now, batch, out, reopened)
        for (to, shape), jobs in batch.items():
            out.append(assignment(to, shape, jobs, self.near, ahead=False))
        if whole:
            return not self.reserving.reopened
        self.reserving.reopened = {**reopened, **self.reserving.reopened}
        return False

    def _place_few(self, now: float, batch: _Batch, out: list[HeadAction]) -> bool:
        """Look at all classes, while they are few; return False if the limit of a pass was reached."""
        blocked: list[RequestClass] = []
        self._blocked = blocked
        room = PLACED_MOST
        rooms: FreeRooms = {}
        compare = len(self._workers) < len(self.waiting.few)
        if self.reserving.by_worker:
            self.reserving.begin_search((), now)
        jobs = self._first_jobs()
        jobs, aside = self._set_aside(jobs, rooms, now) if compare else (jobs, [])
        queues = _ranked(jobs) if jobs else {}
        furthest: _Rank | None = None
        while queues and room:
            client = min(queues, key=self.shares.used) if len(queues) > 1 else next(iter(queues))
            ranked = queues[client]
            if aside and (furthest is None or furthest < ranked[0]):
                furthest = ranked[0]
            job = ranked[0][3]
            cls = job.cls
            lacking = compare and cls.is_simple and nobody_has_room(cls, self._workers, rooms)
            if lacking:
                self.reserving.reserve(job, now)  # as `_place` would
            if lacking or not self._place(cls, job, now, batch, out):
                blocked.append(cls)
                heappop(ranked)
                room += 1
            else:
                if len(self._workers) <= ROOMS_MOST:
                    rooms.clear()  # there is less now
                following = cls.head()
                if following is not None:
                    heapreplace(ranked, _rank(following))
                else:
                    heappop(ranked)
            room -= 1
            if not ranked:
                del queues[client]
        # Where the limit was reached, those set aside that go later had no turn, as if they stood in the heap.
        return not queues and (room > 0 or all(furthest is not None and _rank(job) < furthest for job in aside))

    def _first_jobs(self) -> list[HeadJob]:
        """Return the oldest job of each class; forget classes without one."""
        jobs = [job for cls in self.waiting.few.values() if (job := cls.head()) is not None]
        if len(jobs) < len(self.waiting.few):
            self.waiting.few = {job.cls.id: job.cls for job in jobs}
        return jobs

    def _set_aside(self, jobs: list[HeadJob], rooms: FreeRooms, now: float) -> tuple[list[HeadJob], list[HeadJob]]:
        """Return the jobs to look at in a pass, and those that no worker has room for, or is to be kept for."""
        left: list[HeadJob] = []
        aside: list[HeadJob] = []
        if self.ahead.may_act([job.cls for job in jobs]):
            return jobs, aside
        client, wide = jobs[0].cls.client if jobs else 0, self.reserving.kinds.may_be_wide
        for job in jobs:
            cls = job.cls
            if cls.client != client:
                return jobs, []
            since = cls.passed_since
            may_fit = cls.blocked_job is not job or not cls.is_simple
            may_fit = may_fit or not (since is None or now - since < PATIENCE_S or now - since < patience_of(job))
            may_fit = may_fit or any(map(wide, cls.shapes)) or not nobody_has_room(cls, self._workers, rooms)
            (left if may_fit else aside).append(job)
        return left, aside

    def _place_many(self, now: float, batch: _Batch, out: list[HeadAction], reopened: dict[int, WorkerState]) -> bool:
        """Look only at classes that could start where something has changed, or be reserved for; False as in
        `_place_few`.
        """
        waiting, kept = self.waiting, self.reserving
        if waiting.patience.is_any_due(now) and waiting.lose_patience(now):
            self._wake_at(now)
        changed = self._to_look_at(reopened)
        self._resting.rouse(changed, now)
        table = self.near.table
        tight, table.tight = table.tight, {}
        search = kept.begin_search(changed, now)
        turns, resting, dormant = search.turns, self._resting, waiting.dormant
        room, visits = PLACED_MOST, VISITS_MOST
        while turns:
            client = min(turns, key=self.shares.used) if len(turns) > 1 else next(iter(turns))
            job = search.next_of(client)
            if job is None:
                del turns[client]
            elif room <= 0 or visits <= 0:
                search.put_back(job.cls)
                table.tight.update(tight)
                return False
            elif search.fits_nowhere(client, job):
                self.reserving.reserve(job, now)
                visits -= search.blocked(client, job)
            elif self._place(job.cls, job, now, batch, out):
                search.placed(client, job.cls)
                room -= 1
            else:
                visits -= search.blocked(client, job)
                if job.cls.near:
                    resting.let_rest(job.cls, job, self.near.look, now)
            if dormant.records:
                self._wake_at(resting.rouse_meanwhile(search))
        self._wake_at(resting.next_due)
        return True

    def _to_look_at(self, reopened: dict[int, WorkerState]) -> Collection[WorkerState]:
        """Return the workers that changed since the last pass that placed all that fits, and those where more than
        amounts decides.
        """
        epoch, read = self._read
        if self._all_anew or self._lend_to_all or epoch != self.log.epoch:
            self._all_anew = False
            for worker in self._workers.values():
                self._note_lent(worker)
            return self._workers.values()
        found = dict.fromkeys(self.log.entries[read:])
        for worker in found:
            if worker.lent or self._lending:
                self._note_lent(worker)
        table = self.near.table
        if self._lending:
            found.update(dict.fromkeys(self._lending.values()))
        if self.reserving.by_worker:
            found.update(dict.fromkeys([self._workers[number] for number in self.reserving.by_worker]))
        if reopened:
            found.update(dict.fromkeys(reopened.values()))
        if table.crowded or table.tight:
            found.update(dict.fromkeys([*table.crowded.values(), *table.tight.values()]))
        return found

    def _note_lent(self, worker: WorkerState) -> None:
        if worker.lent and not worker.gone:
            self._lending[worker.id] = worker
        else:
            self._lending.pop(worker.id, None)

    def _place(
        self,
        cls: RequestClass,
        job: HeadJob,
        now: float,
        batch: dict[tuple[int, int], list[HeadJob]],
        out: list[HeadAction],
    ) -> bool:
        """Start the oldest job of a class in the first of its shapes that can start now, or try to reserve for it."""
        rationed = False
        for shape in cls.shapes:
            block = self.start_limits.blocks(shape, now) if shape.rationed else None
            if block is not None:
                rationed = True
                self._wake_at(block[1])
                continue
            workers = self._tightest(job, shape, now)
            if len(workers) < shape.nodes:
                continue
            self._assign(cls, job, shape, workers, now)
            if shape.nodes > 1:
                out.append(self.gangs.assemble(job, shape, workers, now))
            else:
                workers[0].take(shape)
                self.shares.take(cls.client, shape)
                batch.setdefault((workers[0].id, shape.id), []).append(job)
            return True
        if rationed:
            return False
        if cls.near:
            if self.near.send_off(cls, job, now):
                self.reserving.release(job)
                return True
            self._wake_at(self.near.wake)
        self.reserving.reserve(job, now)
        return False

    def admits(self, worker: WorkerState, job: HeadJob, shape: Shape, now: float) -> bool:
        """Return True if a job that fits on a worker may start there: within its walltime, borrowing rules and
        reservations, and after those that free values.
        """
        if worker.lent and not self.may_borrow(worker, job, shape):
            return False
        if not worker.in_time(job.fn, shape, now):
            return False
        reservations = self.reserving.by_worker.get(worker.id)
        if reservations is not None and worker.crowded:
            reservations = self.consumers.binding(job, reservations)
        for held in reservations or ():
            if not held.admits(job, shape, now):
                return False
        has_tried = job.rare is not None and job.rare.tried is not None
        has_room = not (worker.crowded or has_tried or job.fn.gives > worker.store_left)
        return has_room or self.consumers.may_start(worker, job, now)

    def _tightest(self, job: HeadJob, shape: Shape, now: float) -> list[WorkerState]:
        """Return the workers to start a job on now: one for each of its nodes, or fewer where there is no room."""
        cls = job.cls
        candidates = self._candidates.get(shape.id)
        if candidates is None:
            # Few workers are compared faster than a heap of them is kept.
            if not cls.near and (len(self._workers) <= COMPARED_MOST or cls.visits < VISITED_MOST):
                cls.visits += 1
                return tightest_of(self._workers.values(), shape, job, now, self.admits)
            candidates = self._candidates[shape.id] = Candidates(shape, self._workers, self.log, self.admits)
        if not cls.near:
            return candidates.tightest(shape.nodes, job, now)
        leader = self.near.start_on(job, shape, now)
        if leader is None:
            return []
        others = candidates.tightest(shape.nodes, job, now) if shape.nodes > 1 else []
        return [leader, *(worker for worker in others if worker is not leader)][: shape.nodes]

    def may_borrow(self, worker: WorkerState, job: HeadJob, shape: Shape) -> bool:
        """Return True if a job that fits may use lent cores, or needs none of them."""
        if worker.own_is_enough(shape):
            return True
        if job.parent is not None and (self._lend_to_all or job.root in worker.lenders):
            return True
        limit = soft_limit(job.fn, shape)
        return limit is not None and limit <= LOAN_S and not self._wanted_by_lenders(worker)

    def _wanted_by_lenders(self, worker: WorkerState) -> bool:
        """Return True if a queued job of a tree that lends here could start here."""
        classes = (cls for root in worker.lenders for cls in self._job_tree.trees.get(root, ()))
        return any(cls.head() is not None and any(map(worker.fits_now, cls.shapes)) for cls in classes)

    def _assign(self, cls: RequestClass, job: HeadJob, shape: Shape, workers: list[WorkerState], now: float) -> None:
        """Move a job from its queue to the first of these workers; the others hold slots for a gang."""
        cls.queue.popleft()
        if not cls.queue and cls.deferred is not None:
            cls.deferred.make_some()
        if cls.near:
            self.near.transfers.unclaim(job)
        if self.reserving.by_worker:
            self.reserving.charge(job, shape, workers, now)
        if self.waiting.patience.unpassed:
            self.waiting.patience.started(job, now)
        if shape.rationed:
            self.start_limits.take(shape, now)
        workers[0].held[job.id] = job
        job.state, job.worker, job.shape, job.sent = _PLANNED, workers[0].id, shape, now

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self.wake is None or at < self.wake):
            self.wake = at


def _ranked(jobs: Iterable[HeadJob]) -> dict[int, list[_Rank]]:
    """Return jobs as a heap for each client."""
    queues: dict[int, list[_Rank]] = {}
    for job in jobs:
        queues.setdefault(job.cls.client, []).append(_rank(job))
    for ranked in queues.values():
        heapify(ranked)
    return queues


def _rank(job: HeadJob) -> _Rank:
    return (*order(job), job.cls.id, job)

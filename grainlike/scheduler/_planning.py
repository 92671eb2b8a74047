"""One pass of the head's policy: place what fits, reserve for what must not starve, send the next jobs ahead.

Order is fair share between clients, then priority, then age. A class whose oldest job does not fit anywhere drops out
of the pass and never blocks the classes behind it; if the job deserves it (`_reservation`), a worker is kept for it. Of
several shapes the first is preferred, if it can start now. A pass costs what changed and what it assigns: never the
number of jobs that wait, nor, but for reservations, the number of workers.

Jobs are *sent ahead* to workers that are full when their function is known to be quick, so that the next one starts
without a round trip: enough to last `AHEAD_S`, refilled when half of it is used up. Sending nothing ahead costs a
factor of seven on tiny jobs; sending more piles up work behind a job that turns out long.

A shape is sent ahead only to where jobs of it run now, so that each end makes exactly the room that the next one needs;
a job that waits for room nobody gives back would otherwise be out of the queue, and out of the reservation's care.
What was sent ahead is taken back when its shape has lost its slots there, when another worker has room for it, or when
a reservation takes the worker. Nor may it go past its *elders*: where a job that goes first could use the room that
the next end makes, nothing is sent ahead, and what is there comes back. Without that, quick jobs would hand their slots
on to one another for as long as there are any, unseen by the head, and a more urgent job would wait for all of them.

A pass ends early when it has given out much, so that nobody waits long for its end: it asks to be woken at once, and
the next one goes on. Until a pass has placed all that fits, nothing is sent ahead.

A gang is placed when as many workers as it has nodes have room at the same time, on all of them or on none, and is
reserved for in the same way (`_gangs` says what follows). It is never sent ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice

from grainlike.scheduler._books import ChangeLog, Job, Shape, WorkerBook
from grainlike.scheduler._candidates import Candidates
from grainlike.scheduler._events import AssignJobs, HeadAction, RetractJobs
from grainlike.scheduler._families import Families
from grainlike.scheduler._gangs import Gangs
from grainlike.scheduler._queues import RequestClass
from grainlike.scheduler._rations import Rations
from grainlike.scheduler._reservation import Reservation, is_patient_no_more, order, renewed, reserve_on, soft_limit
from grainlike.scheduler._shares import Shares
from grainlike.scheduler._states import JobState

__all__ = ["Planner"]

AHEAD_S = 0.025
"""Expected seconds of work that a worker holds ahead for each job that it runs."""

AHEAD_MOST = 4096
"""The most jobs that one worker holds ahead."""

PLACED_MOST = 256
"""After how many jobs placed in free slots a pass ends early. It takes some ten milliseconds with all that follows."""

SENT_MOST = 4096
"""After how many jobs sent ahead a pass ends early."""

FRESH_MOST = 64
"""On how many busy workers a class that just got jobs looks for room ahead; elsewhere the next end does it."""

RESERVATIONS_MOST = 4
"""How many blocked classes one worker is kept for at most. Usually that is one, as each keeps others from starting;
but a queue for a device that asks for all of it holds that one for as long as it lasts, and who wants all cores would
be passed over by everybody meanwhile."""

LOAN_S = 1.0
"""Cores that a job has lent go to jobs of its own tree first. Others get them only if they are expected to end within
this time, and while none of the tree that fits there is in the queue: who lent them wants them back when it goes on."""

ELDERS_MOST = 4
"""How many blocked classes are heeded before others are sent ahead; a bound on the work of a pass."""

_Rank = tuple[int, int, int, Job]
"""Priority and age of a class's oldest job, the class, the job: what comes first is the smallest."""


class Planner:
    """Makes one pass after another over the head's books. `wake` is when a pass is due even if nothing happens."""

    def __init__(self, workers: dict[int, WorkerBook], classes: dict[int, RequestClass], families: Families) -> None:
        self._families = families
        self._lend_to_all = False
        self.log = ChangeLog()
        self.rations = Rations()
        self.shares = Shares()
        self.gangs = Gangs(self.shares)
        self.reservations: dict[int, list[Reservation]] = {}
        """By worker, those who go first in front; a worker without one is absent."""
        self.wake: float | None = None
        self.members = 0
        """Grows when a worker joins or leaves, or refuses a shape for good."""
        self.fresh: set[int] = set()
        """The classes that got jobs since the last pass that placed all that fits."""
        self.whole = True
        """Whether the last pass came to its end."""
        self._left: list[WorkerBook] = []
        """Where a pass that ended early would have looked next for room ahead."""
        self._room = 0
        self._workers = workers
        self._classes = classes
        self._candidates: dict[int, Candidates] = {}
        self._read = (0, 0)
        self._reserved: dict[int, list[Reservation]] = {}
        """The same reservations by class: one, or as many as a gang has nodes."""
        self._wide: dict[int, tuple[int, list[WorkerBook]]] = {}
        self._holders: dict[int, dict[int, WorkerBook]] = {}
        """Which workers hold jobs of a shape ahead; some may hold none any more."""
        self._heeded: dict[int, Job] = {}
        """The elder of each class for whose sake all that was sent ahead has been looked at."""

    def plan(self, now: float, out: list[HeadAction], *, lend_to_all: bool = False) -> None:
        """Assign what can be assigned. With `lend_to_all`, any job that a job submitted may have cores that are lent:
        nothing else could go on.
        """
        self.wake = None
        self._lend_to_all = lend_to_all
        if self._reserved:
            self._review(now)
        blocked = self._place_all(now, out)
        self.whole = blocked is not None and self._spread_ahead(blocked, out)
        if not self.whole:
            self.wake = now
        self.log.compact(len(self._workers))

    def _spread_ahead(self, blocked: list[RequestClass], out: list[HeadAction]) -> bool:
        """Send ahead, and take back what should not wait where it does; False if there is more to send."""
        changed = self._changed()
        elders: list[RequestClass] = []
        self._room = SENT_MOST
        for cls in blocked:
            self._send_ahead(cls, elders, changed, out)
            if len(elders) < ELDERS_MOST and cls.cls not in self._reserved and cls.head() is not None:
                elders.append(cls)
        self._retract(elders, changed, out)
        self.fresh.clear()
        return not self._left

    @property
    def is_settled(self) -> bool:
        """Whether a pass now would find what the last one left: no free amounts have changed, no jobs have come, and
        nobody waits for a moment that depends on when leases began.
        """
        quiet = not (self.fresh or self.reservations or self.gangs.assembling)
        return self.whole and quiet and self._read == (self.log.epoch, len(self.log.entries))

    def _changed(self) -> list[WorkerBook]:
        """The workers whose free amounts have changed, behind those for which there was no time before."""
        epoch, read = self._read
        entries = self.log.entries[read:] if epoch == self.log.epoch else list(self._workers.values())
        self._read = self.log.epoch, len(self.log.entries)
        left, self._left = self._left, []
        return [worker for worker in dict.fromkeys([*left, *entries] if left else entries) if not worker.gone]

    # --- placing -----------------------------------------------------------------------------------------------------

    def _place_all(self, now: float, out: list[HeadAction]) -> list[RequestClass] | None:
        """Place jobs until no class's oldest fits; return the classes that still have jobs, in order. None if so many
        were placed that the next pass is to go on.
        """
        queues = self._ranked()
        blocked: list[RequestClass] = []
        batch: dict[tuple[int, int], list[Job]] = {}
        room = PLACED_MOST
        while queues and room:
            client = min(queues, key=self.shares.used) if len(queues) > 1 else next(iter(queues))
            ranked = queues[client]
            job = ranked[0][3]
            cls = job.cls
            if not self._place(cls, job, now, batch, out):
                blocked.append(cls)
                heappop(ranked)
                room += 1
            elif (following := cls.head()) is not None:
                heapreplace(ranked, _rank(following))
            else:
                heappop(ranked)
            room -= 1
            if not ranked:
                del queues[client]
        for (to, shape), jobs in batch.items():
            out.append(_assignment(to, shape, jobs, ahead=False))
        return None if queues else blocked

    def _ranked(self) -> dict[int, list[_Rank]]:
        """The oldest job of each class, as a heap for each client."""
        queues: dict[int, list[_Rank]] = {}
        for cls in self._classes.values():
            job = cls.head()
            if job is not None:
                queues.setdefault(cls.client, []).append(_rank(job))
        for ranked in queues.values():
            heapify(ranked)
        return queues

    def _place(
        self,
        cls: RequestClass,
        job: Job,
        now: float,
        batch: dict[tuple[int, int], list[Job]],
        out: list[HeadAction],
    ) -> bool:
        """Start the oldest job of a class in the first of its shapes that can start now; else see to its turn."""
        rationed = False
        for shape in cls.shapes:
            block = self.rations.blocks(shape, now) if shape.rationed else None
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
                batch.setdefault((workers[0].worker, shape.shape), []).append(job)
            return True
        if not rationed:
            self._reserve(job, now)
        return False

    def admits(self, worker: WorkerBook, job: Job, shape: Shape, now: float) -> bool:
        """Whether a job that fits on a worker may start there: it has the time, and nobody is kept waiting by it."""
        if worker.lent and not self.may_borrow(worker, job, shape):
            return False
        limit = shape.soft_s
        if limit is not None and now + limit > worker.until:
            return False
        reservations = self.reservations.get(worker.worker)
        return reservations is None or all(held.admits(job, shape, now) for held in reservations)

    def _tightest(self, job: Job, shape: Shape, now: float) -> list[WorkerBook]:
        """The workers to start a job on now: one, or as many as it has nodes; fewer where there is no room for it."""
        candidates = self._candidates.get(shape.shape)
        if candidates is None:
            candidates = self._candidates[shape.shape] = Candidates(shape, self._workers, self.log, self.admits)
        return candidates.tightest(shape.nodes, job, now)

    def may_borrow(self, worker: WorkerBook, job: Job, shape: Shape) -> bool:
        """Whether a job that fits may have cores that are lent, if it needs any of them."""
        if worker.own_is_enough(shape):
            return True
        if job.parent is not None and (self._lend_to_all or job.root in worker.lenders):
            return True
        limit = soft_limit(job.fn, shape)
        return limit is not None and limit <= LOAN_S and not self._wanted_by_lenders(worker)

    def _wanted_by_lenders(self, worker: WorkerBook) -> bool:
        """Whether a queued job of a tree that lends here could start here."""
        classes = (cls for root in worker.lenders for cls in self._families.trees.get(root, ()))
        return any(cls.head() is not None and any(map(worker.fits_now, cls.shapes)) for cls in classes)

    def _assign(self, cls: RequestClass, job: Job, shape: Shape, workers: list[WorkerBook], now: float) -> None:
        """Take a job out of its queue, to the first of these workers; of a gang, the others are to hold slots."""
        cls.queue.popleft()
        if self.reservations:
            for held in chain.from_iterable(self.reservations.get(worker.worker, ()) for worker in workers):
                if held.job is not job:
                    held.charge(job, shape, now)
            self._release(job)
        if shape.rationed:
            self.rations.take(shape, now)
        workers[0].held[job.job] = job
        job.state, job.worker, job.shape, job.sent = JobState.PLANNED, workers[0].worker, shape, now

    def _wake_at(self, at: float | None) -> None:
        if at is not None and (self.wake is None or at < self.wake):
            self.wake = at

    # --- reserving ---------------------------------------------------------------------------------------------------

    def _review(self, now: float) -> None:
        """Drop reservations whose job or worker is gone, or will be gone too soon; work the others out anew."""
        for reservations in list(self._reserved.values()):
            job = reservations[0].job
            if job.cancelled or job.cls.head() is not job or not renewed(reservations, now):
                self._release(job)

    def _reserve(self, job: Job, now: float) -> None:
        if job.cls.cls in self._reserved:
            return
        patient = is_patient_no_more(job, now)
        for shape in job.cls.shapes:
            workers = self._workers.values() if patient or shape.nodes > 1 else self._wide_for(shape)
            if not workers:
                continue
            open_to_it = [worker for worker in workers if self._may_reserve(worker, job, patient=patient)]
            reservations = reserve_on(open_to_it, job, shape, now) if len(open_to_it) >= shape.nodes else []
            if reservations:
                self._keep_for(job, reservations)
                return

    def _may_reserve(self, worker: WorkerBook, job: Job, *, patient: bool) -> bool:
        """Who goes first takes a reservation over; who goes later gets one beside it after a long wait only."""
        held = self.reservations.get(worker.worker)
        if held is None or order(job) < order(held[-1].job):
            return True
        return patient and len(held) < RESERVATIONS_MOST

    def _keep_for(self, job: Job, reservations: list[Reservation]) -> None:
        """Add reservations; where they are too many, the last gives way, on all workers that it has."""
        self._reserved[job.cls.cls] = reservations
        for reservation in reservations:
            number = reservation.worker.worker
            held = sorted([*self.reservations.get(number, ()), reservation], key=lambda held: order(held.job))
            self.reservations[number] = held
            for last in held[RESERVATIONS_MOST:]:
                self._release(last.job)

    def _wide_for(self, shape: Shape) -> list[WorkerBook]:
        """The workers on which a job of the shape is wide."""
        members, wide = self._wide.get(shape.shape, (-1, []))
        if members != self.members:
            wide = [worker for worker in self._workers.values() if worker.is_wide(shape) and worker.fits_ever(shape)]
            self._wide[shape.shape] = self.members, wide
        return wide

    def _release(self, job: Job) -> None:
        reservations = self._reserved.get(job.cls.cls)
        if reservations is None or reservations[0].job is not job:
            return
        del self._reserved[job.cls.cls]
        for reservation in reservations:
            number = reservation.worker.worker
            self.reservations[number].remove(reservation)
            if not self.reservations[number]:
                del self.reservations[number]

    # --- sending ahead -----------------------------------------------------------------------------------------------

    def _send_ahead(
        self, cls: RequestClass, elders: list[RequestClass], changed: list[WorkerBook], out: list[HeadAction]
    ) -> None:
        if not cls.may_be_ahead:
            return
        shape = cls.shapes[0]
        if cls.cls in self.fresh:
            changed = list(islice(shape.users.values(), FRESH_MOST))
        for at, worker in enumerate(changed):
            job = cls.head()
            if job is None or not job.fn.is_quick:
                return
            if self._room <= 0:
                self._left += changed[at:]
                return
            if not worker.using.get(shape.shape) or worker.recalled or not self._may_wait_at(worker, cls):
                continue
            if not any(_goes_first(elder, job, shape, worker) for elder in elders):
                self._fill(worker, cls, shape, out)

    def _may_wait_at(self, worker: WorkerBook, cls: RequestClass) -> bool:
        held = self.reservations.get(worker.worker, ())
        return not (worker.leaving or worker.shut) and all(reservation.job.cls is cls for reservation in held)

    def _fill(self, worker: WorkerBook, cls: RequestClass, shape: Shape, out: list[HeadAction]) -> None:
        budget = AHEAD_S * worker.using[shape.shape]
        if worker.ahead_s > budget / 2 or len(worker.ahead) > AHEAD_MOST / 2:
            return
        jobs = worker.fill_ahead(cls, shape, budget, AHEAD_MOST)
        if jobs:
            self._holders.setdefault(shape.shape, {})[worker.worker] = worker
            out.append(_assignment(worker.worker, shape.shape, jobs, ahead=True))
            self._room -= len(jobs)

    # --- taking back -------------------------------------------------------------------------------------------------

    def _retract(self, elders: list[RequestClass], changed: list[WorkerBook], out: list[HeadAction]) -> None:
        if not self._holders:
            return
        for reservation in chain.from_iterable(self._reserved.values()):
            worker = reservation.worker
            self._recall(worker, [job for job in worker.ahead.values() if not self._may_wait_at(worker, job.cls)], out)
        for elder in elders:
            self._make_way(elder, changed, out)
        for worker in changed:
            if worker.ahead:
                self._recall(worker, _stranded(worker), out)
            elif worker.worker not in self.reservations:
                self._help(worker, out)

    def _make_way(self, elder: RequestClass, changed: list[WorkerBook], out: list[HeadAction]) -> None:
        """Take back, at one worker, what was sent ahead and would go past an elder that could use its room."""
        first = elder.head()
        if first is None:
            return
        workers: Iterable[WorkerBook] = changed
        if self._heeded.get(elder.cls) is not first:
            self._heeded[elder.cls] = first
            workers = dict.fromkeys(worker for holders in self._holders.values() for worker in holders.values())
        for worker in workers:
            if len(worker.ahead) == worker.ahead_in.get(elder.cls, 0):
                continue  # all of it is the elder's own: no need to look at thousands of jobs, one by one
            past = [
                job
                for job in worker.ahead.values()
                if job.shape is not None and _goes_first(elder, job, job.shape, worker)
            ]
            if past and not worker.gone:
                self._recall(worker, past, out)
                return

    def _recall(self, worker: WorkerBook, jobs: Iterable[Job], out: list[HeadAction]) -> None:
        if not worker.recalled:
            _take_back(worker, jobs, out)

    def recall_all(self, worker: WorkerBook, out: list[HeadAction]) -> None:
        """Take back all that was sent ahead to a worker and has not begun."""
        _take_back(worker, [job for job in worker.ahead.values() if job.job not in worker.recalled], out)

    def _help(self, idle: WorkerBook, out: list[HeadAction]) -> None:
        """Take the younger half of what waits elsewhere, of a shape for which `idle` has room and the queue nothing."""
        for number, holders in self._holders.items():
            worker = _first_holder(number, holders)
            if worker is None or worker.recalled:
                continue
            waiting = [job for job in worker.ahead.values() if job.shape is not None and job.shape.shape == number]
            shape = waiting[0].shape
            if shape is not None and waiting[0].cls.head() is None and idle.fits_now(shape):
                self._recall(worker, waiting[len(waiting) // 2 :], out)
                return


def _take_back(worker: WorkerBook, jobs: Iterable[Job], out: list[HeadAction]) -> None:
    back = [job for job in jobs if not job.cancelled]
    if back:
        worker.recalled.update(job.job for job in back)
        out.append(RetractJobs(worker.worker, [job.job for job in back], [job.attempt for job in back]))


def _first_holder(shape: int, holders: dict[int, WorkerBook]) -> WorkerBook | None:
    """A worker that holds jobs of the shape ahead; those that do no more are dropped on the way."""
    while holders:
        number, worker = next(iter(holders.items()))
        if not worker.gone and worker.ahead_of.get(shape):
            return worker
        del holders[number]
    return None


def _rank(job: Job) -> _Rank:
    return (*order(job), job.cls.cls, job)


def _goes_first(elder: RequestClass, job: Job, shape: Shape, worker: WorkerBook) -> bool:
    """Whether the oldest of `elder` goes before `job`, and one end of the job's shape here makes room for it.

    Two classes of one priority that both have quick jobs running here are both sent ahead: the node goes by age.
    For gangs no room is made at one worker: their reservations care for them.
    """
    first = elder.head()
    if first is None or elder is job.cls or order(first) > order(job):
        return False
    if elder.priority == job.cls.priority and worker.using.get(elder.shapes[0].shape) and first.fn.is_quick:
        return False
    return any(wanted.nodes == 1 and worker.fits_after(wanted, shape) for wanted in elder.shapes)


def _stranded(worker: WorkerBook) -> list[Job]:
    """What waits here although its shape runs here no more, and does not fit."""
    lost = {number for number, waiting in worker.ahead_of.items() if waiting and not worker.using.get(number)}
    if not lost:
        return []
    fits: dict[int, bool] = {}
    for shape in (job.shape for job in worker.ahead.values()):
        if shape is not None and shape.shape in lost and shape.shape not in fits:
            fits[shape.shape] = worker.fits_now(shape)
            if len(fits) == len(lost):
                break  # thousands may wait here, and nearly always all of one shape
    stuck = {number for number, fitting in fits.items() if not fitting}
    if not stuck:
        return []
    return [job for job in worker.ahead.values() if job.shape is not None and job.shape.shape in stuck]


def _assignment(worker: int, shape: int, jobs: list[Job], *, ahead: bool) -> AssignJobs:
    numbers, attempts = [job.job for job in jobs], [job.attempt for job in jobs]
    hard_s = None if jobs[0].shape is None else jobs[0].shape.hard_s
    return AssignJobs(worker, shape, ahead, numbers, attempts, [job.fn.fn for job in jobs], hard_s)

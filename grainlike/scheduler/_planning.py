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

from collections.abc import Collection, Iterable
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice

from grainlike.scheduler._books import ChangeLog, Job, Shape, WorkerBook
from grainlike.scheduler._candidates import Candidates
from grainlike.scheduler._events import AssignJobs, HeadAction, RetractJobs
from grainlike.scheduler._families import Families
from grainlike.scheduler._gangs import Gangs
from grainlike.scheduler._queues import RequestClass
from grainlike.scheduler._rations import Rations
from grainlike.scheduler._reservation import (
    RESERVATIONS_MOST,
    Reservation,
    is_patient_no_more,
    order,
    renewed,
    reserve_on,
    soft_limit,
)
from grainlike.scheduler._search import LOAN_S, VISITS_MOST, Search
from grainlike.scheduler._shares import Shares
from grainlike.scheduler._states import JobState
from grainlike.scheduler._waiting import FEW, Waiting

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

ELDERS_MOST = 4
"""How many blocked classes are heeded before others are sent ahead; a bound on the work of a pass."""

_Rank = tuple[int, int, int, Job]
"""Priority and age of a class's oldest job, the class, the job: what comes first is the smallest."""

_Batch = dict[tuple[int, int], list[Job]]
"""What a pass places, by worker and shape."""


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
        self.waiting = Waiting(classes)
        self._search: Search | None = None
        self._blocked: list[RequestClass] = []
        """What a pass found blocked that looked at all classes, in order."""
        self._all_anew = False
        """Whether the next search is to look at all workers."""
        self._reopened: dict[int, WorkerBook] = {}
        """The workers that are kept for fewer jobs than when the last pass that placed all that fits had ended."""
        self._lending: dict[int, WorkerBook] = {}
        """The workers with cores that are lent."""
        self._least: dict[str, int] = {}
        """The least that a worker ever had of each resource: who asks for half of it is not wide."""
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
        self.whole = self._place_all(now, out) and self._spread_ahead(now, out)
        if not self.whole:
            self.wake = now
        self._search = None
        self._blocked = []
        self.log.compact(len(self._workers))

    def _spread_ahead(self, now: float, out: list[HeadAction]) -> bool:
        """Send ahead, and take back what should not wait where it does; False if there is more to send."""
        changed = self._changed()
        elders: list[RequestClass] = []
        self._room = SENT_MOST
        few = self.waiting.are_few
        for cls in self._blocked if few else self._in_front(self._may_be_sent(changed)):
            self._send_ahead(cls, elders, changed, out)
            if not few:
                self.waiting.renew(cls, now)
            if len(elders) < ELDERS_MOST and cls.cls not in self._reserved and cls.head() is not None:
                elders.append(cls)
        self._retract(elders, changed, out)
        self.fresh.clear()
        return not self._left

    def _may_be_sent(self, changed: list[WorkerBook]) -> dict[int, RequestClass]:
        """The classes of which a job may now be sent ahead: that have new ones, or whose like runs on what changed."""
        found: dict[int, RequestClass] = {}
        for number in self.fresh:
            cls = self._classes.get(number)
            if cls is not None and cls.may_be_ahead and cls.entry is not None and cls.shapes[0].users:
                found[number] = cls
        for worker in changed:
            for shape in worker.using:
                alike = self.waiting.of_shape.get(shape)
                if alike is not None:
                    found.update(alike)
        return found

    def _in_front(self, wanted: dict[int, RequestClass]) -> list[RequestClass]:
        """Those that are wanted, and the first four others that have no reservation, in order."""
        if not (wanted or self._holders):
            return []
        found: list[RequestClass] = []
        others = 0
        for client in sorted(self.waiting.queues, key=self.shares.used):
            queue = self.waiting.queues[client]
            mine = [cls.entry for cls in wanted.values() if cls.client == client and cls.entry is not None]
            if others < ELDERS_MOST:
                for entry in queue:
                    if entry[2] not in wanted and entry[2] not in self._reserved:
                        mine.append(entry)
                        others += 1
                        if others == ELDERS_MOST:
                            break
            found += [self._classes[entry[2]] for entry in sorted(mine)]
        return found

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

    def _place_all(self, now: float, out: list[HeadAction]) -> bool:
        """Place jobs until no class's oldest fits; False if the next pass is to go on: so many were placed, or a
        reservation was dropped on the way, which may have blocked a class that had its turn before.
        """
        waiting = self.waiting
        reopened = self._reopened
        if reopened:
            self._reopened = {}
        if not waiting.are_few or len(waiting.few) > FEW:
            waiting.refresh(now)
        batch: dict[tuple[int, int], list[Job]] = {}
        if waiting.are_few:
            self._all_anew = True
            whole = self._place_few(now, batch, out)
        else:
            whole = self._place_many(now, batch, out, reopened)
        for (to, shape), jobs in batch.items():
            out.append(_assignment(to, shape, jobs, ahead=False))
        if whole:
            return not self._reopened
        self._reopened = {**reopened, **self._reopened}
        return False

    def _place_few(self, now: float, batch: _Batch, out: list[HeadAction]) -> bool:
        """Look at all classes, while they are few."""
        queues = self._ranked()
        self._blocked = blocked = list[RequestClass]()
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
        return not queues

    def _ranked(self) -> dict[int, list[_Rank]]:
        """The oldest job of each class, as a heap for each client."""
        queues: dict[int, list[_Rank]] = {}
        empty: list[int] = []
        for cls in self.waiting.few.values():
            job = cls.head()
            if job is not None:
                queues.setdefault(cls.client, []).append(_rank(job))
            else:
                empty.append(cls.cls)
        for number in empty:
            del self.waiting.few[number]
        for ranked in queues.values():
            heapify(ranked)
        return queues

    def _place_many(self, now: float, batch: _Batch, out: list[HeadAction], reopened: dict[int, WorkerBook]) -> bool:
        """Look at those classes only that could start where something has changed, or be reserved for."""
        if self.waiting.lose_patience(now):
            self._wake_at(now)
        search = self._search = Search(
            self.waiting, self._classes, self._workers, self.reservations, self._reserved, self._to_look_at(reopened),
            self._may_be_wide, now,
        )  # fmt: skip
        turns = search.turns
        room, visits = PLACED_MOST, VISITS_MOST
        while turns:
            client = min(turns, key=self.shares.used)
            job = search.next_of(client)
            if job is None:
                del turns[client]
            elif room <= 0 or visits <= 0:
                search.put_back(job.cls)
                return False
            elif search.fits_nowhere(client, job):
                self._reserve(job, now)
                visits -= search.blocked(client, job)
            elif self._place(job.cls, job, now, batch, out):
                search.placed(client, job.cls)
                room -= 1
            else:
                visits -= search.blocked(client, job)
        return True

    def _to_look_at(self, reopened: dict[int, WorkerBook]) -> Collection[WorkerBook]:
        """What has changed since the last pass that placed all that fits, and where more than amounts decides."""
        epoch, read = self._read
        if self._all_anew or self._lend_to_all or epoch != self.log.epoch:
            self._all_anew = False
            for worker in self._workers.values():
                self._note_lent(worker)
            return self._workers.values()
        found = dict.fromkeys(self.log.entries[read:])
        for worker in found:
            self._note_lent(worker)
        found.update(dict.fromkeys(self._lending.values()))
        found.update(dict.fromkeys(self._workers[number] for number in self.reservations))
        found.update(dict.fromkeys(reopened.values()))
        return found

    def _note_lent(self, worker: WorkerBook) -> None:
        if worker.lent and not worker.gone:
            self._lending[worker.worker] = worker
        else:
            self._lending.pop(worker.worker, None)

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
        self._reserved_anew()
        for reservation in reservations:
            number = reservation.worker.worker
            held = sorted([*self.reservations.get(number, ()), reservation], key=lambda held: order(held.job))
            self.reservations[number] = held
            for last in held[RESERVATIONS_MOST:]:
                self._release(last.job)

    def _reserved_anew(self) -> None:
        if self._search is not None:
            self._search.reserved_anew()

    def joined(self, worker: WorkerBook) -> None:
        """A worker joins. Where it has less of something than all others, more classes are wide."""
        self.members += 1
        less = False
        for name, amount in worker.capacity.items():
            if amount and amount < self._least.get(name, amount + 1):
                self._least[name], less = amount, True
        if less:
            for queue in list(self.waiting.queues.values()):
                for cls in [self._classes[entry[2]] for entry in queue]:
                    if self._may_be_wide(cls):
                        self.waiting.widen(cls)

    def _may_be_wide(self, cls: RequestClass) -> bool:
        """Whether a class may be one that is reserved for at once."""
        least = self._least
        return any(
            shape.nodes > 1 or any(name in least and 2 * amount > least[name] for name, amount in shape.units)
            for shape in cls.shapes
        )

    def _wide_for(self, shape: Shape) -> list[WorkerBook]:
        """The workers on which a job of the shape is wide."""
        least = self._least
        if not any(name in least and 2 * amount > least[name] for name, amount in shape.units):
            return []
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
        self._reserved_anew()
        for reservation in reservations:
            number = reservation.worker.worker
            self._reopened[number] = reservation.worker
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
            if len(self._heeded) > 2 * len(self._classes) + 64:
                self._heeded = {number: job for number, job in self._heeded.items() if number in self._classes}
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

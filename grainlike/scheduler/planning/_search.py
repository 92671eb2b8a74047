"""Search of a pass: of each client the next class that could start in the room that there is, or be reserved for.

Classes that were found blocked are compared with the workers that have changed since then, and with those where more
than free amounts decides: workers that are reserved, or have lent cores. New classes are compared with all workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush
from itertools import repeat

from grainlike.scheduler._records import HeadFunction, HeadJob, RequestClass, arrival
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._class_index import ClassIndex, Entry, Kind, Order, Room, fits
from grainlike.scheduler.planning._kinds import ANY, WorkerKinds
from grainlike.scheduler.planning._reservation import RESERVATIONS_MOST, Reservation
from grainlike.scheduler.planning._waiting import ClientQueue, WaitingClasses, entry_of

__all__ = ["LOAN_S", "Search"]

LOAN_S = 1.0
"""Seconds of run time up to which jobs of other trees may use lent cores, and only while no queued job of the lender's
tree fits there: the lender wants the cores back when it continues.
"""

CLAIMS_MOST = 64
"""Number of jobs of a client for which a pass tries in vain to reserve a worker; a bound on the work of a pass."""

VISITS_MOST = 4096
"""Number of visits in vain after which a pass ends early, while there are new classes to look at."""

FAILED_MOST = 8
"""Number of visits in vain after which it pays to compute, for the first time or again, where there is room."""

ROOMS_MOST = 32
"""The most different rooms that are compared; where there are more, the maximum of each resource stands for all of
them.
"""

_LAST = (1 << 200,)
"""A key greater than all amounts."""

_EVERYBODY: Order = (1 << 200, 0)
_NOBODY: Order = (-1 << 200, 0)
_UNKNOWN: Entry = (0, 0, 0, ())


class SearchProgress:
    """Progress of a pass with one client: all classes up to `cursor` were looked at, except those in `again`."""

    __slots__ = ("again", "cursor", "failed", "found", "fruitless", "queue", "seen")

    def __init__(self, queue: ClientQueue) -> None:
        self.queue = queue
        self.cursor: Entry | None = None
        self.again: list[Entry] = []
        """Classes that were given a worker, and have more jobs."""
        self.found: dict[Kind, Entry | None] = {}
        """The next class of each line that fits, as of `seen`."""
        self.seen = -1
        self.failed = 0
        """Number of new classes visited in vain."""
        self.fruitless = 0
        """Number of visits for a reservation in vain."""


class Search:
    """The search of one pass. `changed`: the workers with which classes that were blocked before are compared.

    `version` grows when reservations change.
    """

    def __init__(
        self,
        waiting: WaitingClasses,
        classes: dict[int, RequestClass],
        workers: dict[int, WorkerState],
        reservations: dict[int, list[Reservation]],
        reserved: dict[int, list[Reservation]],
        changed: Collection[WorkerState],
        kinds: WorkerKinds,
        now: float,
    ) -> None:
        self.turns = {client: SearchProgress(queue) for client, queue in waiting.queues.items()}
        self._waiting = waiting
        self._classes = classes
        self._workers = workers
        self._reservations = reservations
        self._reserved = reserved
        self._changed = changed
        self._kinds = kinds
        self._now = now
        self.version = 0
        self._rooms: dict[Kind, list[Room]] = {}
        self._everywhere: dict[Kind, list[Room]] = {}
        self._wide_limits: dict[tuple[int, ...], Order] = {}
        self._patient_limit: Order | None = None

    # --- results that the planner reports ----------------------------------------------------------------------------

    def placed(self, client: int, cls: RequestClass) -> None:
        """Record that the first job of a class was given a worker."""
        self._waiting.leave(cls)
        following = cls.head()
        if following is not None:
            heappush(self.turns[client].again, entry_of(following))
        if len(self._changed) <= FAILED_MOST:
            self._rooms.clear()

    def blocked(self, client: int, job: HeadJob) -> int:
        """Record that the first job of a class was not. Returns how much that counts towards the early end of the
        pass.
        """
        turn, cls = self.turns[client], job.cls
        place = cls.place
        if place is not None and place is not turn.queue.new:
            if len(self._changed) > FAILED_MOST:
                self._rooms.clear()  # of before what was placed since
            turn.fruitless += cls.claim is not None and cls.id not in self._reserved
            return 0
        if turn.queue.size == 1:
            self._waiting.leave(cls)  # a client of whose classes the only one is blocked goes behind those of equal use
        self._waiting.add_blocked(cls, job, self._now, self._kinds.wide_on(cls))
        if place is None:
            return 0
        turn.failed += 1
        if turn.failed % FAILED_MOST == 0:
            self._everywhere.clear()
        return 1

    def reserved_anew(self) -> None:
        """Record that reservations have changed: more jobs may be admitted, or fewer."""
        self._rooms.clear()
        self._everywhere.clear()
        self._wide_limits.clear()
        self._patient_limit = None
        self.version += 1

    def put_back(self, cls: RequestClass) -> None:
        """Return the classes in hand, and `cls`, to the index: the pass ends early, and the next one goes on with
        them.
        """
        again = [self._classes[entry[2]] for turn in self.turns.values() for entry in turn.again]
        for found in (cls, *again):
            job = found.head()
            if job is not None and found.place is None:
                self._waiting.add_new(found, job)

    def has_passed(self, cls: RequestClass) -> bool:
        """Return True if a waiting class had its turn in this pass, or would have had it."""
        turn = self.turns.get(cls.client)
        if turn is None or cls.entry is None:
            return True
        return turn.cursor is not None and cls.entry <= turn.cursor

    # --- the next one ------------------------------------------------------------------------------------------------

    def next_of(self, client: int) -> HeadJob | None:
        """Return the first job of a client's next class that could start, or be reserved for; None if there is none."""
        turn = self.turns[client]
        entry, line = self._next_of_few(turn)
        found = self._next_fitting(turn)
        if found is not None and (entry is None or found < entry):
            entry, line = found, None
        elif line is None and entry is not None:
            heappop(turn.again)
        if entry is None:
            return None
        turn.cursor = (*entry[:3], _LAST)
        return self._classes[entry[2]].head()

    def _next_of_few(self, turn: SearchProgress) -> tuple[Entry | None, ClassIndex | None]:
        """Return the next class to look at whatever room there is, with its line: None for one of `again`."""
        queue = turn.queue
        best: Entry | None = turn.again[0] if turn.again else None
        source: ClassIndex | None = None
        for line in (queue.new, queue.always):
            entry = line.after(turn.cursor) if line.blocks else None
            if entry is not None and (best is None or entry < best):
                best, source = entry, line
        if (queue.wide or queue.patient.blocks) and turn.fruitless < CLAIMS_MOST:
            for kinds, line in queue.wide.items():
                entry = self._claim(line, turn.cursor, self._wide_limits.get(kinds) or self._wide_up_to(kinds))
                if entry is not None and (best is None or entry < best):
                    best, source = entry, line
            entry = self._claim(queue.patient, turn.cursor, self._patient_up_to()) if queue.patient.blocks else None
            if entry is not None and (best is None or entry < best):
                best, source = entry, queue.patient
        return best, source

    def _claim(self, line: ClassIndex, after: Entry | None, limit: Order) -> Entry | None:
        """Return the next class that has no reservation, and could get one."""
        if after is not None and after[:2] >= limit:
            return None
        entry = line.after(after, self._reserved)
        return entry if entry is not None and entry[:2] < limit else None

    def _wide_up_to(self, kinds: tuple[int, ...]) -> Order:
        """Return up to which order there is a worker to reserve for a job that is wide on these kinds of workers."""
        limit = self._wide_limits.get(kinds)
        if limit is None:
            limit = self._wide_limits[kinds] = self._open_up_to(self._kinds.of(kinds), 1)
        return limit

    def may_reserve(self, job: HeadJob, *, patient: bool) -> bool:
        """Return False if all workers are reserved for jobs that go before this one."""
        return arrival(job) < (self._patient_up_to() if patient else self._wide_up_to(ANY))

    def _patient_up_to(self) -> Order:
        """Return up to which order there is a worker to reserve for a job that was passed over for long."""
        if self._patient_limit is None:
            self._patient_limit = self._open_up_to(self._workers.values(), RESERVATIONS_MOST)
        return self._patient_limit

    def _open_up_to(self, workers: Iterable[WorkerState], most: int) -> Order:
        """Return up to which order one of these workers may be reserved; those with fewer than `most` are for any."""
        limit = _NOBODY
        for worker in workers:
            if not (worker.leaving or worker.shut):
                held = self._reservations.get(worker.id)
                if held is None or (most > 1 and len(held) < most):
                    return _EVERYBODY
                last = arrival(held[-1].job)
                if last > limit:
                    limit = last
        return limit

    # --- those that fit ----------------------------------------------------------------------------------------------

    def _next_fitting(self, turn: SearchProgress) -> Entry | None:
        """Return the next class of all lines that fits into what has changed."""
        if not self._changed:
            return None
        if turn.seen != self.version:
            turn.found.clear()
            turn.seen = self.version
        best: Entry | None = None
        for kind, line in turn.queue.lines.items():
            rooms = self._rooms.get(kind)
            if rooms is None:
                rooms = self._rooms[kind] = self._rooms_for(kind, line)
            entry = turn.found.get(kind, _UNKNOWN)
            if entry is None or (entry is not _UNKNOWN and best is not None and entry > best):
                continue
            # Room does not grow during a pass, so the class that was found remains the first that may still fit.
            entry = turn.found[kind] = line.first_fitting(rooms, turn.cursor)
            if entry is not None and (best is None or entry < best):
                best = entry
        return best

    def fits_nowhere(self, client: int, job: HeadJob) -> bool:
        """Return True if a new class is known to fit nowhere; computed once several visits were in vain."""
        turn, cls = self.turns[client], job.cls
        if turn.failed < FAILED_MOST or cls.place is not turn.queue.new or not cls.is_simple:
            return False
        kind = cls.kind
        rooms = self._everywhere.get(kind)
        if rooms is None:
            rooms = self._everywhere[kind] = self._rooms_of(kind, job.fn, self._workers.values())
        return not fits(entry_of(job), cls.needs, rooms)

    def _rooms_for(self, kind: Kind, line: ClassIndex) -> list[Room]:
        """Return the room of the workers that have changed; none that is too small for all classes of the kind."""
        job = self._classes[line.blocks[0][0][2]].head() if line.blocks else None
        if job is None:
            return []
        least = line.floor
        if len(self.turns) > 1:
            floors = [turn.queue.lines[kind].floor for turn in self.turns.values() if kind in turn.queue.lines]
            least = tuple(map(min, zip(*floors, strict=True)))
        return self._rooms_of(kind, job.fn, self._roomy(tuple(zip(kind[0], least, strict=True))))

    def _roomy(self, least: tuple[tuple[str, int], ...]) -> Collection[WorkerState]:
        """Return the workers that have changed and have so much free; all, if the maximum of all rooms counts."""
        if len(self._changed) + sum(map(len, self._reservations.values())) > ROOMS_MOST:
            return self._changed
        found: list[WorkerState] = []
        for worker in self._changed:
            free = worker.free
            for name, amount in least:
                if free.get(name, 0) < amount:
                    break
            else:
                found.append(worker)
        return found

    def _rooms_of(self, kind: Kind, fn: HeadFunction, workers: Collection[WorkerState]) -> list[Room]:
        """Return the room that the workers have for classes of a kind."""
        names, number, in_tree = kind
        limit = fn.times.upper if number and fn.times.known else None
        bound = not in_tree and number != 0  # all others are checked job by job (`Planner.admits`)
        found: dict[Room, None] = {}
        for worker in workers:
            if worker.leaving or worker.shut or worker.gone:
                continue
            free = worker.free
            if worker.lent and bound and (limit is None or limit > LOAN_S):
                free = {**free, "cores": free["cores"] - worker.lent}
            room = tuple(map(free.get, names, repeat(-1)))
            held = self._reservations.get(worker.id)
            if held is not None and bound:
                for other in held:  # in order of their jobs
                    spare = other.spare or other.as_of(self._now).spare
                    if limit is None or self._now + limit > other.start:
                        found[room, arrival(other.job)] = None
                        room = tuple(map(min, room, map(spare.get, names, repeat(0))))
            found[room, None] = None
        if len(found) > ROOMS_MOST:
            return [(tuple(map(max, zip(*(room for room, _ in found), strict=True))), None)]
        return list(found)

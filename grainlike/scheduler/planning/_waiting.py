"""Index of the request classes in which jobs wait, which finds those that could start in the room that there is.

The classes of a client stand in *lines*, in scheduling order: a line for each set of requested resources and each
function. Each is a `ClassIndex`. A class whose jobs were never compared with all workers is *new*; every other one is
blocked, and only what has changed since can help it.

Passes that looked at every waiting class took seconds for 1500 jobs with a request each, and thousands of such jobs
kept the head from its heartbeats. Up to `FEW` classes that is still cheaper than the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from grainlike.scheduler._records import HeadJob, RequestClass, order
from grainlike.scheduler._workers import WorkerState
from grainlike.scheduler.planning._candidates import FreeRooms, nobody_has_room
from grainlike.scheduler.planning._class_index import ClassIndex, Entry, Kind
from grainlike.scheduler.planning._dormant import DormantClasses, Look
from grainlike.scheduler.planning._kinds import WorkerKinds
from grainlike.scheduler.planning._patience import Patience

__all__ = ["FEW", "FEW_BEFORE", "ClientQueue", "WaitingClasses", "entry_of"]

FEW = 16
"""Number of classes up to which a pass looks at all of them, without an index."""

FEW_BEFORE = 64
"""That number in journals of earlier schemas (`LAPSE_SCHEMA`); it never changes."""

IMPATIENT_MOST = 512
"""Number of classes that one pass marks as having waited for long, and of new ones that it need not look at."""


class ClientQueue:
    """The classes of one client in which jobs wait.

    Attributes:
        new: those whose first job was not compared with all workers yet.
        always: those that wait for more than amounts, such as a limit: each pass looks at them.
        lines: all others, and dormant ones.
        wide: those of `lines` that may be reserved for at once, by the kinds of workers on which they are wide.
        patient: those of `lines` that may be reserved for because they were passed over for long.
    """

    __slots__ = ("always", "lines", "new", "patient", "size", "wide")

    def __init__(self) -> None:
        self.new = ClassIndex()
        self.always = ClassIndex()
        self.lines: dict[Kind, ClassIndex] = {}
        self.wide: dict[tuple[int, ...], ClassIndex] = {}
        self.patient = ClassIndex()
        self.size = 0

    def __iter__(self) -> Iterator[Entry]:
        return merge(self.new, self.always, *self.lines.values())

    def firsts(self) -> list[Entry]:
        """Return the first class of each line."""
        lines = (self.new, self.always, *self.lines.values())
        return [entry for line in lines if (entry := line.after(None)) is not None]


class WaitingClasses:
    """All classes in which jobs wait, by client. `classes` is the scheduler's own mapping, not a copy."""

    def __init__(self, classes: dict[int, RequestClass]) -> None:
        self._classes = classes
        self.queues: dict[int, ClientQueue] = {}
        self.size = 0
        self.of_shape: dict[int, dict[int, RequestClass]] = {}
        """Classes whose jobs may be sent ahead, by their preferred shape."""
        self.are_few = True
        self.few: dict[int, RequestClass] = {}
        """All classes, while they are too few for the index to pay; some may be empty by now."""
        self._touched: dict[int, RequestClass] = {}
        self.dormant = DormantClasses()
        self.patience = Patience(classes, self.is_first)

    @property
    def count(self) -> int:
        """Number of classes in which jobs may wait."""
        return len(self.few) if self.are_few else self.size + len(self._touched)

    def touch(self, cls: RequestClass) -> None:
        """Record that the first job of a class may have changed."""
        if self.are_few:
            self.few[cls.id] = cls
        else:
            self._touched[cls.id] = cls

    def refresh(self, now: float, few: int) -> None:
        """Update the classes that were touched; start or stop using the index, of which up to `few` have no need."""
        if self.are_few:
            if len(self.few) <= few:
                return
            self.are_few = False
            self._touched, self.few = self.few, {}
        if self._touched:
            touched, self._touched = self._touched, {}
            for cls in touched.values():
                self.renew(cls, now)
                if cls.near and cls in self.dormant:
                    self.rouse(cls)
        if self.size <= few // 2:
            classes = [self._classes[entry[2]] for queue in self.queues.values() for entry in queue]
            for cls in classes:
                self.leave(cls)
            self.few = {cls.id: cls for cls in classes}
            self.are_few = True

    @property
    def wait_for_more(self) -> bool:
        """True if there are classes that not only wait for amounts, or were not compared with all workers yet."""
        queues = self.queues.values()
        return any(queue.new.blocks or queue.always.blocks or queue.wide or queue.patient.blocks for queue in queues)

    def block_new(self, workers: dict[int, WorkerState], kinds: WorkerKinds, now: float, few: int) -> bool:
        """Enter touched classes as blocked; False unless all are new and fit nowhere."""
        touched = self._touched
        if not self.size + len(touched) > few // 2 or len(touched) > IMPATIENT_MOST:
            return False
        if touched:
            rooms: FreeRooms = {}
            client = next(iter(touched.values())).client
            for cls in touched.values():
                job = cls.head()
                # Of several clients each goes in its turn, which decides who is next among those of equal use.
                if cls.client != client or cls.place is not None or not cls.is_simple or cls.blocked_job is job:
                    return False
                for shape in cls.shapes:
                    if kinds.may_be_wide(shape):
                        return False
                if not nobody_has_room(cls, workers, rooms):
                    return False
            self._touched = {}
            for cls in touched.values():
                self.add_blocked(cls, cls.queue[0], now, ())
        return True

    def renew(self, cls: RequestClass, now: float) -> None:
        """Move a class to where its first job belongs; remove it if it has none."""
        job = cls.head()
        if job is None:
            self.leave(cls)
        elif cls.place is None:
            self.add_new(cls, job)
        elif cls.entry != entry_of(job) or cls.kind != _kind_of(job):
            blocked = cls.place is not self.queues[cls.client].new
            self.leave(cls)
            if blocked:
                self.add_blocked(cls, job, now, cls.wide_on)
            else:
                self.add_new(cls, job)

    def add_new(self, cls: RequestClass, job: HeadJob) -> None:
        """Insert a class whose first job was not compared with the workers yet."""
        queue = self._queue(cls)
        self._add(cls, job, queue.new, _kind_of(job))

    def add_blocked(self, cls: RequestClass, job: HeadJob, now: float, wide_on: tuple[int, ...]) -> None:
        """The first job of a class, new or in no line, fits nowhere. It may be reserved for at once on workers of the
        kinds `wide_on`.
        """
        queue = self._queue(cls)
        kind = _kind_of(job)
        line = self._line(queue, kind) if cls.is_simple else queue.always
        if cls.place is None:
            self._add(cls, job, line, kind)
        else:
            self._move(cls, line)
        if cls.is_simple:
            self._widen(cls, wide_on)
            self.patience.blocked(job, now)
            if cls.passed_since is not None:
                self.patience.await_end(job)

    def _line(self, queue: ClientQueue, kind: Kind) -> ClassIndex:
        """Return the line for classes of a kind."""
        line = queue.lines.get(kind)
        if line is None:
            line = queue.lines[kind] = ClassIndex()
        return line

    def let_rest(self, cls: RequestClass, job: HeadJob, look: Look) -> None:
        """Let a class rest that was looked at in vain, until something changes on which that depended."""
        self._remove(cls)
        kind = _kind_of(job)
        self._add(cls, job, self._line(self._queue(cls), kind), kind)
        self.dormant.add(cls, job, look)

    def rouse(self, cls: RequestClass) -> None:
        """Have a dormant class looked at by each pass, until it may rest again."""
        job = cls.head()
        if job is None:
            self.leave(cls)
        else:
            self._remove(cls)
            self._add(cls, job, self._queue(cls).always, _kind_of(job))

    def leave(self, cls: RequestClass) -> None:
        """Remove a class from the index."""
        if cls.place is not None:
            self._remove(cls)
            if not self.queues[cls.client].size:
                del self.queues[cls.client]

    def _remove(self, cls: RequestClass) -> None:
        """Remove a class, and keep the queue of its client: a pass may be at work on it."""
        if cls.place is None or cls.entry is None:
            return
        if cls.near:
            self.dormant.discard(cls)
        self._unclaim(cls)
        cls.place.remove(cls.entry)
        queue = self.queues[cls.client]
        if not cls.place.blocks and queue.lines.get(cls.kind) is cls.place:
            del queue.lines[cls.kind]
        queue.size -= 1
        self.size -= 1
        cls.place = cls.entry = None
        if cls.may_be_ahead:
            alike = self.of_shape[cls.shapes[0].id]
            del alike[cls.id]
            if not alike:
                del self.of_shape[cls.shapes[0].id]

    def lose_patience(self, now: float) -> bool:
        """Let classes that have waited for long be reserved for on any worker; return True if there are more."""
        for cls in self.patience.ended(now, IMPATIENT_MOST):
            if cls in self.dormant:
                self.rouse(cls)
            elif cls.place is not None and cls.is_simple and cls.place is not self.queues[cls.client].new:
                self._unclaim(cls)
                self._claim(cls, self.queues[cls.client].patient)
        return self.patience.is_any_due(now)

    def is_first(self, job: HeadJob) -> bool:
        """Return True if no waiting job of its client goes before this one."""
        mine = order(job)
        if self.are_few:
            firsts = (cls.head() for cls in self.few.values() if cls.client == job.cls.client)
            return all(first is None or mine <= order(first) for first in firsts)
        queue = self.queues.get(job.cls.client)
        return queue is None or all(mine <= entry[:2] for entry in queue.firsts())

    def widen(self, cls: RequestClass, wide_on: tuple[int, ...]) -> None:
        """Note on which kinds of workers a class is wide, now that there is another kind."""
        queue = self.queues[cls.client]
        if cls.is_simple and cls.place not in (None, queue.new) and cls.claim is not queue.patient:
            self._unclaim(cls)
            self._widen(cls, wide_on)

    def _widen(self, cls: RequestClass, wide_on: tuple[int, ...]) -> None:
        cls.wide_on = wide_on
        if wide_on:
            self._claim(cls, self.queues[cls.client].wide.setdefault(wide_on, ClassIndex()))

    def _queue(self, cls: RequestClass) -> ClientQueue:
        queue = self.queues.get(cls.client)
        if queue is None:
            queue = self.queues[cls.client] = ClientQueue()
        return queue

    def _add(self, cls: RequestClass, job: HeadJob, line: ClassIndex, kind: Kind) -> None:
        cls.entry, cls.kind, cls.place = entry_of(job), kind, line
        line.add(cls.entry)
        self.queues[cls.client].size += 1
        self.size += 1
        if cls.may_be_ahead:
            self.of_shape.setdefault(cls.shapes[0].id, {})[cls.id] = cls

    def _move(self, cls: RequestClass, line: ClassIndex) -> None:
        """Move a class that was new to another line; its first job is the same."""
        assert cls.place is not None
        assert cls.entry is not None
        cls.place.remove(cls.entry)
        cls.place = line
        line.add(cls.entry)

    def _claim(self, cls: RequestClass, line: ClassIndex) -> None:
        assert cls.entry is not None
        cls.claim = line
        line.add((*cls.entry[:3], ()))

    def _unclaim(self, cls: RequestClass) -> None:
        if cls.claim is not None and cls.entry is not None:
            cls.claim.remove((*cls.entry[:3], ()))
            wide = self.queues[cls.client].wide
            if not cls.claim.blocks and wide.get(cls.wide_on) is cls.claim:
                del wide[cls.wide_on]
            cls.claim = None

    # --- invariants --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `AssertionError` unless each class in which jobs wait has one place here. Costs a walk over all."""
        if self.are_few:
            assert all(cls.id in self.few for cls in self._classes.values() if cls.head() is not None)
            assert not self.size
            return
        for cls in self._classes.values():
            job = cls.head()
            if cls.id in self._touched:
                continue
            assert (job is None) == (cls.place is None), "a class in which jobs wait has a place, and no other one"
            if job is not None:
                assert cls.entry == entry_of(job), (cls.entry, entry_of(job))
        here = sorted(entry[2] for queue in self.queues.values() for entry in queue)
        assert here == sorted(cls.id for cls in self._classes.values() if cls.place is not None)
        assert self.size == len(here)
        assert all(queue.size == sum(1 for _ in queue) for queue in self.queues.values())


def entry_of(job: HeadJob) -> Entry:
    """Return the entry of the class of a job while this is its first."""
    cls = job.cls
    return (*order(job), cls.id, cls.needs)


def _kind_of(job: HeadJob) -> Kind:
    cls = job.cls
    return cls.names, 0 if cls.timed else job.fn.id, bool(cls.root)

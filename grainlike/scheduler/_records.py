"""Records of the head: functions, jobs and the classes in which they queue, shapes and leases, in amounts only.

Workers alone deal in concrete ids; what the head knows of each is in `_workers`.

Amounts are integers of one billionth (see `grainlike.resources`), so that sums are exact.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter, itemgetter

from grainlike._deferred import CHUNK, DeferredRecords, RecordTable
from grainlike.resources import MEMORY, UNIT, Request
from grainlike.scheduler._events import FunctionDefined, JobsSubmitted
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import RunTimes
from grainlike.scheduler.planning._class_index import ClassIndex, Entry, Kind
from grainlike.scheduler.values._inputs import JobInputs, RoomTries
from grainlike.wire import Wait

__all__ = [
    "ANYWHERE",
    "ChildJobs",
    "DeepestFirst",
    "HeadFunction",
    "HeadJob",
    "LeaseState",
    "RequestClass",
    "Shape",
    "arrival",
    "enter",
    "note_sizes",
    "order",
]

_UNIT = 10**9

ANYWHERE = -1
"""Place of jobs that need values and prefer no worker (`RequestClass.near`)."""

_QUEUED = JobState.QUEUED

_by_age, _first, _second = attrgetter("age", "id"), itemgetter(0), itemgetter(1)

_NO_TOKENS: frozenset[str] = frozenset()


class HeadFunction:
    """Record of a function: how long its jobs take, and when a failed or lost one is tried again."""

    __slots__ = ("backoff", "gives", "id", "losses", "on_timeout", "quick_s", "retries", "times")

    def __init__(self, told: FunctionDefined) -> None:
        self.id: int = told.fn
        self.retries: int = told.retries
        self.losses: int = told.losses
        self.backoff: tuple[float, float, float] | None = told.backoff
        self.on_timeout: bool = told.on_timeout
        self.quick_s: float = told.quick_s
        self.times: RunTimes = RunTimes()
        self.gives: int = 0
        """Bytes of the largest of its values that stayed at a worker, or could have stayed at one."""

    @property
    def is_quick(self) -> bool:
        """True if its jobs are known to be so short that a round trip matters."""
        return self.times.known and self.times.mean <= self.quick_s


class HeadJob:
    """Record of a live job. `worker` and `shape` are 0 and None unless it is at a worker.

    Very many jobs may queue, so attributes that few of them need are in a separate record (`ExtraState`): of jobs in
    trees of jobs, and of those that were cancelled, or whose attempts failed or were lost.
    """

    __slots__ = ("age", "attempt", "cancelled", "cls", "fn", "id", "own", "rare", "sent", "shape", "state", "worker")

    def __init__(self, job: int, cls: RequestClass, fn: HeadFunction, parent: HeadJob | None = None) -> None:
        self.id: int = job
        self.age: int = job
        self.rare: ExtraState | None = (
            None if parent is None else ExtraState(parent, parent.root, parent.depth + 1, order(parent)[1])
        )
        self.cls: RequestClass = cls
        self.fn: HeadFunction = fn
        self.own: Request | None = None
        """Its request, if that is for somewhat less memory than its class says; see `Catalogue.class_for`."""
        self.attempt: int = 1
        self.state: JobState = _QUEUED
        self.shape: Shape | None = None
        self.worker: int = 0
        self.cancelled: bool = False
        self.sent: float = 0.0
        """Time at which it was planned; of a job that was sent ahead, the seconds that it is expected to take."""

    def __lt__(self, other: HeadJob) -> bool:
        """Return True if it has the lower number: for heaps, among jobs of one age."""
        return self.id < other.id

    @property
    def request(self) -> Request:
        """The request as the user wrote it."""
        return self.cls.request if self.own is None else self.own

    @property
    def memory(self) -> int:
        """Bytes that it asked for, if its class says more; else 0."""
        return 0 if self.own is None else self.own.units[MEMORY] // UNIT

    @property
    def size(self) -> int:
        """Bytes of its arguments, if they are large, else 0."""
        return 0 if self.rare is None else self.rare.size

    @property
    def parent(self) -> HeadJob | None:
        """The job that submitted it; None for one of the user's program."""
        return None if self.rare is None else self.rare.parent

    @property
    def root(self) -> int:
        """The number of the oldest job of its tree, which may be itself."""
        return self.id if self.rare is None else self.rare.root

    @property
    def depth(self) -> int:
        """Number of jobs above it in its tree."""
        return 0 if self.rare is None else self.rare.depth

    @property
    def family(self) -> ChildJobs | None:
        """Its children, and what it waits for; None until it submits a job or waits."""
        return None if self.rare is None else self.rare.family

    @family.setter
    def family(self, family: ChildJobs | None) -> None:
        self.remembered().family = family

    @property
    def retries(self) -> int:
        """Number of further attempts that it may fail."""
        return self.fn.retries - self.failures

    @property
    def failures(self) -> int:
        """Number of its attempts that have failed."""
        return 0 if self.rare is None else self.rare.failures

    @property
    def losses(self) -> int:
        """Number of times that its runner or worker died while it ran."""
        return 0 if self.rare is None else self.rare.losses

    @property
    def data(self) -> JobInputs | None:
        """The values that it needs, and its way to them; None for a job that needs none."""
        return None if self.rare is None else self.rare.data

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the values that it needs, which stay at workers."""
        return () if self.rare is None or self.rare.data is None else self.rare.data.inputs

    @property
    def tried(self) -> RoomTries | None:
        """Workers where it ran and its value found no room; None without any."""
        return None if self.rare is None else self.rare.tried

    @property
    def again_at(self) -> float:
        """Time at which its next attempt may begin, while it is in backoff."""
        return 0.0 if self.rare is None else self.rare.again_at

    @property
    def cancelled_at(self) -> float:
        """Time at which it was cancelled."""
        return 0.0 if self.rare is None else self.rare.cancelled_at

    @property
    def committed(self) -> bool:
        """True once items of its stream were passed on: this attempt is its last."""
        return self.rare is not None and self.rare.committed

    def inherit(self, age: int) -> bool:
        """Make it as old as its oldest input, which is the job `age`, 0 for none; return False if it is older."""
        if not 0 < age < self.id:
            return False
        self.age = age
        if self.rare is not None and self.rare.parent is None:
            self.rare.tree_age = age
        return True

    def remembered(self) -> ExtraState:
        """Return its `ExtraState`, made if it has none, to write into."""
        if self.rare is None:
            self.rare = ExtraState(None, self.id, 0, self.age)
        return self.rare


def order(job: HeadJob) -> tuple[int, int]:
    """Return the order within a client: priority, then age; a job's own jobs are as old as it is, and a job is as old
    as the oldest of its inputs.
    """
    return (-job.cls.priority, job.age if job.rare is None else job.rare.tree_age)


def arrival(job: HeadJob) -> tuple[int, int]:
    """Return the order by which jobs are passed over and reserved for: priority, then when they came, whatever their
    inputs; a job's own jobs came with it. By age a chain without end would keep what comes later from starting.
    """
    return (-job.cls.priority, job.id if job.rare is None else job.rare.root)


def note_sizes(jobs: Iterable[HeadJob], sizes: Iterable[int]) -> None:
    """Record the bytes of the arguments of jobs, 0 where they are small."""
    for job, size in zip(jobs, sizes, strict=True):
        if size:
            job.remembered().size = size


class ExtraState:
    """Attributes that few jobs have: their place in a tree of jobs, and failures; see the properties of `HeadJob`."""

    __slots__ = (
        "again_at", "cancelled_at", "committed", "data", "depth", "failures", "family", "losses", "parent", "root",
        "size", "tree_age", "tried",
    )  # fmt: skip

    def __init__(self, parent: HeadJob | None, root: int, depth: int, tree_age: int) -> None:
        self.parent: HeadJob | None = parent
        self.root: int = root
        self.depth: int = depth
        self.tree_age: int = tree_age
        """Age of the oldest job of its tree, which may be itself."""
        self.family: ChildJobs | None = None
        self.failures: int = 0
        self.losses: int = 0
        self.again_at: float = 0.0
        self.cancelled_at: float = 0.0
        self.committed: bool = False
        self.size: int = 0
        """Bytes of its arguments, if they are large."""
        self.data: JobInputs | None = None
        self.tried: RoomTries | None = None
        """Workers where it ran and its value found no room; None without any."""


class ChildJobs:
    """The children of one attempt of a job, and what it waits for."""

    __slots__ = ("children", "heard", "lease", "told", "waits")

    def __init__(self) -> None:
        self.children: dict[int, HeadJob] = {}
        """Those that have not ended and were not cancelled."""
        self.told: int = 0
        """Number of outcomes that it was sent."""
        self.heard: int = 0
        """Number of outcomes that it had received when it last reported a wait."""
        self.waits: Wait = Wait.NOTHING
        self.lease: LeaseState | None = None
        """The lease in which it waits."""


class Shape:
    """A way to satisfy a request: what a job takes on one worker. Messages to workers name it by its number.

    A request `a | b` has two shapes, in the order of preference; most requests have one. A gang's shape is what it
    takes on each of its `nodes` workers; limits and rates count once for all of them.
    """

    __slots__ = (
        "group", "id", "isolate", "limits", "may_be_ahead", "nodes", "plain", "rates", "rationed", "request", "share",
        "tokens", "units", "users", "varied", "walltime", "walltime_soft", "with_inputs",
    )  # fmt: skip

    def __init__(self, shape: int, request: Request, group: RunTimes | None, *, isolate: bool) -> None:
        terms = request.terms  # read here once, as there may be a shape for each job
        self.id: int = shape
        self.request: Request = request if terms.nodes == 1 else request.each
        self.nodes: int = terms.nodes
        self.isolate: bool = isolate
        self.varied: bool = False
        """True if jobs of it may have asked for less memory (`HeadJob.own`)."""
        self.with_inputs: bool = False
        """True if jobs of it may need values."""
        self.users: dict[int, None] = {}
        """Numbers of the workers on which planned jobs or leases of it are counted now, in the order of the first."""
        self.units: tuple[tuple[str, int], ...] = tuple(request.units.items())
        self.share: int = request.units.get("cores", _UNIT)
        """The amount that one job of it counts in fair shares: its cores, one if it asks for none."""
        self.tokens: frozenset[str] = frozenset(terms.tokens) if terms.tokens else _NO_TOKENS
        self.limits: tuple[tuple[str, int], ...] = tuple(request.limits.items()) if terms.limits else ()
        self.rates: tuple[tuple[str, int], ...] = tuple(request.rates.items()) if terms.rates else ()
        self.rationed: bool = bool(self.limits or self.rates)
        """True if it has a cluster-wide limit or rate: such jobs are never sent ahead."""
        self.plain: bool = not (self.rationed or terms.nodes > 1 or group is not None)
        """True if the end of a job of it changes the records of its worker only."""
        self.walltime: float | None = request.walltime
        self.walltime_soft: float | None = request.walltime_soft
        self.group: RunTimes | None = group
        """The run times of its walltime group, from which limits are learned; None without one."""
        self.may_be_ahead: bool = self.plain and terms.walltime is None
        """True if jobs of it may wait at a worker that is full."""

    @property
    def soft_s(self) -> float | None:
        """Seconds within which a job is expected to end: its group's mean + 2σ once that is known, before that as
        declared.
        """
        return self.group.upper if self.group is not None and self.group.known else self.walltime_soft

    @property
    def hard_s(self) -> float | None:
        """Seconds after which a job is ended: its group's mean + 5σ once that is known, before that as declared; None
        for no limit.
        """
        return self.group.over(5.0) if self.group is not None and self.group.known else self.walltime


class LeaseState:
    """Record of a lease on a worker."""

    __slots__ = ("begun", "client", "fn", "id", "lent", "root", "shape")

    def __init__(self, lease: int, shape: Shape, first: HeadJob | None, begun: float) -> None:
        self.id: int = lease
        self.root: int = 0 if first is None else first.root
        self.lent: int = 0
        """Amount of its cores that is lent."""
        self.client: int = 0 if first is None else first.cls.client
        self.shape: Shape = shape
        self.fn: HeadFunction | None = None if first is None else first.fn
        self.begun: float = begun


class DeepestFirst:
    """The queue of a tree's jobs, with the interface of a deque: the deepest job first, at the same depth the
    oldest.

    A recursion then goes deep before it goes wide, and the number of waiting jobs is its depth. In order of age, all
    jobs of a level would be started before the first of them could end.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, HeadJob]] = []

    def append(self, job: HeadJob) -> None:
        """Insert a job at its place."""
        heappush(self._heap, (-job.depth, job.age, job))

    appendleft = append

    def extend(self, jobs: Iterable[HeadJob]) -> None:
        """Insert jobs at their places."""
        for job in jobs:
            self.append(job)

    def popleft(self) -> HeadJob:
        """Remove and return the first job."""
        return heappop(self._heap)[2]

    def remove(self, job: HeadJob) -> None:
        """Remove a job from anywhere."""
        self._heap.remove((-job.depth, job.age, job))
        heapify(self._heap)

    def clear(self) -> None:
        """Remove all jobs."""
        self._heap.clear()

    def __getitem__(self, at: int) -> HeadJob:
        return self._heap[at][2]

    def __iter__(self) -> Iterator[HeadJob]:
        return (job for _, _, job in sorted(self._heap))

    def __len__(self) -> int:
        return len(self._heap)


class RequestClass:
    """Jobs of one client with the same request and priority: one queue, the oldest first; for a tree the deepest first.
    Jobs that need values have a class for each worker that they prefer.

    Most jobs come in the order of their ages, and stand in `queue`. One that is older than the last of those, as its
    inputs are older, waits in `early` until it is the first of all. Jobs leave the queue at its front only, where
    `head` puts the first; a cancelled one stays in it, and `head` skips it.
    """

    __slots__ = (
        "aged", "blocked_job", "blocked_since", "claim", "client", "could_since", "deferred", "early", "entry", "id",
        "in_order", "is_simple", "isolate", "kind", "may_be_ahead", "names", "near", "needs", "passed_since", "place",
        "priority", "queue", "request", "root", "shapes", "timed", "visits", "warned", "wide_on",
    )  # fmt: skip

    def __init__(
        self,
        cls: int,
        client: int,
        request: Request,
        priority: int,
        shapes: tuple[Shape, ...],
        *,
        isolate: bool,
        root: int = 0,
        near: int = 0,
    ) -> None:
        self.id: int = cls
        self.near: int = near
        """The worker that its jobs prefer, as most of their inputs are there; 0 for jobs without inputs."""
        if near:
            for shape in shapes:
                shape.with_inputs = True
        self.could_since: float | None = None
        """Since when its first job could start elsewhere, while it waits for `near`; None if it could not."""
        self.root: int = root
        """The tree of its jobs (`_job_tree`); 0 for jobs of the user's program."""
        self.client: int = client
        self.request: Request = request
        self.priority: int = priority
        self.isolate: bool = isolate
        self.shapes: tuple[Shape, ...] = shapes
        # The parent of a tree's job holds slots while it waits, so the job must not queue at a full
        # worker, where nothing may ever make room for it.
        self.may_be_ahead: bool = not root and shapes[0].may_be_ahead
        """True if its jobs may wait at a worker that is full."""
        self.queue: deque[HeadJob] | DeepestFirst = DeepestFirst() if root else deque()
        self.early: list[tuple[int, int, HeadJob]] = []
        """A heap, by age and number, of jobs that go before the last of `queue`; empty for a tree."""
        self.deferred: DeferredRecords[HeadJob] | None = None
        """Jobs behind those of `queue` whose records are made later; `queue` is not empty while there are some."""
        self.aged: bool = near != 0
        """True once it had a job of the user's program that is as old as one of its inputs, and for all with inputs at
        workers.
        """
        self.in_order: bool = True
        """False once a job has come back to the front that is younger than the first there."""
        self.warned: bool = False
        self.blocked_job: HeadJob | None = None
        self.blocked_since: float = 0.0
        self.passed_since: float | None = None
        """When `blocked_job` was passed over for the first time (`planning._patience`); None until then."""
        # What follows is for the index of those that wait (`_waiting`).
        self.is_simple: bool = not near
        """True if only a change of workers can let its jobs start."""
        self.timed: bool = False
        for shape in shapes:  # a loop, as there may be a class for each job
            if shape.rationed or shape.group is not None:
                self.is_simple = False
            self.timed = self.timed or shape.group is not None or shape.walltime_soft is not None
        self.names: tuple[str, ...]
        self.needs: tuple[int, ...]
        self.names, self.needs = _needs_of(shapes)
        """The least that a job takes of each of `names`, whichever shape it gets."""
        self.place: ClassIndex | None = None
        """The index in which it stands, with `entry` and `kind` as its key there; None while no jobs wait."""
        self.entry: Entry | None = None
        self.kind: Kind = (), 0, False
        self.claim: ClassIndex | None = None
        """Where it stands among those that may be reserved for."""
        self.wide_on: tuple[int, ...] = ()
        """Kinds of workers for which it may be wide, as long as it is blocked."""
        self.visits: int = 0
        """Number of searches of passes for a worker for it."""

    def head(self) -> HeadJob | None:
        """Return the job to run next, which is at the front of `queue` then, or None."""
        queue = self.queue
        while queue or self.early:
            if self.early:
                self.merge()
            job = queue[0]
            if not job.cancelled:
                return job
            queue.popleft()
            if not queue and self.deferred is not None:
                self.deferred.make_some()
        return None

    def merge(self) -> None:
        """Move the first of `early` to the front of the queue, if it goes before all that are there."""
        queue, early = self.queue, self.early
        if early and (not queue or early[0][:2] < (queue[0].age, queue[0].id)):
            queue.appendleft(heappop(early)[2])

    def add(self, jobs: list[HeadJob], ages: list[int]) -> None:
        """Queue new jobs. `ages` are those of their oldest inputs, 0 for a job without; empty if all are so."""
        if not ages:
            self.queue.extend(jobs)
            return
        for job, age in zip(jobs, ages, strict=True):
            if job.inherit(age) and not (self.aged or self.root):
                self._go_by_age()
            self.insert(job)

    def _go_by_age(self) -> None:
        self.aged = True
        if not self.in_order:
            self.queue = deque(sorted(self.queue, key=_by_age))

    def insert(self, job: HeadJob) -> None:
        """Queue a job at its place by age."""
        queue = self.queue
        if self.root or not (queue or self.early) or (queue and queue[-1].age <= job.age):
            queue.append(job)
        else:
            heappush(self.early, (job.age, job.id, job))

    def keep_own(self, request: Request, jobs: list[HeadJob]) -> None:
        """Record that jobs of this class asked for less, if they did."""
        if request is not self.request and request != self.request:
            self.shapes[0].varied = True
            for job in jobs:
                job.own = request

    @property
    def queued(self) -> int:
        """Number of its jobs that wait, with those that were cancelled meanwhile."""
        return len(self.queue) + len(self.early) + (0 if self.deferred is None else len(self.deferred))

    def live(self) -> list[HeadJob]:
        """Return all queued jobs, in order."""
        if self.deferred is not None:
            self.deferred.make_all()
        jobs: Iterable[HeadJob] = self.queue
        if self.early:
            jobs = merge(jobs, (job for _, _, job in sorted(self.early)), key=_by_age)
        return [job for job in jobs if not job.cancelled]

    def remove(self, job: HeadJob) -> None:
        """Remove a job from anywhere."""
        entry = job.age, job.id, job
        if entry in self.early:
            self.early.remove(entry)
            heapify(self.early)
        else:
            self.queue.remove(job)
            if not self.queue and self.deferred is not None:
                self.deferred.make_some()

    def clear(self) -> None:
        """Remove all jobs."""
        self.queue.clear()
        self.early.clear()

    def put_back(self, jobs: list[HeadJob]) -> None:
        """Return jobs to the front, oldest first; to their places where others may be older by their inputs."""
        for job in sorted(jobs, key=_by_age, reverse=True):
            job.state = JobState.QUEUED
            job.worker = 0
            job.shape = None
            if self.aged:
                heappush(self.early, (job.age, job.id, job))
            else:
                self.in_order = self.in_order and not (self.queue and self.queue[0].id < job.id)
                self.queue.appendleft(job)


def _needs_of(shapes: tuple[Shape, ...]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the names of what all shapes of a class ask for, sorted, and the least amount of each."""
    if len(shapes) == 1:
        units = sorted(shapes[0].units)
        return tuple(map(_first, units)), tuple(map(_second, units))
    names = sorted(name for name, _ in shapes[0].units if all(name in shape.request.units for shape in shapes))
    return tuple(names), tuple(min(shape.request.units[name] for shape in shapes) for name in names)


def enter(
    jobs: dict[int, HeadJob],
    event: JobsSubmitted,
    cls: RequestClass,
    functions: Mapping[int, HeadFunction],
    parent: HeadJob | None,
) -> list[HeadJob]:
    """Enter new jobs of a class into the table of all; return those that have records, which are to be queued."""
    numbers = event.jobs
    # Looked at before any call: most batches are of one job.
    if (len(numbers) > CHUNK or cls.deferred is not None) and isinstance(jobs, RecordTable) and _are_alike(event, cls):
        at = CHUNK if cls.deferred is None else 0
        jobs.defer(cls, range(numbers[at], numbers[-1] + 1), functions[event.fns[0]], partial(_made, cls))
        numbers = numbers[:at]
    elif cls.deferred is not None:
        cls.deferred.make_all()
    made: list[HeadJob] = []
    for number, fn in zip(numbers, event.fns[: len(numbers)], strict=True):
        job = jobs[number] = HeadJob(number, cls, functions[fn], parent)
        made.append(job)
    if cls.request is not event.request:
        cls.keep_own(event.request, made)
    if event.sizes:
        note_sizes(made, event.sizes)
    return made


def _are_alike(event: JobsSubmitted, cls: RequestClass) -> bool:
    """Return True for calls of one function, with numbers that follow one another, of which nothing else is told."""
    jobs, fns = event.jobs, event.fns
    return (
        not (cls.root or cls.aged or cls.early or event.ages or event.inputs or event.sizes)
        and cls.request is event.request
        and fns.count(fns[0]) == len(fns)
        and jobs == list(range(jobs[0], jobs[0] + len(jobs)))
    )


def _made(cls: RequestClass, numbers: Sequence[int], fn: HeadFunction) -> list[HeadJob]:
    return [HeadJob(number, cls, fn) for number in numbers]

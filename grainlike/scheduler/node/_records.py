"""Records of the node: functions, request classes, jobs, runners, leases.

The record of a job has what the node needs to run it, and is dropped when its end has been reported.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import attrgetter

import msgspec

from grainlike.resources import Grant, Request
from grainlike.scheduler._statistics import TINY_S, RunTimes
from grainlike.scheduler.node._events import RunnerGone, RunnerKind
from grainlike.wire import Assign, Code, FunctionSpec, Wait

__all__ = [
    "NodeClass",
    "NodeFunction",
    "NodeJob",
    "NodeLease",
    "NodeRunner",
    "by_age",
    "end_codes",
    "front",
    "jobs_of",
    "learn",
    "limits_of",
    "place",
    "run_list_of",
]

LISTED_LIMIT_S = 0.02
"""The least time limit of jobs that share leases: which of them runs, and since when, is known from a barrier, which
stands some 12 ms after the lease's start.
"""

RUN_LIST_S = 0.002
"""The most expected seconds of work in one run-list, whatever functions its jobs call."""

RUN_LIST_MOST = 256

RUN_LIST_BYTES = 262_144
"""The most bytes of arguments in one run-list, about what the socket of a process holds: those of a list that is taken
back are sent again, and the process must first read what it was sent before.
"""

APART_S = 6e-5
"""Seconds that a runner takes at the least for a job of a run-list if it puts the process in order before it."""


class NodeFunction:
    __slots__ = ("digest", "is_async", "keep", "timeout", "times")

    def __init__(self, spec: FunctionSpec) -> None:
        self.digest = spec.digest
        """Digest of its bytes: of functions that differ in their options alone, the same."""
        self.is_async = spec.is_async
        self.timeout = spec.timeout
        self.keep = spec.keep
        self.times = RunTimes()


class NodeClass:
    """Record of a request class. `ahead` is the queue of its jobs that were sent ahead of free slots."""

    __slots__ = ("aged", "ahead", "alone", "devices", "fits", "id", "isolate", "limited", "request", "varied")

    def __init__(self, cls: int, request: Request, *, isolate: bool, fits: bool) -> None:
        self.id = cls
        self.request = request
        self.fits = fits
        """True if this node could grant it when idle."""
        self.isolate = isolate
        self.devices = "gpus" in request
        self.alone = self.devices or bool(request.limits or request.rates)
        """True if its jobs never share a lease."""
        self.ahead: deque[NodeJob] = deque()
        self.aged = False
        """True once the head has told ages of jobs of it, by which they go."""
        self.limited = False
        """True if a job of it has had a time limit."""
        self.varied = False
        """True if a job of it has asked for less memory than it says."""


class NodeJob(msgspec.Struct, eq=False):
    id: int
    attempt: int
    cls: NodeClass
    fn_id: int
    fn: NodeFunction
    limit_s: float | None
    """Seconds that it may run at most, by its function's timeout and its request's walltime."""
    age: int
    """Number of the oldest job that it needs, or its own."""
    memory: int = 0
    """Bytes that it asked for, if its class says more; else 0."""
    nbytes: int = 0
    """Bytes of its arguments, where they were told; else they are few."""
    lease: NodeLease | None = None
    position: int = 0
    """Its index in the run-list of its lease."""
    gone: bool = False
    """True once its end was reported; where it still stands in a queue, it is skipped."""
    stopped: Code | None = None
    """CANCELLED, TIMED_OUT or STOPPED, once it was asked to end."""

    @property
    def alone(self) -> bool:
        """Return True if it never shares a lease. An isolated job that is tried again may be what ends processes."""
        isolate, limit_s = self.cls.isolate, self.limit_s
        if not isolate and limit_s is None:
            return self.cls.alone
        suspect, short = isolate and self.attempt > 1, limit_s is not None and limit_s < LISTED_LIMIT_S
        return self.cls.alone or self.fn.is_async or suspect or short


class NodeRunner:
    __slots__ = ("answers", "devices", "id", "kind", "leases", "ready", "retired", "terminating")

    def __init__(self, runner: int, kind: RunnerKind) -> None:
        self.id = runner
        self.kind = kind
        self.leases: dict[int, NodeLease] = {}
        self.devices: Mapping[int, int] = {}
        """Share of each device that its last lease with devices had, in nano-units: it may hold their memory."""
        self.terminating = False
        """True once it was asked to die: it gets no more leases, and its slots are not free until it is gone."""
        self.retired = False
        """True if a coroutine in it ignores that it was stopped: it gets no more leases."""
        self.answers = True
        """True if it has acknowledged the last stop, so its event loop is not blocked."""
        self.ready = False
        """True if its process is known to be up, and begins at once what it is given."""


class NodeLease(msgspec.Struct, eq=False):
    id: int
    cls: NodeClass
    grant: Grant
    runner: NodeRunner
    timed: bool
    """True once it is known which job runs, and since when: the only one, or the one that ran when a barrier stood."""
    jobs: dict[int, NodeJob] = msgspec.field(default_factory=dict)
    """Jobs that have not ended yet, in the order of the run-list."""
    clocked: NodeJob | None = None
    """The job whose time limit counts, the first that has not ended; None if no job of the lease has one."""
    due: float = 0.0
    """Time at which it is ended for that: later for a process that was not up yet, and never without a limit."""
    barred: bool = False
    running: int = 0
    """Position of the job that ran when a barrier stood: those before it have ended, even where no end was reported."""
    keeps: bool = False
    """True if its cores are not lent while its job waits, whatever its function says."""
    waits: Wait = Wait.NOTHING
    """State of its job's wait for its own jobs; see `_lending`."""
    heard: int = 0
    """Number of outcomes of its own jobs that it had received when it last reported a wait."""

    def unended(self) -> list[NodeJob]:
        """Return its jobs without those of which a barrier has shown that they have ended."""
        return [job for job in self.jobs.values() if job.position >= self.running]


def front(queue: deque[NodeJob]) -> NodeJob | None:
    """Return the first job of a queue whose end was not reported; drop those before it."""
    while queue and queue[0].gone:
        queue.popleft()
    return queue[0] if queue else None


by_age: Callable[[NodeJob], tuple[int, int]] = attrgetter("age", "id")
"""Sort key: the age, among jobs that are as old as one input the number. Each that is placed is compared with many."""


def place(queue: deque[NodeJob], jobs: Sequence[NodeJob]) -> None:
    """Insert jobs at their places in a queue that goes by age."""
    for job in jobs:
        insort(queue, job, key=by_age)


def jobs_of(
    event: Assign, sizes: Sequence[int], cls: NodeClass, functions: Mapping[int, NodeFunction]
) -> dict[int, NodeJob]:
    """Return the jobs that a message assigns, by number and in its order. `sizes`: as in `AssignSized`."""
    jobs: dict[int, NodeJob] = {}
    fn, function, limit_s = 0, None, None
    for number, attempt, its in zip(event.jobs, event.attempts, event.fns, strict=True):
        if function is None or its != fn:
            fn, function = its, functions[its]
            limit_s = function.timeout if event.hard_s is None else shorter(function.timeout, event.hard_s)
            cls.limited = cls.limited or limit_s is not None
        jobs[number] = NodeJob(number, attempt, cls, fn, function, limit_s, number)
    if event.ages:
        for job, age in zip(jobs.values(), event.ages, strict=True):
            job.age = age
    if event.memory:
        for job, memory in zip(jobs.values(), event.memory, strict=True):
            job.memory = memory
    if sizes:
        for job, nbytes in zip(jobs.values(), sizes, strict=True):
            job.nbytes = nbytes
    return jobs


def run_list_of(first: NodeJob) -> list[NodeJob]:
    """Take from the queue of its class the jobs behind `first` that may share its lease; return them behind it."""
    run_list = [first]
    queue, fn, times = first.cls.ahead, first.fn, first.fn.times
    if not queue or first.alone or times.awaits or not times.known or times.upper > TINY_S:
        return run_list
    least_s, again = (APART_S, 2) if first.cls.isolate else (1e-6, inf)
    turn_s, expected = least_s if fn.is_async else APART_S, {fn: max(times.mean, least_s)}
    room_s, room = RUN_LIST_S - expected[fn], RUN_LIST_BYTES - first.nbytes
    while queue and len(run_list) < RUN_LIST_MOST:
        job = queue[0]
        if not job.gone:
            if job.fn not in expected:
                times, same = job.fn.times, job.fn.is_async is fn.is_async  # the same kind of process
                tiny = same and times.known and not times.awaits and times.upper <= TINY_S
                expected[job.fn] = max(times.mean, least_s) if tiny else inf
            each_s = expected[job.fn]
            if job.fn is not fn:
                each_s = each_s if job.fn.digest == fn.digest else max(each_s, turn_s)
                fn = job.fn
            alone = job.attempt >= again or (job.limit_s != first.limit_s and job.alone)  # else it is as `first` is
            if each_s > room_s or job.nbytes > room or alone:
                break
            run_list.append(job)
            room_s -= each_s
            room -= job.nbytes
        queue.popleft()
    return run_list


def learn(jobs: list[NodeJob], walls: list[float], *, awaited: bool) -> None:
    """Record the run times of jobs that gave values, each with its function; `awaited` as in `Completed`."""
    functions: dict[NodeFunction, None] = dict.fromkeys(map(attrgetter("fn"), jobs))
    for fn in functions:
        one = len(functions) == 1
        fn.times.add(walls if one else [wall for job, wall in zip(jobs, walls, strict=True) if job.fn is fn])
        fn.times.awaits |= awaited


def limits_of(run_list: list[NodeJob]) -> tuple[float | None, tuple[float | None, ...]]:
    """Return the shortest time limit of the jobs of a run-list, if they have some, and those of each if they differ."""
    limits = tuple([job.limit_s for job in run_list])
    if limits.count(limits[0]) == len(limits):
        return limits[0], ()
    return min(limit_s for limit_s in limits if limit_s is not None), limits


def shorter(one_s: float | None, other_s: float | None) -> float | None:
    """Return the shorter of two limits, of which either may be None."""
    if one_s is None or other_s is None:
        return one_s if other_s is None else other_s
    return min(one_s, other_s)


def end_codes(event: RunnerGone, leases: Sequence[NodeLease]) -> dict[int, Code]:
    """Return how each job of a runner that is gone has ended: `RETURNED` where it had not begun. If none had, the first
    one may have ended the process: one that cannot even start must not be tried for ever.
    """
    found: dict[int, Code] = {}
    own, called = bool(leases) and leases[0].runner.kind == "own", event.called
    rows = [(job, lease.id) for lease in leases for job in lease.jobs.values() if not job.gone]
    begun = {job.id for job, lease in rows if called is None or job.position <= called.get(lease, -1)}
    first = event.stepping or (rows[0][0].id if rows and not begun else 0)
    suspect = max(event.started, rows[0][0].position) if rows else 0
    for job, _ in rows:
        if job.stopped is not None:
            found[job.id] = job.stopped if job.id in begun or job.stopped is not Code.STOPPED else Code.RETURNED
        elif own and job.position > suspect:
            found[job.id] = Code.RETURNED
        elif event.never_spawned:
            found[job.id] = Code.UNSTARTED
        elif job.id in begun:
            found[job.id] = Code.CRASHED if own or event.stepping in (0, job.id) else Code.STOPPED
        else:
            found[job.id] = Code.UNBEGUN if own or job.id == first else Code.RETURNED
    return found

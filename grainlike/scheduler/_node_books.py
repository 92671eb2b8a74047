"""The node's records: functions, request classes, jobs, runners, leases.

The node knows of a job what it needs to run it, and forgets it when its end has been told.
"""

from __future__ import annotations

from collections import deque

import msgspec

from grainlike.resources import Grant, Request
from grainlike.scheduler._events import RunnerKind
from grainlike.scheduler._statistics import RunTimes
from grainlike.wire import Code, Wait

__all__ = ["Function", "Job", "Lease", "NodeClass", "Runner", "by_age", "front"]


class Function:
    __slots__ = ("is_async", "keep", "timeout", "times")

    def __init__(self, *, is_async: bool, timeout: float | None, keep: bool = False) -> None:
        self.is_async = is_async
        self.timeout = timeout
        self.keep = keep
        self.times = RunTimes()


class NodeClass:
    """A request class as the node sees it. Its `ahead` queue holds the jobs that wait here without a plan."""

    __slots__ = ("ahead", "alone", "cls", "devices", "fits", "isolate", "request")

    def __init__(self, cls: int, request: Request, *, isolate: bool, fits: bool) -> None:
        self.cls = cls
        self.request = request
        self.fits = fits
        """Whether this node could grant it when idle."""
        self.isolate = isolate
        self.devices = "gpus" in request
        self.alone = self.devices or bool(request.limits or request.rates)
        """Its jobs never share a lease."""
        self.ahead: deque[Job] = deque()


class Job(msgspec.Struct, eq=False):
    job: int
    attempt: int
    cls: NodeClass
    fn_id: int
    fn: Function
    limit_s: float | None
    """How long it may run at most, by its function's timeout and its request's walltime."""
    lease: Lease | None = None
    position: int = 0
    """Where in the run-list of its lease it stands."""
    gone: bool = False
    """Told of, and to be stepped over where it still stands in a queue."""
    stopped: Code | None = None
    """CANCELLED, TIMED_OUT or STOPPED, once somebody asked for its end."""


class Runner:
    __slots__ = ("answers", "doomed", "kind", "leases", "ready", "retired", "runner")

    def __init__(self, runner: int, kind: RunnerKind) -> None:
        self.runner = runner
        self.kind = kind
        self.leases: dict[int, Lease] = {}
        self.doomed = False
        """It was told to die: it gets no more leases, and its slots wait until it is gone."""
        self.retired = False
        """A coroutine in it ignores that it was stopped: it gets no more leases."""
        self.answers = True
        """Whether it has shown that its loop turns since it was last told to stop something."""
        self.ready = False
        """Whether its process is up, as far as is known: what it is given, it begins."""


class Lease:
    __slots__ = (
        "barred", "cls", "due", "fn", "grant", "heard", "jobs", "keeps", "lease", "limit_s", "runner", "waits",
    )  # fmt: skip

    def __init__(self, lease: int, cls: NodeClass, grant: Grant, runner: Runner, jobs: list[Job]) -> None:
        self.lease = lease
        self.cls = cls
        self.grant = grant
        self.runner = runner
        self.fn = jobs[0].fn
        self.limit_s = jobs[0].limit_s
        """How long its job may run; one that has a limit is alone."""
        self.due = 0.0
        """When it is ended for that. It may be put off, for a process that was not up yet."""
        self.jobs = {job.job: job for job in jobs}
        """What has not ended yet, in the order of the run-list; all of one function."""
        self.barred = False
        self.keeps = False
        """Its cores are not lent while its job waits, whatever its function says."""
        self.waits = Wait.NOTHING
        """What its job waits for; see `_node_lending`."""
        self.heard = 0
        """How many outcomes of its own jobs it had got when it last said that it waits."""


def front(queue: deque[Job]) -> Job | None:
    """The first job of a queue that still counts."""
    while queue and queue[0].gone:
        queue.popleft()
    return queue[0] if queue else None


def by_age(job: Job) -> int:
    return job.job

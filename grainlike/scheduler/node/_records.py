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

__all__ = ["NodeClass", "NodeFunction", "NodeJob", "NodeLease", "NodeRunner", "by_age", "front"]


class NodeFunction:
    __slots__ = ("is_async", "keep", "timeout", "times")

    def __init__(self, *, is_async: bool, timeout: float | None, keep: bool = False) -> None:
        self.is_async = is_async
        self.timeout = timeout
        self.keep = keep
        self.times = RunTimes()


class NodeClass:
    """A request class as the node sees it. Its `ahead` queue holds the jobs that wait here without a plan."""

    __slots__ = ("ahead", "alone", "devices", "fits", "id", "isolate", "request")

    def __init__(self, cls: int, request: Request, *, isolate: bool, fits: bool) -> None:
        self.id = cls
        self.request = request
        self.fits = fits
        """Whether this node could grant it when idle."""
        self.isolate = isolate
        self.devices = "gpus" in request
        self.alone = self.devices or bool(request.limits or request.rates)
        """Its jobs never share a lease."""
        self.ahead: deque[NodeJob] = deque()


class NodeJob(msgspec.Struct, eq=False):
    id: int
    attempt: int
    cls: NodeClass
    fn_id: int
    fn: NodeFunction
    limit_s: float | None
    """How long it may run at most, by its function's timeout and its request's walltime."""
    lease: NodeLease | None = None
    position: int = 0
    """Where in the run-list of its lease it stands."""
    gone: bool = False
    """Told of, and to be stepped over where it still stands in a queue."""
    stopped: Code | None = None
    """CANCELLED, TIMED_OUT or STOPPED, once somebody asked for its end."""


class NodeRunner:
    __slots__ = ("answers", "id", "kind", "leases", "ready", "retired", "terminating")

    def __init__(self, runner: int, kind: RunnerKind) -> None:
        self.id = runner
        self.kind = kind
        self.leases: dict[int, NodeLease] = {}
        self.terminating = False
        """It was told to die: it gets no more leases, and its slots wait until it is gone."""
        self.retired = False
        """A coroutine in it ignores that it was stopped: it gets no more leases."""
        self.answers = True
        """Whether it has shown that its loop turns since it was last told to stop something."""
        self.ready = False
        """Whether its process is up, as far as is known: what it is given, it begins."""


class NodeLease:
    __slots__ = (
        "barred",
        "cls",
        "due",
        "fn",
        "grant",
        "heard",
        "id",
        "jobs",
        "keeps",
        "limit_s",
        "runner",
        "waits",
    )  # fmt: skip

    def __init__(self, lease: int, cls: NodeClass, grant: Grant, runner: NodeRunner, jobs: list[NodeJob]) -> None:
        self.id = lease
        self.cls = cls
        self.grant = grant
        self.runner = runner
        self.fn = jobs[0].fn
        self.limit_s = jobs[0].limit_s
        """How long its job may run; one that has a limit is alone."""
        self.due = 0.0
        """When it is ended for that. It may be put off, for a process that was not up yet."""
        self.jobs = {job.id: job for job in jobs}
        """What has not ended yet, in the order of the run-list; all of one function."""
        self.barred = False
        self.keeps = False
        """Its cores are not lent while its job waits, whatever its function says."""
        self.waits = Wait.NOTHING
        """What its job waits for; see `_node_lending`."""
        self.heard = 0
        """How many outcomes of its own jobs it had got when it last said that it waits."""


def front(queue: deque[NodeJob]) -> NodeJob | None:
    """The first job of a queue that still counts."""
    while queue and queue[0].gone:
        queue.popleft()
    return queue[0] if queue else None


def by_age(job: NodeJob) -> int:
    return job.id

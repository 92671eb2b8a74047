"""Jobs that jobs submit: who waits for whom, and what ends with whom.

A job that another one submitted is a job like any other, with three differences. It ends with its parent's attempt:
nobody is left who could want it. It queues with its *tree*, all that descends from one job of the user's program: cores
that one of the tree lends are open to all of it, so in one queue everybody may start where anybody may. And it goes in
the order of the tree's oldest job, for that one holds slots until it has been done.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler._queues import RequestClass
from grainlike.scheduler._records import HeadJob, LeaseState, WorkerState
from grainlike.scheduler._states import JobState
from grainlike.wire import LeaseWait, Wait

__all__ = ["SEND_STALL_S", "ChildJobs", "JobTree", "lent_by", "stands_still"]

SEND_STALL_S = 10.0
"""After so long a job that was cancelled is not believed to be about to end: twice the time that its worker gives."""


class ChildJobs:
    """The children of one attempt of a job, and whether it waits for them."""

    __slots__ = ("children", "heard", "lease", "told", "waits")

    def __init__(self) -> None:
        self.children: dict[int, HeadJob] = {}
        """Those that have not ended and that it still wants."""
        self.told = 0
        """How many outcomes it was sent."""
        self.heard = 0
        """How many of them it had got when it last said that it waits."""
        self.waits = Wait.NOTHING
        self.lease: LeaseState | None = None
        """Where it waits."""


class JobTree:
    """The parents of one head.

    Attributes:
        waiting: the jobs that said that they wait, by number.
        trees: the request classes of each tree, by the number of its oldest job.
        orphans: the jobs whose parents' attempts have ended; whoever ends them empties it.
    """

    __slots__ = ("orphans", "trees", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, HeadJob] = {}
        self.trees: dict[int, list[RequestClass]] = {}
        self.orphans: list[int] = []

    def adopt(self, parent: HeadJob, child: HeadJob) -> None:
        """A job has submitted another."""
        _family(parent).children[child.id] = child

    def refused(self, parent: HeadJob, count: int) -> None:
        """A job has submitted so many others that never were any, of which it is told."""
        _family(parent).told += count

    def ended(self, job: HeadJob) -> None:
        """A job has come to an outcome, of which its parent is told."""
        family = None if job.parent is None else job.parent.family
        if family is not None and family.children.pop(job.id, None) is not None:
            family.told += 1

    def unwanted(self, job: HeadJob) -> None:
        """Nobody waits for a job any more."""
        family = None if job.parent is None else job.parent.family
        if family is not None:
            family.children.pop(job.id, None)

    def attempt_ended(self, job: HeadJob) -> None:
        """An attempt is over: what it still wanted goes with it, see `orphans`."""
        if job.family is not None:
            self.orphans += job.family.children
            job.family = None
            self.waiting.pop(job.id, None)

    def note(self, worker: WorkerState, job: HeadJob | None, wait: LeaseWait) -> None:
        """A worker says that the job of a lease waits, or goes on; `job` is None if it is of no interest any more."""
        lease = worker.leases.get(wait.lease)
        if lease is None:
            return
        if wait.lent != bool(lease.lent) and "cores" in lease.shape.request.units:
            worker.lend(lease) if wait.lent else worker.reclaim(lease)
        if job is None:
            return
        family = _family(job)
        family.waits, family.heard, family.lease = Wait(wait.waits), wait.heard, lease
        if family.waits is Wait.NOTHING:
            self.waiting.pop(job.id, None)
        else:
            self.waiting[job.id] = job

    def all_wait(self, workers: Iterable[WorkerState]) -> bool:
        """Whether nothing runs, nor is about to: all that is at workers waits, or was sent ahead."""
        return sum(len(worker.held) - len(worker.ahead) for worker in workers) <= len(self.waiting)

    def next_stalled(self, now: float) -> float | None:
        """When the next of those that wait and were cancelled is not believed any more to be about to end."""
        times = (job.cancelled_at + SEND_STALL_S for job in self.waiting.values() if job.cancelled)
        return min((time for time in times if time > now), default=None)

    def queued(self) -> list[RequestClass]:
        """The classes of trees in which jobs wait."""
        return [cls for classes in self.trees.values() for cls in classes if cls.head() is not None]


def lent_by(job: HeadJob) -> int:
    """How much of its cores a job has lent."""
    return job.family.lease.lent if job.family is not None and job.family.lease is not None else 0


def _family(job: HeadJob) -> ChildJobs:
    if job.family is None:
        job.family = ChildJobs()
    return job.family


def stands_still(job: HeadJob, now: float) -> bool:
    """Whether a job at a worker waits for jobs of its own, and no outcome is on the way to it.

    One that was cancelled is about to end. If it still wants jobs of its own after `SEND_STALL_S`, it shields its wait.
    """
    family = job.family
    if family is None or job.state is not JobState.LEASED or (job.cancelled and now < job.cancelled_at + SEND_STALL_S):
        return False
    if family.waits is Wait.CHILDREN:
        return bool(family.children) and family.told == family.heard
    return family.waits is Wait.CORES

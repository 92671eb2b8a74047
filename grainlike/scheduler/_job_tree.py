"""Job tree: which job submitted which, who waits for whom, and which jobs end together.

A job that another one submitted differs from others in three ways. It ends with its parent's attempt, as nothing else
waits for it. It queues with its *tree*, all that descends from one job of the user's program: cores that one job of the
tree lends are open to the whole tree, so all jobs of one queue may start on the same workers. And it has the age of the
tree's oldest job, as that one holds slots until the tree is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler._records import ChildJobs, HeadJob, RequestClass
from grainlike.scheduler._states import JobState
from grainlike.scheduler._workers import WorkerState
from grainlike.wire import LeaseWait, Wait

__all__ = ["SEND_STALL_S", "JobTree", "deepest_first", "lent_by", "stands_still"]

SEND_STALL_S = 10.0
"""Seconds after which a cancelled job is no longer expected to end: twice the time that its worker gives it."""


class JobTree:
    """The parents and children of one head.

    Attributes:
        waiting: jobs that have reported that they wait, by number.
        trees: request classes of each tree, by the number of its oldest job.
        orphans: jobs whose parents' attempts have ended; the caller that cancels them empties it.
    """

    __slots__ = ("orphans", "trees", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[int, HeadJob] = {}
        self.trees: dict[int, list[RequestClass]] = {}
        self.orphans: list[int] = []

    def adopt(self, parent: HeadJob, children: Iterable[HeadJob]) -> None:
        """Record that a job has submitted others."""
        _family(parent).children.update((child.id, child) for child in children)

    def refused(self, parent: HeadJob, count: int) -> None:
        """Count `count` jobs that were refused at submission, of which the parent is sent the outcomes."""
        _family(parent).told += count

    def ended(self, job: HeadJob) -> None:
        """Record that a job has its outcome, which its parent is sent."""
        family = None if job.parent is None else job.parent.family
        if family is not None and family.children.pop(job.id, None) is not None:
            family.told += 1

    def unwanted(self, job: HeadJob) -> None:
        """Record that a job was cancelled."""
        family = None if job.parent is None else job.parent.family
        if family is not None:
            family.children.pop(job.id, None)

    def attempt_ended(self, job: HeadJob) -> None:
        """Record the end of an attempt; its remaining children become `orphans`."""
        if job.family is not None:
            self.orphans += job.family.children
            job.family = None
            self.waiting.pop(job.id, None)

    def note(self, worker: WorkerState, job: HeadJob | None, wait: LeaseWait) -> None:
        """Record that the job of a lease waits, or continues; `job` is None if the attempt is no longer current."""
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
        """Return True if nothing runs or is about to: all jobs at workers wait, or were sent ahead."""
        return sum(len(worker.held) - len(worker.ahead) for worker in workers) <= len(self.waiting)

    def next_stalled(self, now: float) -> float | None:
        """Return when the next cancelled job that waits is no longer expected to end."""
        times = (job.cancelled_at + SEND_STALL_S for job in self.waiting.values() if job.cancelled)
        return min((time for time in times if time > now), default=None)

    def queued(self) -> list[RequestClass]:
        """Return the classes of trees in which jobs wait."""
        return [cls for classes in self.trees.values() for cls in classes if cls.head() is not None]


def lent_by(job: HeadJob) -> int:
    """Return the amount of cores that a job has lent."""
    return job.family.lease.lent if job.family is not None and job.family.lease is not None else 0


def _family(job: HeadJob) -> ChildJobs:
    if job.family is None:
        job.family = ChildJobs()
    return job.family


def stands_still(job: HeadJob, now: float) -> bool:
    """Return True if a job at a worker waits for its own jobs, and no outcome is on the way to it.

    A cancelled job is about to end. If it still waits for its jobs after `SEND_STALL_S`, it shields its wait from the
    cancellation.
    """
    family = job.family
    if family is None or job.state is not JobState.LEASED or (job.cancelled and now < job.cancelled_at + SEND_STALL_S):
        return False
    if family.waits is Wait.CHILDREN:
        return bool(family.children) and family.told == family.heard
    return family.waits is Wait.CORES


def deepest_first(job: HeadJob) -> tuple[int, int]:
    """Return the sort key: the deepest first, at the same depth by age, whatever the order of arrival."""
    return -job.depth, job.id

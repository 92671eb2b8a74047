"""The head's records: jobs, request classes, workers. Amounts only; concrete ids are the workers' business.

Amounts are integers of one billionth (see `grainlike.resources`), so that books that were balanced stay balanced.
"""

from __future__ import annotations

from collections import deque

from grainlike.resources import Allocation, Request
from grainlike.scheduler._states import JobState
from grainlike.scheduler._statistics import RunTimes

__all__ = ["Function", "Job", "LeaseBook", "RequestClass", "WorkerBook"]


class Function:
    """What the head knows of a function: how long its jobs take, and how often a failed one is tried again."""

    __slots__ = ("fn", "retries", "times")

    def __init__(self, fn: int, retries: int) -> None:
        self.fn = fn
        self.retries = retries
        self.times = RunTimes()


class Job:
    """One live job. `worker` and `lease` are 0 while it has none."""

    __slots__ = (
        "attempt",
        "cancelled",
        "cls",
        "expected",
        "fn",
        "job",
        "lease",
        "losses",
        "planned_at",
        "retries",
        "state",
        "worker",
    )

    def __init__(self, job: int, cls: RequestClass, fn: Function) -> None:
        self.job = job
        self.cls = cls
        self.fn = fn
        self.attempt = 1
        self.state = JobState.QUEUED
        self.worker = 0
        self.lease = 0
        self.losses = 0
        self.retries = fn.retries
        self.cancelled = False
        self.planned_at = 0.0
        self.expected = 0.0
        """Seconds that it was expected to take when it was sent ahead."""


class RequestClass:
    """All jobs that ask for the same, with the same priority and isolation: one queue, first in, first out.

    Jobs leave the queue's front only; a cancelled one stays as a hole that `head` steps over.
    """

    __slots__ = ("blocked_job", "blocked_since", "cls", "isolate", "priority", "queue", "request", "units", "warned")

    def __init__(self, cls: int, request: Request, priority: int, isolate: bool) -> None:
        self.cls = cls
        self.request = request
        self.priority = priority
        self.isolate = isolate
        self.units = tuple(request.units.items())
        self.queue: deque[Job] = deque()
        self.warned = False
        self.blocked_job: Job | None = None
        self.blocked_since = 0.0

    def head(self) -> Job | None:
        """The job to run next, or None."""
        queue = self.queue
        while queue:
            job = queue[0]
            if not job.cancelled:
                return job
            queue.popleft()
        return None

    def live(self) -> list[Job]:
        """All queued jobs, in order."""
        return [job for job in self.queue if not job.cancelled]

    def put_back(self, jobs: list[Job]) -> None:
        """Return jobs to the front, oldest first."""
        for job in sorted(jobs, key=_by_age, reverse=True):
            job.state = JobState.QUEUED
            job.worker = job.lease = 0
            self.queue.appendleft(job)

    def passed_over(self, job: Job, now: float) -> float:
        """For how many seconds `job` has stood blocked at the front."""
        if self.blocked_job is not job:
            self.blocked_job, self.blocked_since = job, now
        return now - self.blocked_since


def _by_age(job: Job) -> int:
    return job.job


class LeaseBook:
    """One lease on a worker, as the head sees it."""

    __slots__ = ("begun", "cls", "fn", "lease")

    def __init__(self, lease: int, cls: RequestClass, fn: Function | None, begun: float) -> None:
        self.lease = lease
        self.cls = cls
        self.fn = fn
        self.begun = begun


class WorkerBook:
    """One worker: what it offers, what is free by the head's books, what it holds."""

    __slots__ = (
        "_fits",
        "_wide",
        "ahead",
        "ahead_of",
        "ahead_s",
        "capacity",
        "free",
        "held",
        "leases",
        "leaving",
        "name",
        "offer",
        "recalled",
        "using",
        "worker",
    )

    def __init__(self, worker: int, name: str, offer: Allocation) -> None:
        self.worker = worker
        self.name = name
        self.offer = offer
        self.capacity = dict(offer.units)
        self.free = dict(self.capacity)
        self.held: dict[int, Job] = {}
        """Every job that is at this worker, by number, in the order of arrival."""
        self.ahead: dict[int, Job] = {}
        """Those of `held` that were sent ahead and have not started."""
        self.leases: dict[int, LeaseBook] = {}
        self.ahead_s = 0.0
        """How many seconds of work `ahead` is expected to be."""
        self.ahead_of: dict[int, int] = {}
        """How many of `ahead` each class has."""
        self.recalled: set[int] = set()
        """Those of `ahead` that the worker was asked to give back."""
        self.using: dict[int, int] = {}
        """How many planned jobs and leases of each class count against `free`."""
        self.leaving = False
        """It said that it stops: nothing fits any more."""
        self._fits: dict[int, bool] = {}
        self._wide: dict[int, bool] = {}

    def fits_ever(self, cls: RequestClass) -> bool:
        """Whether this worker, empty, could run a job of the class."""
        if self.leaving:
            return False
        fits = self._fits.get(cls.cls)
        if fits is None:
            capacity = self.capacity
            fits = self._fits[cls.cls] = all(capacity.get(name, 0) >= amount for name, amount in cls.units)
        return fits

    def fits_now(self, cls: RequestClass) -> bool:
        """Whether a job of the class fits into what is free."""
        if self.leaving:
            return False
        free = self.free
        for name, amount in cls.units:
            if free.get(name, 0) < amount:
                return False
        return True

    def fits_after(self, cls: RequestClass, ended: RequestClass) -> bool:
        """Whether a job of the class would fit here once a job of another one has ended."""
        free, back = self.free, ended.request.units
        return all(free.get(name, 0) + back.get(name, 0) >= amount for name, amount in cls.units)

    def take(self, cls: RequestClass) -> None:
        """Count one job of the class as using its amounts."""
        free = self.free
        for name, amount in cls.units:
            free[name] -= amount
        self.using[cls.cls] = self.using.get(cls.cls, 0) + 1

    def give(self, cls: RequestClass) -> None:
        """Count the amounts of one job of the class as free again."""
        free = self.free
        for name, amount in cls.units:
            free[name] += amount
        self.using[cls.cls] -= 1

    def put_ahead(self, job: Job) -> None:
        """Count a job as waiting at this worker."""
        job.state, job.worker = JobState.AHEAD, self.worker
        job.expected = job.fn.times.mean
        self.ahead_s += job.expected
        self.held[job.job] = self.ahead[job.job] = job
        self.ahead_of[job.cls.cls] = self.ahead_of.get(job.cls.cls, 0) + 1

    def leave_ahead(self, job: Job) -> None:
        """Count it as waiting here no more."""
        del self.ahead[job.job]
        self.ahead_of[job.cls.cls] -= 1
        self.recalled.discard(job.job)
        self.ahead_s = self.ahead_s - job.expected if self.ahead else 0.0

    def room_left(self, cls: RequestClass) -> int:
        """What would be left of the scarcest resource of the class: small is a tight fit."""
        free = self.free
        return min((free.get(name, 0) - amount for name, amount in cls.units), default=0)

    def is_wide(self, cls: RequestClass) -> bool:
        """Whether the class asks for more than half of some resource of this worker."""
        wide = self._wide.get(cls.cls)
        if wide is None:
            capacity = self.capacity
            wide = self._wide[cls.cls] = any(2 * amount > capacity.get(name, 0) for name, amount in cls.units)
        return wide

"""Where jobs wait at the head: request classes, each of them one queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from grainlike.resources import Request
from grainlike.scheduler._books import Job, Shape
from grainlike.scheduler._states import JobState

__all__ = ["DeepestFirst", "RequestClass"]


class DeepestFirst:
    """The queue of a tree's jobs, used as a deque: the deepest in front, among those the first.

    So a recursion goes down before it goes wide, and as many jobs wait as it is deep. The other way round, all of a
    level would be begun before the first of them can end.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Job]] = []

    def append(self, job: Job) -> None:
        """Put a job to its place."""
        heappush(self._heap, (-job.depth, job.job, job))

    appendleft = append

    def extend(self, jobs: Iterable[Job]) -> None:
        """Put jobs to their places."""
        for job in jobs:
            self.append(job)

    def popleft(self) -> Job:
        """Take the front."""
        return heappop(self._heap)[2]

    def remove(self, job: Job) -> None:
        """Take a job from anywhere."""
        self._heap.remove((-job.depth, job.job, job))
        heapify(self._heap)

    def clear(self) -> None:
        """Drop all."""
        self._heap.clear()

    def __getitem__(self, at: int) -> Job:
        return self._heap[at][2]

    def __iter__(self) -> Iterator[Job]:
        return (job for _, _, job in sorted(self._heap))

    def __len__(self) -> int:
        return len(self._heap)


class RequestClass:
    """All jobs of one client that ask for the same, with the same priority: one queue, first in, first out; those of
    a tree the deepest first.

    Jobs leave the queue's front only; a cancelled one stays as a hole that `head` steps over.
    """

    __slots__ = (
        "blocked_job",
        "blocked_since",
        "client",
        "cls",
        "fits_as_of",
        "isolate",
        "may_be_ahead",
        "priority",
        "queue",
        "request",
        "root",
        "shapes",
        "warned",
    )

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
    ) -> None:
        self.cls = cls
        self.root = root
        """The tree of its jobs (`_families`); 0 for jobs of the user's program."""
        self.client = client
        self.request = request
        self.priority = priority
        self.isolate = isolate
        self.shapes = shapes
        # Who waits for a job holds slots: it must not stand at a worker for room that nobody there will make.
        self.may_be_ahead = not root and shapes[0].may_be_ahead
        """Whether its jobs may wait at a worker that is full."""
        self.queue: deque[Job] | DeepestFirst = DeepestFirst() if root else deque()
        self.warned = False
        self.fits_as_of = -1
        """The state of membership (`Planner.members`) in which some worker was seen to be able to run its jobs."""
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
            job.worker = 0
            job.shape = None
            self.queue.appendleft(job)

    def passed_over(self, job: Job, now: float) -> float:
        """For how many seconds `job` has stood blocked at the front."""
        if self.blocked_job is not job:
            self.blocked_job, self.blocked_since = job, now
        return now - self.blocked_since


def _by_age(job: Job) -> int:
    return job.job

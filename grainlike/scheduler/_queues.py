"""Queues of the head: request classes, each of them one queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from grainlike.resources import Request
from grainlike.scheduler._records import HeadJob, Shape
from grainlike.scheduler._states import JobState

if TYPE_CHECKING:
    from grainlike.scheduler.planning._waiting import ClassIndex, Entry, Kind

__all__ = ["DeepestFirst", "RequestClass"]


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
        heappush(self._heap, (-job.depth, job.id, job))

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
        self._heap.remove((-job.depth, job.id, job))
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
    """Jobs of one client with the same request and priority: one queue, first in, first out; for a tree the deepest
    first.

    Jobs leave the queue at its front only; a cancelled one stays in it, and `head` skips it.
    """

    __slots__ = (
        "blocked_job",
        "blocked_since",
        "claim",
        "client",
        "entry",
        "id",
        "is_simple",
        "isolate",
        "kind",
        "may_be_ahead",
        "names",
        "needs",
        "passed_since",
        "place",
        "priority",
        "queue",
        "request",
        "root",
        "shapes",
        "timed",
        "visits",
        "warned",
        "wide_on",
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
        self.id = cls
        self.root = root
        """The tree of its jobs (`_job_tree`); 0 for jobs of the user's program."""
        self.client = client
        self.request = request
        self.priority = priority
        self.isolate = isolate
        self.shapes = shapes
        # The parent of a tree's job holds slots while it waits, so the job must not queue at a full
        # worker, where nothing may ever make room for it.
        self.may_be_ahead = not root and shapes[0].may_be_ahead
        """True if its jobs may wait at a worker that is full."""
        self.queue: deque[HeadJob] | DeepestFirst = DeepestFirst() if root else deque()
        self.warned = False
        self.blocked_job: HeadJob | None = None
        self.blocked_since = 0.0
        self.passed_since: float | None = None
        """When `blocked_job` was passed over for the first time (`planning._patience`); None until then."""
        # What follows is for the index of those that wait (`_waiting`).
        self.is_simple = not any(shape.rationed or shape.group is not None for shape in shapes)
        """True if only a change of workers can let its jobs start."""
        self.timed = any(shape.soft_s is not None or shape.group is not None for shape in shapes)
        common = [name for name, _ in shapes[0].units if all(name in shape.request.units for shape in shapes)]
        self.names = tuple(sorted(common))
        self.needs = tuple(min(shape.request.units[name] for shape in shapes) for name in self.names)
        """The least that a job takes of each of `names`, whichever shape it gets."""
        self.place: ClassIndex | None = None
        """The index in which it stands, with `entry` and `kind` as its key there; None while no jobs wait."""
        self.entry: Entry | None = None
        self.kind: Kind = (), 0, False
        self.claim: ClassIndex | None = None
        """Where it stands among those that may be reserved for."""
        self.wide_on: tuple[int, ...] = ()
        """Kinds of workers for which it may be wide, as long as it is blocked."""
        self.visits = 0
        """Number of searches of passes for a worker for it."""

    def head(self) -> HeadJob | None:
        """Return the job to run next, or None."""
        queue = self.queue
        while queue:
            job = queue[0]
            if not job.cancelled:
                return job
            queue.popleft()
        return None

    def keep_own(self, request: Request, jobs: list[HeadJob]) -> None:
        """Record that jobs of this class asked for less, if they did."""
        if request is not self.request and request != self.request:
            self.shapes[0].varied = True
            for job in jobs:
                job.own = request

    def live(self) -> list[HeadJob]:
        """Return all queued jobs, in order."""
        return [job for job in self.queue if not job.cancelled]

    def put_back(self, jobs: list[HeadJob]) -> None:
        """Return jobs to the front, oldest first."""
        for job in sorted(jobs, key=_by_age, reverse=True):
            job.state = JobState.QUEUED
            job.worker = 0
            job.shape = None
            self.queue.appendleft(job)


def _by_age(job: HeadJob) -> int:
    return job.id

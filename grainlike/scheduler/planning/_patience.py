"""Patience: which blocked jobs have been passed over for so long that a worker is to be kept for them.

A job is passed over when one that goes later in order starts while it stays blocked. Jobs that wait for nothing but
their turn are not: of 20 000 jobs that each ask for another amount of memory the oldest starts whenever one ends, and
were workers kept for the others, no job of another client, whose fair share comes first, could start beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Protocol, TypeVar

from grainlike.scheduler._records import HeadJob, RequestClass, arrival
from grainlike.scheduler.planning._reservation import PATIENCE_S, patience_of

__all__ = ["Patience"]

_STALE_MOST = 1024
"""Entries beyond two for each class until those of jobs that do not wait any more are dropped."""

_Blocked = tuple[tuple[int, int], int, int]
"""Order of a class's first job, the class, the job."""

_Due = tuple[float, int, int]
"""When its patience ends, the class, the job."""

_E = TypeVar("_E", _Blocked, _Due)


class _First(Protocol):
    def __call__(self, job: HeadJob) -> bool:
        """Return True if no waiting job of its client goes before this one."""
        ...


class Patience:
    """Blocked jobs that were not passed over yet, and when the patience of the others ends. A step costs what it
    changes: each blocked job is noted once, and is passed over for the first time once.

    `classes` are the scheduler's own, live. `is_first` tells a client's first job.
    """

    def __init__(self, classes: dict[int, RequestClass], is_first: _First) -> None:
        self._classes = classes
        self._is_first = is_first
        self.unpassed: dict[int, list[_Blocked]] = {}
        """Blocked jobs that were not passed over, by client: heaps by order. Entries of jobs that have left stay
        until they come first. While it is empty, nothing need call `started`.
        """
        self.passed: list[RequestClass] = []
        """Classes near a worker that were passed over since the last pass looked, while they are in the index."""
        self._due: list[_Due] = []
        self._pushed = 0

    def blocked(self, job: HeadJob, now: float) -> None:
        """Note that the first job of a class fits nowhere; the second time does nothing."""
        cls = job.cls
        if cls.blocked_job is not job:
            cls.blocked_job, cls.blocked_since, cls.passed_since = job, now, None
            heappush(self.unpassed.setdefault(cls.client, []), (arrival(job), cls.id, job.id))
            self._pushed += 1
            if self._pushed > 2 * len(self._classes) + _STALE_MOST:
                self._tidy()

    def started(self, job: HeadJob, now: float) -> None:
        """Note that a job starts, or is sent ahead: what goes before it in order and is blocked is passed over.

        Of other clients, whose share of the workers is another, that is the first job alone: the others wait for it.
        """
        at, client = arrival(job), job.cls.client
        for other in list(self.unpassed):
            heap = self.unpassed[other]
            while heap and heap[0][0] < at:
                first = self._job_of(heap[0])
                if first is not None and other != client and not self._is_first(first):
                    break
                heappop(heap)
                if first is not None:
                    first.cls.passed_since = now
                    if first.cls.near and first.cls.place is not None:
                        self.passed.append(first.cls)
                    self.await_end(first)
            if not heap:
                del self.unpassed[other]

    def is_over(self, job: HeadJob, now: float) -> bool:
        """Return True if a blocked job was passed over for the first time so long ago (`patience_of`)."""
        if job.cls.blocked_job is not job:
            self.blocked(job, now)
        since = job.cls.passed_since
        # Most have waited for less than the least patience there is.
        return since is not None and now - since >= PATIENCE_S and now - since >= patience_of(job)

    def ended(self, now: float, most: int) -> Iterator[RequestClass]:
        """Iterate over the classes whose first job's patience has ended, once each; `most` are looked at."""
        due = self._due
        for _ in range(most):
            if not due or due[0][0] > now:
                return
            entry = heappop(due)
            job = self._job_of(entry)
            if job is None or job.cls.passed_since is None:
                continue
            if self.is_over(job, now):
                yield job.cls
            else:  # runs of its function take longer than was known
                heappush(due, (job.cls.passed_since + patience_of(job), entry[1], entry[2]))

    def await_end(self, job: HeadJob) -> None:
        """Let `ended` tell of a job that was passed over when no job asked for that."""
        since = job.cls.passed_since
        if since is not None:
            heappush(self._due, (since + patience_of(job), job.cls.id, job.id))

    def is_any_due(self, now: float) -> bool:
        """Return True if `ended` has left some for the next time."""
        return bool(self._due) and self._due[0][0] <= now

    def _job_of(self, entry: _Blocked | _Due) -> HeadJob | None:
        """Return the job of an entry if it is blocked still."""
        cls = self._classes.get(entry[1])
        job = None if cls is None else cls.head()
        return job if job is not None and cls is not None and cls.blocked_job is job and job.id == entry[2] else None

    def _tidy(self) -> None:
        """Drop entries of jobs that do not wait any more."""
        self._pushed = 0
        kept = ((client, self._live(heap)) for client, heap in self.unpassed.items())
        self.unpassed = {client: heap for client, heap in kept if heap}
        self._due = self._live(self._due)

    def _live(self, heap: list[_E]) -> list[_E]:
        live = [entry for entry in heap if self._job_of(entry) is not None]
        heapify(live)
        return live

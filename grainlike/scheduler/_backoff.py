"""Backoff: jobs that wait before they are tried again.

The waits grow by a factor up to a limit. Up to a quarter is taken off by chance, so that jobs that failed together do
not come back together; the chance is a function of a seed, the job and the attempt, so the same events give the same
waits."""

from __future__ import annotations

from hashlib import blake2b
from heapq import heappop, heappush

from grainlike._retrying import backoff_s
from grainlike.scheduler._records import HeadJob
from grainlike.scheduler._states import JobState

__all__ = ["BackoffQueue"]


class BackoffQueue:
    """The jobs of one head that wait to be tried again."""

    __slots__ = ("_heap", "_seed", "waiting")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.waiting: dict[int, HeadJob] = {}
        """Those that wait, by number."""
        self._heap: list[tuple[float, int]] = []

    def wait(self, job: HeadJob, now: float) -> float | None:
        """Let a job wait for its next attempt; return for how many seconds, None if its function has no backoff."""
        if job.fn.backoff is None:
            return None
        nth = job.fn.retries - job.retries + job.losses
        seconds = backoff_s(job.fn.backoff, nth, self._chance(job))
        job.state, job.shape, job.worker = JobState.BACKOFF, None, 0
        job.remembered().again_at = now + seconds
        self.waiting[job.id] = job
        heappush(self._heap, (job.again_at, job.id))
        return seconds

    def forget(self, job: HeadJob) -> None:
        """Drop a job that was cancelled, if it waits here."""
        self.waiting.pop(job.id, None)

    def due(self, now: float) -> list[HeadJob]:
        """Remove and return the jobs that have waited long enough."""
        due: list[HeadJob] = []
        while self._heap and (self._heap[0][0] <= now or self._heap[0][1] not in self.waiting):
            job = self.waiting.get(heappop(self._heap)[1])
            if job is not None and job.again_at <= now:
                due.append(self.waiting.pop(job.id))
        return due

    @property
    def next(self) -> float | None:
        """Time at which the next job has waited long enough; None without one."""
        return self._heap[0][0] if self.waiting else None

    def _chance(self, job: HeadJob) -> float:
        digest = blake2b(f"{self._seed}/{job.id}/{job.attempt}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    def check(self) -> None:
        """Raise `AssertionError` unless the records of the waiting jobs say so. For tests."""
        for number, job in self.waiting.items():
            assert job.id == number
            assert job.state is JobState.BACKOFF
            assert not job.cancelled
            assert (job.again_at, number) in self._heap

"""Slots and events of a client's jobs for its observers and readers: to observers, as if one worker ran all jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from grainlike.client._events import FarFeed
from grainlike.jobs import Job, Observer, WorkerInfo
from grainlike.resources import NO_ALLOCATION
from grainlike.wire import LeaseStart, Report

__all__ = ["FarLeases"]


class FarLeases:
    """Slots of a client's jobs. The head reports when an attempt begins and when the job has ended, and no more.

    Implements the observers' `Worker`: all workers are one to them, without an offer. Readers of events receive which
    worker it was.
    """

    number = 1
    name = "head"
    offer = NO_ALLOCATION
    skew = 0.0

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._leases: dict[Job, int] = {}
        self._last = 0
        self._telling: Job | None = None
        self.feeds: list[FarFeed] = []
        """Feeds of the readers of events."""

    def began(self, job: Job) -> None:
        """An attempt of a job has got slots; those of one before it are free."""
        self.ended(job)
        for feed in self.feeds:
            feed.started(job)
        if not self._observers or job.slots is None:
            return
        self._last += 1
        self._leases[job] = self._last
        self._telling = job
        now = time.monotonic()
        self._tell(Report(now, [LeaseStart(self._last, 0, job.slots, [job.job], [job.attempt], now)], [], []))
        self._telling = None

    def ended(self, job: Job, outcome: str = "") -> None:
        """Record that a job's slots are free, as far as a client sees; an `outcome` is how it ended."""
        if outcome:
            self.told(job, outcome)
        lease = self._leases.pop(job, None)
        if lease is not None:
            self._tell(Report(time.monotonic(), [], [], [lease]))

    def told(self, job: object, outcome: str) -> None:
        """Tell event readers that an attempt ended with `outcome`."""
        for feed in self.feeds:
            feed.ended(job, outcome)

    def workers(self, workers: Sequence[WorkerInfo]) -> None:
        """Set the head's workers."""
        for feed in self.feeds:
            feed.workers(workers)

    def drop(self, feed: FarFeed) -> None:
        """Remove a feed without a reader."""
        if feed in self.feeds:
            self.feeds.remove(feed)

    def close(self) -> None:
        """Close all feeds."""
        for feed in self.feeds:
            feed.closed()

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job that is being reported, if it is this one."""
        job = self._telling
        return job if job is not None and (job.job, job.attempt) == (number, attempt) else None

    def _tell(self, report: Report) -> None:
        for observer in self._observers:
            observer.reported(self, report)

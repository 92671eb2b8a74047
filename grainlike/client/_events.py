"""Events of a program that is connected to a head: of its own jobs, and of workers that join and leave.

Slots and events of a client's jobs for its observers and readers: to observers, as if one worker ran all jobs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from grainlike.errors import JobCancelledError, JobMemoryError, JobTimeoutError, WorkerLostError
from grainlike.jobs import Event, Feed, Job, Observer, WorkerInfo, allocation_of, start_of
from grainlike.resources import NO_ALLOCATION
from grainlike.wire import LeaseStart, Report

if TYPE_CHECKING:
    from grainlike.client._output_to_logger import OutputToLogger

__all__ = ["RemoteFeed", "RemoteLeases", "outcome_of"]


_OUTCOMES: tuple[tuple[type[BaseException], str], ...] = (
    (JobTimeoutError, "timed_out"),
    (JobCancelledError, "cancelled"),
    (JobMemoryError, "out_of_memory"),
    (WorkerLostError, "crashed"),
)


def outcome_of(error: BaseException) -> str:
    """Return how the last attempt of a job ended, by the job's error."""
    # By the type alone: `isinstance` asks the object too, and a user's class may raise at every look.
    return next((name for kind, name in _OUTCOMES if issubclass(type(error), kind)), "failed")


class RemoteFeed(Feed):
    """Feed of the head's messages to a client, with the time at which each was received."""

    def __init__(self, workers: Sequence[WorkerInfo], jobs: Iterable[Job] = ()) -> None:
        super().__init__()
        self._here: dict[str, WorkerInfo] = {}
        self._running: dict[object, Event] = {}
        """By which event the attempt of a job began that has not ended."""
        for job in jobs:  # that run as the reader comes: it is told of their ends
            if (start := _start(job, job.began)) is not None:
                self._running[job] = start
        self.workers(workers)

    def workers(self, workers: Sequence[WorkerInfo]) -> None:
        """Set the head's workers."""
        before, self._here = self._here, {worker.name: worker for worker in workers}
        for name, worker in before.items():
            if name not in self._here:
                self._worker("worker_left", worker)
        for name, worker in self._here.items():
            if name not in before:
                self._worker("worker_joined", worker)

    def _worker(self, kind: Literal["worker_joined", "worker_left"], worker: WorkerInfo) -> None:
        at = time.monotonic()
        self._add(Event(number=self._number(), kind=kind, at=at, worker=worker.name, allocation=worker.resources))

    def started(self, job: Job) -> None:
        """An attempt of a job has got slots."""
        began = _start(job, time.monotonic())
        if began is not None:
            began = self._running[job] = replace(began, number=self._number())
            self._add(began)

    def ended(self, job: object, outcome: str) -> None:
        """Add the end of a job, if it had begun."""
        began = self._running.pop(job, None)
        if began is not None:
            number, at = self._number(), time.monotonic()
            self._add(replace(began, number=number, kind="job_ended", at=at, outcome=outcome))

    def closed(self) -> None:
        """End the feed, as `Feed.closed`, after all workers have left."""
        self.workers(())
        super().closed()


def _start(job: Job, at: float | None) -> Event | None:
    if job.node is None or job.slots is None or at is None:
        return None
    return start_of(job, job.attempt, job.worker or "", allocation_of(job.slots), at)


class RemoteLeases:
    """Slots of a client's jobs. The head reports when an attempt begins and when the job has ended, and no more.

    Implements the observers' `Worker`: all workers are one to them, without an offer. Readers of events receive which
    worker it was.
    """

    number = 1
    name = "head"
    offer = NO_ALLOCATION
    skew: float = 0.0

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = observers
        self._leases: dict[Job, int] = {}
        self._last = 0
        self._telling: Job | None = None
        self.feeds: list[RemoteFeed | OutputToLogger] = []
        """Feeds of the readers of events, and of the logger of output."""

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
        self._tell(Report(now, [LeaseStart(self._last, 0, job.slots, [job.id], [job.attempt], now)], [], []))
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

    def drop(self, feed: RemoteFeed) -> None:
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
        return job if job is not None and (job.id, job.attempt) == (number, attempt) else None

    def _tell(self, report: Report) -> None:
        for observer in self._observers:
            observer.reported(self, report)

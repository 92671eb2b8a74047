"""Events of a program that is connected to a head: of its own jobs, and of workers that join and leave."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from grainlike.errors import JobCancelledError, JobMemoryError, JobTimeoutError, WorkerLostError
from grainlike.jobs import Event, Feed, Job, WorkerInfo, allocation_of

__all__ = ["FarFeed", "outcome_of"]

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


class FarFeed(Feed):
    """Feed of the head's messages to a client, with the time at which each was received."""

    def __init__(self, workers: Sequence[WorkerInfo]) -> None:
        super().__init__()
        self._here: dict[str, WorkerInfo] = {}
        self._running: dict[object, Event] = {}
        """By which event the attempt of a job began that has not ended."""
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
        if job.node is None or job.slots is None:
            return
        began = Event(
            number=self._number(),
            kind="job_started",
            at=time.monotonic(),
            worker=job.worker or "",
            name=job.node.function.name,
            job=job.job,
            attempt=job.attempt,
            allocation=allocation_of(job.slots),
        )
        self._running[job] = began
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

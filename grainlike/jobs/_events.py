"""Events of an executor's workers and jobs, as they happen."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

import anyio

from grainlike.jobs._job import Job
from grainlike.jobs._slots import allocation_of, slots_of
from grainlike.wire import Code

if TYPE_CHECKING:
    from grainlike.graph import Node
    from grainlike.jobs._interfaces import Worker
    from grainlike.resources import Allocation
    from grainlike.wire import Completed, LeaseStart, Report

__all__ = ["Event", "Events", "Feed", "WorkersFeed", "start_of"]

MOST = 100_000
"""Number of events that are kept for a slow reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened on a worker.

    Attributes:
        number: 1, 2, 3, ... A reader that is 100 000 events behind loses the oldest, and sees a gap here.
        kind: `"worker_joined"`, `"worker_suspected"` (it gets no jobs for now, `outcome` is the reason),
            `"worker_heard"` (it does again), `"worker_quarantined"` and `"worker_released"` (the same, for it has
            failed too often), `"worker_left"`, `"job_started"` or `"job_ended"`; each attempt of a job has both of
            the latter, unless its worker is lost. Of one that runs when its reader comes, that hears of the end alone.
        at: time in seconds on this process's monotonic clock.
        worker: the worker's name.
        name: the function of the job; empty for workers.
        job: the job's number, 0 for workers.
        attempt: 1 for the first attempt of the job, 0 for workers.
        allocation: the slots of the job, or what the worker offers.
        outcome: the attempt's outcome: `"succeeded"`, `"failed"`, `"timed_out"`, `"cancelled"`, ...; empty otherwise.
            A client of a head receives only `"retried"` for an attempt that is followed by another.
    """

    number: int
    kind: Literal[
        "worker_joined",
        "worker_suspected",
        "worker_heard",
        "worker_quarantined",
        "worker_released",
        "worker_left",
        "job_started",
        "job_ended",
    ]
    at: float
    worker: str
    name: str = ""
    job: int = 0
    attempt: int = 0
    allocation: Allocation | None = None
    outcome: str = ""


def start_of(job: Job, attempt: int, worker: str, allocation: Allocation, at: float, number: int = 0) -> Event:
    """Return the start of an attempt; with no number for one that its reader is not told of."""
    assert job.node is not None
    return Event(
        number=number,
        kind="job_started",
        at=at,
        worker=worker,
        name=job.node.function.name,
        job=job.id,
        attempt=attempt,
        allocation=allocation,
    )


FeedT = TypeVar("FeedT", bound="Feed")


class Events(AsyncIterator[Event]):
    """Iterator over the events of a feed, until the feed closes. `drop` is called when the reader is collected."""

    def __init__(self, feed: FeedT, drop: Callable[[FeedT], None]) -> None:
        self._feed: Feed = feed
        # The executor holds the feed, and the reader holds this: one that is dropped is fed no more.
        self._drop: Callable[[], object] = weakref.finalize(self, drop, feed)

    async def __anext__(self) -> Event:
        return await self._feed.next()

    async def aclose(self) -> None:
        """End the reader: no more events come to it, and a task that waits for one gets `StopAsyncIteration`.
        It does not wait, so there is nothing to cancel in it.

        Example::

            async with aclosing(executor.events()) as events:
                async for event in events:
                    ...
        """
        self._drop()
        self._feed.dropped()


class Feed:
    """Events that wait for their reader."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=MOST)
        self._last = 0
        self._over = False
        self._arrived = anyio.Event()

    async def next(self) -> Event:
        """Return the oldest event that was not read; waits for one."""
        while not self._events:
            if self._over:
                raise StopAsyncIteration
            if self._arrived.is_set():  # else another task waits for it already
                self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._events.popleft()

    def closed(self) -> None:
        """Mark the end of the events."""
        self._over = True
        self._arrived.set()

    def dropped(self) -> None:
        """Mark the end for a reader that has left: what it has not read is dropped."""
        self._events.clear()
        Feed.closed(self)

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _add(self, event: Event) -> None:
        self._events.append(event)
        self._arrived.set()


class LiveJobs(Protocol):
    """Lookup of the jobs that a head has."""

    def live_job(self, number: int, attempt: int) -> Job | None:
        """Return the job of a number, if this is its current attempt."""

    def assembles(self, number: int) -> bool:
        """Return whether a job of several nodes still waits for some of them."""
        ...


class WorkersFeed(Feed):
    """Fed by the workers of this program's head. Implements `Observer`."""

    def __init__(self, executor: LiveJobs) -> None:
        super().__init__()
        self._executor = weakref.ref(executor)
        self._running: dict[tuple[int, int], Event] = {}
        """By which event an attempt began that has not ended."""

    def under_way(self, jobs: Iterable[Job]) -> None:
        """Note the jobs that run as the reader comes: it is told of their ends."""
        for job in jobs:
            if job.node is not None and job.slots is not None and job.began is not None and not self._assembles(job.id):
                start = start_of(job, job.attempt, job.worker or "", allocation_of(job.slots), job.began)
                self._running[job.id, job.attempt] = start

    def joined(self, peer: Worker) -> None:
        """A worker is here."""
        at = time.monotonic()
        self._add(Event(number=self._number(), kind="worker_joined", at=at, worker=peer.name, allocation=peer.offer))

    def suspected(self, peer: Worker, why: str) -> None:
        """A worker gets no jobs for now, or does again."""
        kind: Literal["worker_suspected", "worker_heard"] = "worker_suspected" if why else "worker_heard"
        self._add(Event(number=self._number(), kind=kind, at=time.monotonic(), worker=peer.name, outcome=why))

    def quarantined(self, peer: Worker, why: str) -> None:
        """A worker fails again and again, and gets nothing new for a while; or that is over."""
        kind: Literal["worker_quarantined", "worker_released"] = "worker_quarantined" if why else "worker_released"
        self._add(Event(number=self._number(), kind=kind, at=time.monotonic(), worker=peer.name, outcome=why))

    def left(self, peer: Worker) -> None:
        """Add an event: a worker has left."""
        at = time.monotonic()
        self._add(Event(number=self._number(), kind="worker_left", at=at, worker=peer.name, allocation=peer.offer))

    def reported(self, peer: Worker, report: Report) -> None:
        """Attempts started and ended."""
        skew = time.monotonic() - report.sent_at
        for start in report.started:
            self._started(peer, start, skew)
        for completed in report.completed:
            self._completed(completed, skew)

    def called(self, node: Node) -> None:
        """Calls without resources are no jobs."""

    def linked(self, job: Job, *, good: bool) -> None:
        """Add the events of a call that has run in a chain: workers report only the first of a chain."""
        began = self._running.pop((job.id, job.attempt), None)
        if began is None and job.node is not None and job.slots is not None and job.began is not None:
            began = self._begin(job, job.attempt, job.worker or "", allocation_of(job.slots), job.began)
        if began is not None and job.ended is not None:
            self._end(began, job.ended, Code.SUCCEEDED if good else Code.FAILED)

    def _started(self, peer: Worker, start: LeaseStart, skew: float) -> None:
        for number, attempt, slots in slots_of(start):
            job = self._job(number, attempt)
            if job is not None and job.node is not None and not self._assembles(number):
                began = self._begin(job, attempt, peer.name, allocation_of(slots), start.at + skew)
                self._running[number, attempt] = began

    def _completed(self, completed: Completed, skew: float) -> None:
        for row, key in enumerate(zip(completed.jobs, completed.attempts, strict=True)):
            job = self._job(*key)
            code = Code(completed.codes[row])
            if job is not None and job.links and code is Code.SUCCEEDED:
                continue  # a chain, whose calls are told one by one
            began = self._running.pop(key, None)
            if began is not None:
                self._end(began, completed.begun[row] + completed.wall[row] + skew, code)

    def _begin(self, job: Job, attempt: int, worker: str, allocation: Allocation, at: float) -> Event:
        event = start_of(job, attempt, worker, allocation, at, self._number())
        self._add(event)
        return event

    def _end(self, began: Event, at: float, code: Code) -> None:
        # Clocks are compared again with each report: an end may look a moment earlier than its beginning.
        outcome = code.name.lower()
        self._add(replace(began, number=self._number(), kind="job_ended", at=max(began.at, at), outcome=outcome))

    def _job(self, number: int, attempt: int) -> Job | None:
        executor = self._executor()
        return None if executor is None else executor.live_job(number, attempt)

    def _assembles(self, number: int) -> bool:
        executor = self._executor()
        return executor is not None and executor.assembles(number)

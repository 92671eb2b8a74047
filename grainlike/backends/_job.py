"""A job on an engine of another kind, and that engine as observers see it: as one worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import Context
from typing import Any

from grainlike._retrying import tries_again
from grainlike.graph import Node
from grainlike.jobs import NO_PARCEL, Job
from grainlike.payload import Payload
from grainlike.resources import NO_ALLOCATION, Allocation, Grant, Request, Usage, offer_of
from grainlike.wire import Code, Completed, LeaseStart, Report

__all__ = ["BackendJob", "BackendWorker"]


class BackendJob(Job):
    """Job on a backend. `do` makes the call in this process; `blob` and `packed` are sent elsewhere."""

    __slots__ = (
        "_usage",
        "blob",
        "context",
        "do",
        "future",
        "grant",
        "name",
        "packed",
        "rank",
        "request",
        "retries",
        "timeout",
        "trouble",
    )

    def __init__(self, number: int, node: Node, do: Callable[[], Any], blob: bytes, packed: Payload | None) -> None:
        super().__init__(number, 0, node, NO_PARCEL)
        assert node.request is not None
        options = node.function.options
        self.do: Callable[[], Any] = do
        self.blob: bytes = blob
        self.packed: Payload | None = packed
        self.name: str = node.function.name
        self.request: Request = node.request
        self.rank: int = options.rank
        self.retries: int = options.retry.times
        self.timeout: float | None = options.timeout
        self.grant: Grant | None = None
        self.future: Any = None
        self.context: Context = _EMPTY
        self.trouble: Exception | None = None
        """Error for which the backend did not cancel it."""
        self._usage: Usage | None = None

    def start(self, slots: Request) -> None:
        """Record that it is handed to the backend."""
        self.begin(self.worker or "", self.attempt, str(slots))
        self.future = None

    def took(self, worker: str, wall: float, cpu: float, rss: int) -> None:
        """Record the worker and the usage: it began when it was performed, and not when it was handed over."""
        self._usage = Usage(wall, cpu, rss, cpu / wall if wall > 0 else 0.0)
        placement = self.placement
        assert placement is not None
        assert placement.ended is not None
        placement.worker = worker
        placement.began = max(placement.began or 0.0, placement.ended - wall)

    def ran(self, began: float, ended: float) -> None:
        """Record when the backend began and ended it."""
        assert self.placement is not None
        self.placement.began, self.placement.ended = began, ended

    @property
    def usage(self) -> Usage | None:
        """Usage of the job: wall and CPU seconds, memory in bytes, and cores."""
        return self._usage

    @property
    def may_try_again(self) -> bool:
        """Return True if another attempt is due after one that failed."""
        return tries_again(self.attempt, self.retries)


class BackendWorker:
    """Backend as observers see it: one worker."""

    number = 1
    skew = 0.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.offer: Allocation = NO_ALLOCATION

    def of(self, offer: Request) -> Allocation:
        """Set and return the offer that is counted here, with ids: the backend's places, and not this machine's."""
        self.offer = offer_of(offer, own_cores=())
        return self.offer

    def report(self, started: BackendJob | None, ended: BackendJob | None, *, good: bool) -> Report:
        """Return a report that a job started, or ended, now; each has a lease of its own."""
        now = time.monotonic()
        begun = [LeaseStart(_lease(job), 0, job.slots or "", [job.id], [job.attempt], now) for job in [started] if job]
        if ended is None:
            return Report(now, begun, [], [])
        wall = (ended.ended or now) - (ended.began or now)
        code = Code.SUCCEEDED if good else Code.FAILED
        done = Completed(
            _lease(ended), [ended.id], [ended.attempt], [code], [now - wall], [wall], [0.0], [0], [], [], now
        )
        return Report(now, begun, [done], [_lease(ended)])


_EMPTY = Context()
"""Context of calls that run in another process."""


def _lease(job: BackendJob) -> int:
    return job.id * 1_000_000 + job.attempt

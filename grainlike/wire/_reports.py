"""Messages from a worker to the head: leases, ends of attempts, and waits. Runners report to their worker by the same
ones. How many jobs ended how is counted in `Totals`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import msgspec
from msgspec.structs import replace

from grainlike.wire._base import BaseMessage

__all__ = [
    "Blocked",
    "Code",
    "Completed",
    "LeaseStart",
    "LeaseWait",
    "Leaving",
    "ReceiptSpec",
    "Report",
    "Wait",
]


class Code(IntEnum):
    """Outcome of one attempt of a job on its worker."""

    SUCCEEDED = 0  # its parcel is the value
    FAILED = 1  # its parcel is the exception
    CANCELLED = 2  # stopped on request
    TIMED_OUT = 3  # stopped because it ran past its function's `timeout`
    RETURNED = 4  # never started; the same attempt may be assigned again
    CRASHED = 5  # its runner died while the job may have been running; `details` says how
    STOPPED = 6  # ended because its worker stops; another attempt may be made, and nothing counts as lost
    OUT_OF_MEMORY = 7  # failed for lack of memory; its parcel is the exception
    UNSTARTED = 9  # never started: no process could be started for it; `details` says why
    INPUT_GONE = 10  # never began: a value that it needs is not here, or damaged; another attempt may be made
    UNBEGUN = 11  # its process died before it had begun, maybe over it; `details` says how
    UNFIT = 8  # never started, and never will here: the node cannot give the layout that was asked for


class Wait(IntEnum):
    """State of the wait of a lease's job for its own jobs."""

    NOTHING = 0  # it runs, on cores of its own
    CHILDREN = 1  # it awaits jobs that it submitted
    CORES = 2  # the outcome it awaited has arrived, and it waits for the cores that it lent


class ReceiptSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Limits that were enforced, read back by system calls in the process of the jobs."""

    pid: int
    affinity: list[int]
    threads: dict[str, int]
    devices: list[int]
    memory_tier: str


class LeaseStart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease began: these jobs run one after another on this allocation. `memory` is as in `Assign`."""

    lease: int
    cls: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    at: float
    memory: tuple[int, ...] = ()


class LeaseWait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The job of a lease begins to wait for its own jobs, or continues.

    `waits` is a `Wait`. `heard` is the number of outcomes of its own jobs that it had received by then: if more were
    sent, the wait will not last. `lent`: its cores are lent; `allocation` is what it holds.
    """

    lease: int
    job: int
    attempt: int
    waits: int
    heard: int
    lent: bool
    allocation: str


class _Attempt(Protocol):
    id: int
    attempt: int


class Completed(BaseMessage, frozen=True, tag=20):
    """Ends of attempts, in columns. `lease` is 0 for jobs that were never part of one.

    `awaited`: the job of the lease that is left, or the only one of the batch that has run, has suspended, which keeps
    its function out of run-lists. `details` maps a job to text for its error (a signal's name, for instance). `receipt`
    comes with the first `Completed` of a lease. `never_ran`: its runner died before it had done anything. `final` lists
    the jobs that failed by an exception that their function's retries do not cover. `sizes`: bytes of each value that
    stays at the worker, whose parcel is empty, and 0 for others; empty if none does. `gone`: values of which no good
    replica is here any more, though jobs that ended by `INPUT_GONE` needed them. `wanted`: bytes of the values for
    which there was no room here, by the number of the job that failed for it.
    """

    lease: int
    jobs: list[int]
    attempts: list[int]
    codes: list[int]
    begun: list[float]
    wall: list[float]
    cpu: list[float]
    rss: list[int]
    data: list[bytes]
    counts: list[int]
    sent_at: float
    awaited: bool = False
    receipt: ReceiptSpec | None = None
    details: dict[int, str] = msgspec.field(default_factory=dict)
    final: list[int] = msgspec.field(default_factory=list)
    never_ran: bool = False
    sizes: list[int] = msgspec.field(default_factory=list)
    gone: list[int] = msgspec.field(default_factory=list)
    wanted: dict[int, int] = msgspec.field(default_factory=dict)

    @classmethod
    def without_payloads(
        cls, lease: int, jobs: Sequence[_Attempt], codes: list[Code], now: float, details: dict[int, str]
    ) -> Completed:
        """Return a message about jobs that left no payload."""
        count = len(jobs)
        return cls(
            lease,
            [job.id for job in jobs],
            [job.attempt for job in jobs],
            [int(code) for code in codes],
            [now] * count,
            [0.0] * count,
            [0.0] * count,
            [0] * count,
            [b""] * count,
            [],
            now,
            details=details,
        )

    def told(self, rows: list[int], codes: list[int]) -> Completed:
        """Return the message with these codes; rows not in `rows` get attempt 0, and no size, so that the payloads stay
        aligned.
        """
        if len(rows) == len(self.jobs):
            return self if codes == self.codes else replace(self, codes=codes)
        told = set(rows)
        attempts = [attempt if row in told else 0 for row, attempt in enumerate(self.attempts)]
        sizes = [size if row in told else 0 for row, size in enumerate(self.sizes)]
        return replace(self, attempts=attempts, codes=codes, sizes=sizes)


class Report(BaseMessage, frozen=True, tag=21):
    """Events on a worker since its last report: leases begun, attempts ended, leases ended, in that order."""

    sent_at: float
    started: list[LeaseStart]
    completed: list[Completed]
    ended: list[int]
    waits: list[LeaseWait] = msgspec.field(default_factory=list)


class Blocked(BaseMessage, frozen=True, tag=62):
    """Worker to head: a job has blocked the event loop that it shares for `seconds` so far; 0: it no longer does."""

    job: int
    seconds: float
    stack: str


class Leaving(BaseMessage, frozen=True, tag=22):
    """The worker stops: it takes no more jobs, ends those it has, reports them, and closes the connection."""

    reason: str

"""Messages between a worker and one of its runners: what to run, and the life of the process. And what the worker tells
its head of the processes of runners.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._values import Need

__all__ = [
    "HALTS",
    "Awaits",
    "GoesOn",
    "Halted",
    "HaltedProcess",
    "HaltedState",
    "Ready",
    "Renew",
    "Resumed",
    "Room",
    "RoomIs",
    "Run",
    "Setup",
    "Stop",
    "StopReason",
]


class Setup(BaseMessage, frozen=True, tag=30):
    """The first message to a runner: its worker instance, its import paths, and the worker's context module.

    `store` is the directory of shared memory where large results go, `replicas` that of values which stay. `authkey` is
    the program's key of `multiprocessing`, with which a runner process reaches the program's managers; it may come in a
    second `Setup`.
    """

    instance: str
    paths: list[str]
    context: str = ""
    store: str = ""
    authkey: bytes = b""
    replicas: str = ""


class Run(BaseMessage, frozen=True, tag=31):
    """A lease for a runner: run these jobs one after another on `allocation`.

    `limit` is the number of seconds that each job may run. Where they differ, `limits` has those of each, and `limit`
    is the shortest. The deadline of an only job counts from the grant; for a process that could not begin it at once,
    from `Ready`; those of several from when they begin. `memory` and `needs` are as in `Assign`. Where jobs are kept
    `apart`, each finds the process as the first one does. A process that may hold memory of devices does not begin a
    `fresh` one: its successor does. A runner that many leases share notes at `place` which jobs of this one it has
    called.
    """

    lease: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    deadlines: list[float | None]
    data: list[bytes]
    counts: list[int]
    limit: float | None = None
    memory: tuple[int, ...] = ()
    needs: list[list[Need]] = msgspec.field(default_factory=list)
    apart: bool = False
    fresh: bool = False
    place: int = 0
    limits: tuple[float | None, ...] = ()

    def limit_of(self, position: int) -> float | None:
        """Return the number of seconds that the job at a position may run."""
        return self.limits[position] if self.limits else self.limit


class StopReason(IntEnum):
    """Reason for which jobs are stopped, as far as they are told. Numbers begin at 1: they stand in the pages that
    daemon and runner share, where 0 is that the runner was not told to end.
    """

    UNSAID = 1
    WALLTIME = 2  # the time of their worker is over

    @property
    def message(self) -> str | None:
        """Return what the cancelled job sees: the message of its `CancelledError`."""
        return None if self is StopReason.UNSAID else self.name.lower()


class Stop(BaseMessage, frozen=True, tag=32):
    """Cancel these jobs inside a runner."""

    jobs: list[int]
    reason: StopReason = StopReason.UNSAID


class Awaits(BaseMessage, frozen=True, tag=42):
    """From a runner to its worker: the job waits for children of its own, and has received `heard` outcomes so far."""

    job: int
    attempt: int
    heard: int


class GoesOn(BaseMessage, frozen=True, tag=43):
    """From a runner to its worker: the outcome that the job awaited has arrived; it continues when `Resumed` comes."""

    job: int
    attempt: int
    heard: int


class Resumed(BaseMessage, frozen=True, tag=44):
    """From a worker to its runner: the job may continue, on this allocation."""

    job: int
    attempt: int
    allocation: str


class Renew(BaseMessage, frozen=True, tag=70):
    """This runner process is to be replaced: it sends nothing after this, and what it was sent and has not begun goes
    to its successor. `why` is for the worker's log; empty where it says nothing.
    """

    why: str = ""


class Ready(BaseMessage, frozen=True, tag=71):
    """This process is about to begin its first job, or the first one with a time limit: its start does not count as the
    job's time.
    """


class Room(BaseMessage, frozen=True, tag=173):
    """From a runner to its worker: this attempt gave a value that is to stay, and waits for room to write its `size`
    bytes; answered by `RoomIs`.
    """

    job: int
    attempt: int
    size: int


class RoomIs(BaseMessage, frozen=True, tag=174):
    """From a worker to its runner: the path of a file for the value, all of whose bytes are allocated. Empty if it is
    not to stay: because of `full`, for which the job fails, or else it travels with the job's end.
    """

    job: int
    attempt: int
    path: str = ""
    full: str = ""


HaltedState = Literal["T", "t", "D", "Z"]
"""State of a process in which it does not go on, as in `/proc/PID/stat`."""

HALTS: dict[HaltedState, str] = {
    "T": "stopped (SIGSTOP)",
    "t": "stopped by a debugger",
    "D": "waiting in the kernel (for a device or file server)",
    "Z": "dead (a zombie)",
}
"""Each of these states in words."""


class HaltedProcess(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A process that has been in one `state` for `seconds`, with the jobs that it has and that have not ended."""

    pid: int
    state: HaltedState
    seconds: float
    jobs: list[int]


class Halted(BaseMessage, frozen=True, tag=203):
    """Worker to head: the processes that do not go on now, all of them. Those that were told before, and are not among
    them, do.
    """

    processes: list[HaltedProcess]

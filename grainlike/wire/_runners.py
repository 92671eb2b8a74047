"""Between a worker and one of its runners: what to run, and the life of the process."""

from __future__ import annotations

from grainlike.wire._base import BaseMessage

__all__ = [
    "Awaits",
    "GoesOn",
    "Ready",
    "Renew",
    "Resumed",
    "Run",
    "Setup",
    "Stop",
]


class Setup(BaseMessage, frozen=True, tag=30):
    """The first message to a runner: whom it works for, where its imports are, and the worker's context module.

    `store` is the directory of shared memory where large results go. `authkey` is the program's key of
    `multiprocessing`, with which a runner of its own reaches its managers; it may come in a second such message.
    """

    instance: str
    paths: list[str]
    context: str = ""
    store: str = ""
    authkey: bytes = b""


class Run(BaseMessage, frozen=True, tag=31):
    """A lease for a runner: run these jobs one after another on `allocation`.

    `limit` is for how long the first may run, which is alone then. Its deadline is reckoned from the grant; a process
    that could not begin it at once reckons from `Ready`.
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


class Stop(BaseMessage, frozen=True, tag=32):
    """Cancel these jobs inside a runner."""

    jobs: list[int]


class Awaits(BaseMessage, frozen=True, tag=42):
    """From a runner to its worker: the job waits for children of its own, and has had `heard` outcomes so far."""

    job: int
    attempt: int
    heard: int


class GoesOn(BaseMessage, frozen=True, tag=43):
    """From a runner to its worker: what the job awaited is there; it goes on when `Resumed` comes."""

    job: int
    attempt: int
    heard: int


class Resumed(BaseMessage, frozen=True, tag=44):
    """From a worker to its runner: the job may go on, on this allocation."""

    job: int
    attempt: int
    allocation: str


class Renew(BaseMessage, frozen=True, tag=70):
    """The process of this runner is used up: what it says after this is its last, and what it was told and has not
    begun is for its successor."""


class Ready(BaseMessage, frozen=True, tag=71):
    """This process is about to begin its first job, or the first that has a limit: until now its start took time,
    which is not the job's."""

"""Events and actions of the node scheduler: plain frozen data, with `wire` messages where they cross the network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from grainlike.scheduler._events import Ticked, WakeAt
from grainlike.wire import (
    Assign,
    Cancel,
    Completed,
    Define,
    Hold,
    LeaseStart,
    LeaseWait,
    Need,
    Retract,
    StopReason,
    Undefine,
)

__all__ = [
    "AssignSized",
    "BarrierHeld",
    "CoresTaken",
    "JobAwaits",
    "JobGoesOn",
    "KillRunner",
    "NodeAction",
    "NodeEvent",
    "NodeStopped",
    "RaiseBarrier",
    "ResumeJob",
    "RunnerAnswered",
    "RunnerCompleted",
    "RunnerGone",
    "RunnerKind",
    "RunnerReady",
    "RunnerRenewed",
    "RunnerRetired",
    "SpawnRunner",
    "StartApart",
    "StartLease",
    "StopJobs",
    "TellCompleted",
    "TellEnded",
    "TellHeld",
    "TellStarted",
    "TellWaits",
    "TerminateRunner",
]

RunnerKind = Literal["shared", "own"]
"""`"shared"`: the one runner of coroutines; `"own"`: a process that holds one lease at a time."""


# --- events ----------------------------------------------------------------------------------------------------------


class RunnerCompleted(msgspec.Struct, frozen=True, gc=False):
    """A runner reports how jobs ended."""

    runner: int
    completed: Completed


class RunnerAnswered(msgspec.Struct, frozen=True, gc=False):
    """The shared runner has acknowledged a stop: its event loop is not blocked."""

    runner: int


class RunnerReady(msgspec.Struct, frozen=True, gc=False):
    """A runner's process is up, and about to begin its first job: a shared runner reports it for any job, another one
    only for a job with a time limit.
    """

    runner: int


class RunnerRenewed(msgspec.Struct, frozen=True, gc=False):
    """A runner's process was replaced before it began its lease: its successor, which has the lease, is to start."""

    runner: int


class RunnerGone(msgspec.Struct, frozen=True, gc=False):
    """A runner's process is gone, with its children. `started` is the run-list position that it last claimed.

    `never_ran`: it died before it had done anything. `never_spawned`: no process could be started.

    In a shared runner, `stepping` is the job whose coroutine was being stepped, or whose function was being loaded; 0
    for none, or if that is not known.

    `called` has the run-list position of the job that was called last, by lease: those behind it, and all jobs of
    leases that are not in it, have not begun. None if that is not known: any job may have begun.
    """

    runner: int
    how: str
    started: int
    stepping: int = 0
    never_ran: bool = False
    never_spawned: bool = False
    called: dict[int, int] | None = None


class BarrierHeld(msgspec.Struct, frozen=True, gc=False):
    """A barrier is in force: no job of the run-list behind position `started` has begun or will.

    `ran_s`: for how many seconds that job has run; 0 if that is not known.
    """

    runner: int
    lease: int
    started: int
    ran_s: float = 0.0


class JobAwaits(msgspec.Struct, frozen=True, gc=False):
    """A job waits for jobs that it submitted. `heard`: how many outcomes of them it has received so far."""

    runner: int
    job: int
    attempt: int
    heard: int


class JobGoesOn(msgspec.Struct, frozen=True, gc=False):
    """An outcome that a job waited for has arrived: the job continues when it is sent a `ResumeJob`."""

    runner: int
    job: int
    attempt: int
    heard: int


class NodeStopped(msgspec.Struct, frozen=True, gc=False):
    """The node was asked to stop: running jobs are told the reason, and are ended, within `grace_s`, or killed."""

    grace_s: float | None = None
    reason: StopReason = StopReason.UNSAID


class CoresTaken(msgspec.Struct, frozen=True, gc=False):
    """Cores, as a mask, that other programs of the machine use now: leases avoid them while there are enough others."""

    cores: int


class AssignSized(msgspec.Struct, frozen=True, gc=False):
    """Jobs of one class, some of which may have large arguments. `sizes`: bytes of the arguments of each."""

    message: Assign
    sizes: Sequence[int]


NodeEvent = (
    Define
    | Undefine
    | Assign
    | AssignSized
    | Cancel
    | Retract
    | Hold
    | RunnerAnswered
    | RunnerReady
    | RunnerRenewed
    | RunnerCompleted
    | RunnerGone
    | BarrierHeld
    | JobAwaits
    | JobGoesOn
    | NodeStopped
    | CoresTaken
    | Ticked
)


# --- actions ---------------------------------------------------------------------------------------------------------


class SpawnRunner(msgspec.Struct, frozen=True, gc=False):
    """Start a runner process; it may be given leases at once."""

    runner: int
    kind: RunnerKind


class StartLease(msgspec.Struct, frozen=True, gc=False):
    """Give a runner a lease; see `wire.Run`. `fresh`: its process, if it may hold memory of devices, is replaced."""

    runner: int
    lease: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    deadlines: list[float | None]
    limit: float | None
    memory: tuple[int, ...] = ()
    needs: list[list[Need]] = msgspec.field(default_factory=list)
    fresh: bool = False
    limits: tuple[float | None, ...] = ()


class StartApart(StartLease, frozen=True, gc=False):
    """Give a runner a lease of several jobs, each of which finds the process as the first one does."""


class StopJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a runner to cancel jobs inside itself."""

    runner: int
    jobs: list[int]
    reason: StopReason = StopReason.UNSAID


class RaiseBarrier(msgspec.Struct, frozen=True, gc=False):
    """Keep a runner from starting more of its run-list, then answer with `BarrierHeld`."""

    runner: int
    lease: int


class TerminateRunner(msgspec.Struct, frozen=True, gc=False):
    """Send SIGTERM to a runner: `finally` blocks of its jobs run."""

    runner: int
    reason: StopReason = StopReason.UNSAID


class KillRunner(msgspec.Struct, frozen=True, gc=False):
    """Send SIGKILL to a runner and its children."""

    runner: int


class RunnerRetired(msgspec.Struct, frozen=True, gc=False):
    """A runner gets no more jobs, as jobs of these functions ignore that they were stopped, and keep their slots."""

    runner: int
    fns: list[int]


class ResumeJob(msgspec.Struct, frozen=True, gc=False):
    """Let a job that waited for its own jobs continue, on this allocation."""

    runner: int
    job: int
    attempt: int
    allocation: str


class TellStarted(msgspec.Struct, frozen=True, gc=False):
    """Report to the head that a lease began."""

    start: LeaseStart


class TellHeld(msgspec.Struct, frozen=True, gc=False):
    """Report to the head that slots are held for a gang."""

    start: LeaseStart


class TellCompleted(msgspec.Struct, frozen=True, gc=False):
    """Report to the head how attempts ended. `forwarded`: the buffers of the event that caused it go with it."""

    completed: Completed
    forwarded: bool


class TellEnded(msgspec.Struct, frozen=True, gc=False):
    """Report to the head that a lease's slots are free."""

    lease: int


class TellWaits(msgspec.Struct, frozen=True, gc=False):
    """Report to the head that the job of a lease waits for its own jobs, or continues, and if its cores are lent."""

    wait: LeaseWait


NodeAction = (
    SpawnRunner
    | StartLease
    | StopJobs
    | RaiseBarrier
    | TerminateRunner
    | KillRunner
    | RunnerRetired
    | TellStarted
    | TellHeld
    | TellCompleted
    | TellEnded
    | ResumeJob
    | TellWaits
    | WakeAt
)

"""What the minds are told, and what they answer. Plain frozen data; what crosses the network carries wire messages."""

from __future__ import annotations

from typing import Literal

import msgspec

from grainlike.resources import Allocation, Missing, Request
from grainlike.scheduler._deadlock import Deadlock
from grainlike.wire import Assign, Cancel, Completed, Define, Hold, LeaseStart, LeaseWait, Retract, Undefine

__all__ = [
    "MAX_LOSSES",
    "AssembleGang",
    "AssignJobs",
    "BarrierHeld",
    "CancelJobs",
    "CoresTaken",
    "FunctionDefined",
    "FunctionTimed",
    "FunctionsDropped",
    "HeadAction",
    "HeadEvent",
    "JobAwaits",
    "JobGoesOn",
    "JobsBackedOff",
    "JobsCancelled",
    "JobsCommitted",
    "JobsDeadlocked",
    "JobsLost",
    "JobsMoved",
    "JobsOrphaned",
    "JobsPending",
    "JobsRequeued",
    "JobsSettled",
    "JobsStarted",
    "JobsSubmitted",
    "JobsUnsatisfiable",
    "KillRunner",
    "NodeAction",
    "NodeEvent",
    "NodeStopped",
    "RaiseBarrier",
    "ResumeJob",
    "RetractJobs",
    "RunnerAnswered",
    "RunnerCompleted",
    "RunnerGone",
    "RunnerKind",
    "RunnerReady",
    "RunnerRenewed",
    "RunnerRetired",
    "ShapesForgotten",
    "SpawnRunner",
    "StartLease",
    "StartsPaused",
    "StopJobs",
    "TellCompleted",
    "TellEnded",
    "TellHeld",
    "TellStarted",
    "TellWaits",
    "TerminateRunner",
    "Ticked",
    "WakeAt",
    "WorkerDrained",
    "WorkerHeard",
    "WorkerJoined",
    "WorkerLeaving",
    "WorkerLost",
    "WorkerQuarantined",
    "WorkerReleased",
    "WorkerReported",
    "WorkerSuspected",
]


MAX_LOSSES = 3
"""How often a job may be running when its runner or worker dies before it is given up, if its function says nothing."""

RunnerKind = Literal["shared", "own"]
"""The one runner of coroutines, or a process that holds one lease at a time."""


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: the moment of the last `WakeAt` has come."""


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Send `Ticked` at this moment (on the clock of `now`), if nothing else happens before."""

    at: float


# --- events of the head's mind ---------------------------------------------------------------------------------------


class FunctionDefined(msgspec.Struct, frozen=True, gc=False):
    """A function got its number. `retries`: how many times a failed job of it is tried again.

    `on_timeout`: whether that is so for one that ran past its time. `losses`: how often a job is forgiven that its
    runner or worker died under it. `backoff`: how long a job waits before it is tried again: first seconds, factor,
    most."""

    fn: int
    retries: int = 0
    losses: int = MAX_LOSSES - 1
    backoff: tuple[float, float, float] | None = None
    on_timeout: bool = True


class FunctionsDropped(msgspec.Struct, frozen=True, gc=False):
    """No live job is of these functions, and none will be: what is known of them is forgotten."""

    fns: list[int]


class FunctionTimed(msgspec.Struct, frozen=True, gc=False):
    """How long calls of a function took that were not jobs of their own, in seconds."""

    fn: int
    walls: list[float]


class JobsSubmitted(msgspec.Struct, frozen=True, gc=False):
    """New jobs with ascending numbers, all asking for the same.

    `parent` is the job that submitted them, with its attempt, from a worker; (0, 0) where the user's program did.
    `more` announces another event of this moment: these jobs are planned with those.
    """

    request: Request
    jobs: list[int]
    fns: list[int]
    priority: int = 0
    isolate: bool = False
    client: int = 0
    parent: tuple[int, int] = (0, 0)
    more: bool = False


class JobsCancelled(msgspec.Struct, frozen=True, gc=False):
    """Nobody wants these any more. Unknown and finished jobs are passed over."""

    jobs: list[int]


class JobsCommitted(msgspec.Struct, frozen=True, gc=False):
    """A part of what these jobs give has been handed on: another attempt would give it twice, so there is none."""

    jobs: list[int]


class WorkerJoined(msgspec.Struct, frozen=True, gc=False):
    """A worker connected. Its number is new with each connection: that is its incarnation to the mind."""

    worker: int
    name: str
    offer: Allocation


class WorkerLost(msgspec.Struct, frozen=True, gc=False):
    """The connection to a worker is gone, or it has been silent for too long."""

    worker: int
    reason: str


class WorkerSuspected(msgspec.Struct, frozen=True, gc=False):
    """A worker's link has broken, or it is silent: it keeps what it has, and gets nothing new until it is heard again.

    `broke` says that it was the link.
    """

    worker: int
    broke: bool = False


class WorkerHeard(msgspec.Struct, frozen=True, gc=False):
    """A worker that was under suspicion is heard again, the same incarnation."""

    worker: int


class WorkerLeaving(msgspec.Struct, frozen=True, gc=False):
    """A worker says that it stops: it gets no more jobs, and those that it still holds when it goes are not lost."""

    worker: int


class WorkerDrained(msgspec.Struct, frozen=True, gc=False):
    """A worker was asked to end when what runs there has: it gets no more jobs, and what has not begun comes back."""

    worker: int


class StartsPaused(msgspec.Struct, frozen=True, gc=False):
    """No job is to be assigned for now, because of `why`; without a reason jobs are assigned again."""

    why: str


class WorkerReported(msgspec.Struct, frozen=True, gc=False):
    """A `Report` came: leases begun, then attempts ended, then leases ended, then who waits and who goes on."""

    worker: int
    started: list[LeaseStart]
    completed: list[Completed]
    ended: list[int]
    waits: list[LeaseWait] = []


HeadEvent = (
    FunctionDefined
    | FunctionsDropped
    | FunctionTimed
    | JobsSubmitted
    | JobsCancelled
    | JobsCommitted
    | WorkerJoined
    | WorkerHeard
    | WorkerLeaving
    | WorkerDrained
    | WorkerLost
    | WorkerReported
    | WorkerSuspected
    | StartsPaused
    | Ticked
)


# --- actions of the head's mind --------------------------------------------------------------------------------------


class AssembleGang(msgspec.Struct, frozen=True, gc=False):
    """Ask each of these workers, the leader first, to hold slots of one shape for a job; see `wire.Hold`."""

    cls: int
    job: int
    attempt: int
    workers: list[int]


class AssignJobs(msgspec.Struct, frozen=True, gc=False):
    """Send these jobs of one shape to a worker; see `wire.Assign`.

    `gang`: where the one job has its slots, if it is a gang's: worker and allocation of each node, the leader first.
    """

    worker: int
    cls: int
    ahead: bool
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    hard_s: float | None = None
    gang: tuple[tuple[int, str], ...] = ()


class RetractJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a worker to give back jobs that have not started."""

    worker: int
    jobs: list[int]
    attempts: list[int]


class CancelJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a worker to stop jobs that nobody wants."""

    worker: int
    jobs: list[int]
    attempts: list[int]


class JobsStarted(msgspec.Struct, frozen=True, gc=False):
    """A worker granted a lease to jobs; `rows` are the positions in `start.jobs` that still count."""

    worker: int
    start: LeaseStart
    rows: list[int]


class JobsSettled(msgspec.Struct, frozen=True, gc=False):
    """Final outcomes: `rows` are the positions in `completed` that count; others are stale, cancelled or retried."""

    worker: int
    completed: Completed
    rows: list[int]


class JobsLost(msgspec.Struct, frozen=True, gc=False):
    """Jobs that died with their runner or worker too many times."""

    jobs: list[int]
    worker: int
    reason: str
    losses: int


class WorkerQuarantined(msgspec.Struct, frozen=True, gc=False):
    """A worker gets no new jobs for a while, for it fails again and again; `why` in words."""

    worker: int
    why: str


class WorkerReleased(msgspec.Struct, frozen=True, gc=False):
    """A worker's quarantine is over."""

    worker: int


class JobsBackedOff(msgspec.Struct, frozen=True, gc=False):
    """Jobs have failed or were lost, and wait for so many seconds until they are tried again."""

    jobs: list[int]
    seconds: float


class JobsRequeued(msgspec.Struct, frozen=True, gc=False):
    """Jobs that ran are back in the queue: their worker was lost, or they are tried again at once."""

    jobs: list[int]


class JobsUnsatisfiable(msgspec.Struct, frozen=True, gc=False):
    """Jobs that no worker of a closed set can ever run; `missing` is None where amounts would do, not the layout."""

    jobs: list[int]
    missing: Missing | None


class JobsPending(msgspec.Struct, frozen=True, gc=False):
    """A warning, once per request class: no worker that is here could run these jobs. `job` is the oldest of them."""

    request: Request
    job: int
    waiting: int
    missing: Missing | None


class JobsDeadlocked(msgspec.Struct, frozen=True, gc=False):
    """Jobs wait for each other, and for what they hold. The youngest that can never start is failed for it, unless this
    is only a warning, for a worker that joins might help.
    """

    deadlock: Deadlock
    failed: bool


class JobsOrphaned(msgspec.Struct, frozen=True, gc=False):
    """The attempt that submitted these has ended, or had when they came: nobody wants them."""

    jobs: list[int]


class ShapesForgotten(msgspec.Struct, frozen=True, gc=False):
    """No job uses these shapes any more, and none will by these numbers: workers may drop them."""

    shapes: list[int]


class JobsMoved(msgspec.Struct, frozen=True, gc=False):
    """A job that lent its cores goes on, on this allocation."""

    job: int
    allocation: str


HeadAction = (
    AssembleGang
    | AssignJobs
    | RetractJobs
    | CancelJobs
    | JobsStarted
    | JobsSettled
    | JobsLost
    | JobsBackedOff
    | JobsRequeued
    | WorkerQuarantined
    | WorkerReleased
    | JobsUnsatisfiable
    | JobsPending
    | JobsDeadlocked
    | JobsOrphaned
    | JobsMoved
    | ShapesForgotten
    | WakeAt
)


# --- events of the node's mind ---------------------------------------------------------------------------------------


class RunnerCompleted(msgspec.Struct, frozen=True, gc=False):
    """A runner says how jobs ended."""

    runner: int
    completed: Completed


class RunnerAnswered(msgspec.Struct, frozen=True, gc=False):
    """The shared runner has heard of a stop: its event loop turns."""

    runner: int


class RunnerReady(msgspec.Struct, frozen=True, gc=False):
    """A runner's process is up, and about to begin its first job: one that many share says so of any, another of one
    that may run for so long only."""

    runner: int


class RunnerRenewed(msgspec.Struct, frozen=True, gc=False):
    """A runner's process was used up before it began its lease, and its successor, which has the lease, is to start."""

    runner: int


class RunnerGone(msgspec.Struct, frozen=True, gc=False):
    """A runner's process is gone, with its children. `started` is the run-list position that it last claimed.

    `never_ran` says that it never did anything, be it for a job's sake or the node's; `never_spawned` that there never
    was a process.

    In a runner that many jobs share, `stepping` is the job whose step was on; 0 where none was, or nobody knows.
    """

    runner: int
    how: str
    started: int
    stepping: int = 0
    never_ran: bool = False
    never_spawned: bool = False


class BarrierHeld(msgspec.Struct, frozen=True, gc=False):
    """A barrier has been in force long enough: nothing of the run-list behind `started` has begun or will."""

    runner: int
    lease: int
    started: int


class JobAwaits(msgspec.Struct, frozen=True, gc=False):
    """A job waits for jobs that it submitted, and has had `heard` outcomes of them so far."""

    runner: int
    job: int
    attempt: int
    heard: int


class JobGoesOn(msgspec.Struct, frozen=True, gc=False):
    """What a job awaited is there: it goes on as soon as it is told to (`ResumeJob`)."""

    runner: int
    job: int
    attempt: int
    heard: int


class NodeStopped(msgspec.Struct, frozen=True, gc=False):
    """The node was told to stop: nothing starts any more, what runs is ended."""


class CoresTaken(msgspec.Struct, frozen=True, gc=False):
    """Others on the machine use these cores now, a mask: leases get others, as long as there are enough."""

    cores: int


NodeEvent = (
    Define
    | Undefine
    | Assign
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


# --- actions of the node's mind --------------------------------------------------------------------------------------


class SpawnRunner(msgspec.Struct, frozen=True, gc=False):
    """Start a runner process; it may be given leases at once."""

    runner: int
    kind: RunnerKind


class StartLease(msgspec.Struct, frozen=True, gc=False):
    """Give a runner a lease; see `wire.Run`."""

    runner: int
    lease: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    deadlines: list[float | None]
    limit: float | None


class StopJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a runner to cancel jobs inside itself."""

    runner: int
    jobs: list[int]


class RaiseBarrier(msgspec.Struct, frozen=True, gc=False):
    """Keep a runner from starting more of its run-list, then answer with `BarrierHeld`."""

    runner: int
    lease: int


class TerminateRunner(msgspec.Struct, frozen=True, gc=False):
    """SIGTERM: what runs gets its `finally`."""

    runner: int


class KillRunner(msgspec.Struct, frozen=True, gc=False):
    """SIGKILL, to the runner and its children."""

    runner: int


class RunnerRetired(msgspec.Struct, frozen=True, gc=False):
    """Jobs of these functions ignore that they were stopped: they keep their slots, and their runner gets no more."""

    runner: int
    fns: list[int]


class ResumeJob(msgspec.Struct, frozen=True, gc=False):
    """Let a job that awaited go on, on this allocation."""

    runner: int
    job: int
    attempt: int
    allocation: str


class TellStarted(msgspec.Struct, frozen=True, gc=False):
    """Tell the head that a lease began."""

    start: LeaseStart


class TellHeld(msgspec.Struct, frozen=True, gc=False):
    """Tell the head that slots are held for a gang."""

    start: LeaseStart


class TellCompleted(msgspec.Struct, frozen=True, gc=False):
    """Tell the head how attempts ended. `forwarded`: the buffers of the event that caused it go with it."""

    completed: Completed
    forwarded: bool


class TellEnded(msgspec.Struct, frozen=True, gc=False):
    """Tell the head that a lease's slots are free."""

    lease: int


class TellWaits(msgspec.Struct, frozen=True, gc=False):
    """Tell the head that the job of a lease waits, or goes on, and what of the lease is lent."""

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

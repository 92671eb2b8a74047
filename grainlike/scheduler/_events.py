"""Events and actions of the head scheduler: plain frozen data, with `wire` messages where they cross the network."""

from __future__ import annotations

import msgspec

from grainlike.resources import Allocation, Missing, Request
from grainlike.scheduler._value_events import ValueAction, ValueEvent
from grainlike.wire import Completed, LeaseStart, LeaseWait, Need

__all__ = [
    "AHEAD_QUICK_S",
    "MAX_LOSSES",
    "AssembleGang",
    "AssignJobs",
    "CancelJobs",
    "Deadlock",
    "FunctionDefined",
    "FunctionTimed",
    "FunctionsDropped",
    "HeadAction",
    "HeadEvent",
    "Holder",
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
    "ReleaseWorker",
    "RetractJobs",
    "ShapesForgotten",
    "StartsPaused",
    "Ticked",
    "WakeAt",
    "WorkerDrained",
    "WorkerEvent",
    "WorkerHeard",
    "WorkerJoined",
    "WorkerLeaving",
    "WorkerLost",
    "WorkerQuarantined",
    "WorkerReleased",
    "WorkerReported",
    "WorkerStored",
    "WorkerSuspected",
    "WorkerTimed",
]


AHEAD_QUICK_S = 0.25
"""Mean run time in seconds above which a function's jobs are not sent ahead: a round trip is negligible for them, also
one that waits behind those of a hundred other slots.
"""

MAX_LOSSES = 3
"""Deaths of its runner or worker after which a running job is given up, if its function sets no other number."""


class Ticked(msgspec.Struct, frozen=True, gc=False):
    """Time has passed: the moment of the last `WakeAt` has come."""


class WakeAt(msgspec.Struct, frozen=True, gc=False):
    """Send `Ticked` at this moment (on the clock of `now`), if nothing else happens before."""

    at: float


# --- events ----------------------------------------------------------------------------------------------------------


class FunctionDefined(msgspec.Struct, frozen=True, gc=False):
    """A function got its number, and the policy by which its jobs are tried again.

    `retries`: how many times a failed job is tried again; `on_timeout`: whether also after a timeout. `losses`: how
    many deaths of its runner or worker a job survives. `backoff`: how long a job waits before the next attempt: first
    seconds, factor, most. `quick_s`: mean run time in seconds up to which its jobs are sent ahead; for those that take
    longer, a round trip is negligible.
    """

    fn: int
    retries: int = 0
    losses: int = MAX_LOSSES - 1
    backoff: tuple[float, float, float] | None = None
    on_timeout: bool = True
    quick_s: float = AHEAD_QUICK_S


class FunctionsDropped(msgspec.Struct, frozen=True, gc=False):
    """These functions have no live job and will get none: their records are dropped."""

    fns: list[int]


class FunctionTimed(msgspec.Struct, frozen=True, gc=False):
    """Run times, in seconds, of calls of a function that were not jobs of their own."""

    fn: int
    walls: list[float]


class JobsSubmitted(msgspec.Struct, frozen=True, gc=False):
    """New jobs with ascending numbers, all with the same request.

    `parent` is the job that submitted them, with its attempt, from a worker; (0, 0) where the user's program did.
    `more` announces another event of this moment: these jobs are planned with those. `ages` are the numbers of the
    oldest jobs that each needs, itself or by way of others, ended or not: it goes when those would. 0 for a job that
    needs none; empty if none needs any. `sizes` are the bytes of the jobs' arguments, 0 where they are small; empty if
    all are. `inputs`: the values that each job needs (`_value_events`); empty if none needs any.
    """

    request: Request
    jobs: list[int]
    fns: list[int]
    priority: int = 0
    isolate: bool = False
    client: int = 0
    parent: tuple[int, int] = (0, 0)
    more: bool = False
    ages: list[int] = []
    sizes: list[int] = []
    inputs: tuple[tuple[int, ...], ...] = ()


class JobsCancelled(msgspec.Struct, frozen=True, gc=False):
    """Cancellation of jobs. Unknown and finished jobs are ignored."""

    jobs: list[int]


class JobsCommitted(msgspec.Struct, frozen=True, gc=False):
    """Items of these jobs' streams have been passed on: another attempt would give them twice, so there is none."""

    jobs: list[int]


class WorkerJoined(msgspec.Struct, frozen=True, gc=False):
    """A worker connected. Each connection has a new number, so a worker that comes back after a loss is a new one.

    `left_s`: seconds in which it can run jobs; negative if it was not said. `has_data`: others can get
    its values from its data server. `store` and `scratch`: bytes of values that it may keep in shared memory and on
    disk; a negative `store` if it was not said.
    """

    worker: int
    name: str
    offer: Allocation
    left_s: float = -1.0
    has_data: bool = False
    store: int = -1
    scratch: int = 0


class WorkerStored(msgspec.Struct, frozen=True, gc=False):
    """A worker keeps `over` bytes of values beyond what it may; `lost`: it writes no more of them to disk."""

    worker: int
    over: int = 0
    lost: bool = False


class WorkerTimed(msgspec.Struct, frozen=True, gc=False):
    """A worker can run jobs for `left_s` more seconds, whatever was said before."""

    worker: int
    left_s: float


class WorkerLost(msgspec.Struct, frozen=True, gc=False):
    """The connection to a worker is gone, or it has been silent for too long."""

    worker: int
    reason: str


class WorkerSuspected(msgspec.Struct, frozen=True, gc=False):
    """A worker's link has broken, or the worker is silent: it keeps its jobs, and gets no new ones until
    `WorkerHeard`.

    `broke`: the reason is the link.
    """

    worker: int
    broke: bool = False


class WorkerHeard(msgspec.Struct, frozen=True, gc=False):
    """A suspected worker has sent something again, under the same number."""

    worker: int


class WorkerLeaving(msgspec.Struct, frozen=True, gc=False):
    """A worker has announced that it stops: it gets no more jobs, and those that it holds do not count as lost."""

    worker: int


class WorkerDrained(msgspec.Struct, frozen=True, gc=False):
    """A worker is to stop once its running jobs have ended: it gets no more jobs; those not begun come back. Answered
    by `ReleaseWorker`.
    """

    worker: int


class StartsPaused(msgspec.Struct, frozen=True, gc=False):
    """No job is to be assigned for now, because of `why`; with an empty `why` jobs are assigned again."""

    why: str


class WorkerReported(msgspec.Struct, frozen=True, gc=False):
    """A `Report` of a worker: leases begun, then attempts ended, then leases ended, then waits for jobs' own jobs."""

    worker: int
    started: list[LeaseStart]
    completed: list[Completed]
    ended: list[int]
    waits: list[LeaseWait] = []


WorkerEvent = WorkerJoined | WorkerHeard | WorkerLeaving | WorkerDrained | WorkerStored | WorkerSuspected | WorkerTimed
"""Events of a worker as a whole, but for its end."""

HeadEvent = (
    FunctionDefined
    | FunctionsDropped
    | FunctionTimed
    | JobsSubmitted
    | JobsCancelled
    | JobsCommitted
    | WorkerEvent
    | WorkerLost
    | WorkerReported
    | StartsPaused
    | Ticked
    | ValueEvent
)


# --- actions ---------------------------------------------------------------------------------------------------------


class AssembleGang(msgspec.Struct, frozen=True, gc=False):
    """Ask each of these workers, the leader first, to hold slots of one shape for a job; see `wire.Hold`."""

    cls: int
    job: int
    attempt: int
    workers: list[int]


class AssignJobs(msgspec.Struct, frozen=True, gc=False):
    """Send these jobs of one shape to a worker; see `wire.Assign`.

    `gang`: where the one job has its slots, if it is a gang's: worker and allocation of each node, the leader first.
    `needs` and `ages`: as in `wire.Assign`.
    """

    worker: int
    cls: int
    ahead: bool
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    hard_s: float | None = None
    gang: tuple[tuple[int, str], ...] = ()
    memory: tuple[int, ...] = ()
    ages: tuple[int, ...] = ()
    needs: tuple[list[Need], ...] = ()


class RetractJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a worker to give back jobs that have not started."""

    worker: int
    jobs: list[int]
    attempts: list[int]


class CancelJobs(msgspec.Struct, frozen=True, gc=False):
    """Ask a worker to stop cancelled jobs, or to release the slots that it holds for them."""

    worker: int
    jobs: list[int]
    attempts: list[int]


class JobsStarted(msgspec.Struct, frozen=True, gc=False):
    """A worker granted a lease to jobs; `rows` are the positions in `start.jobs` that still count."""

    worker: int
    start: LeaseStart
    rows: list[int]


class JobsSettled(msgspec.Struct, frozen=True, gc=False):
    """Final outcomes: `rows` are positions in `completed` that count; the others are stale, cancelled or retried."""

    worker: int
    completed: Completed
    rows: list[int]


class JobsLost(msgspec.Struct, frozen=True, gc=False):
    """Jobs whose runner or worker died under them too many times."""

    jobs: list[int]
    worker: int
    reason: str
    losses: int


class ReleaseWorker(msgspec.Struct, frozen=True, gc=False):
    """Tell a drained worker to stop: its jobs have ended, and what only it had of values is elsewhere, or cannot get
    there in time.
    """

    worker: int


class WorkerQuarantined(msgspec.Struct, frozen=True, gc=False):
    """A worker gets no new jobs for a while, because it has failed repeatedly; `why` says how, in words."""

    worker: int
    why: str


class WorkerReleased(msgspec.Struct, frozen=True, gc=False):
    """A worker's quarantine is over."""

    worker: int


class JobsBackedOff(msgspec.Struct, frozen=True, gc=False):
    """Jobs have failed or were lost, and wait for `seconds` before they are tried again."""

    jobs: list[int]
    seconds: float


class JobsRequeued(msgspec.Struct, frozen=True, gc=False):
    """Jobs that ran are back in the queue: their worker was lost, or they are tried again at once."""

    jobs: list[int]


class JobsUnsatisfiable(msgspec.Struct, frozen=True, gc=False):
    """Jobs that no worker of a closed set can ever run; `missing` is None if only the layout cannot be given."""

    jobs: list[int]
    missing: Missing | None


class JobsPending(msgspec.Struct, frozen=True, gc=False):
    """A warning, once per request class: no connected worker could ever run these jobs. `job` is the oldest of them."""

    request: Request
    job: int
    waiting: int
    missing: Missing | None


class Holder(msgspec.Struct, frozen=True):
    """A job that waits: what it holds meanwhile, and the numbers of the jobs that it waits for."""

    job: int
    worker: str
    held: str
    waits_for: tuple[int, ...]


class Deadlock(msgspec.Struct, frozen=True):
    """A job that can never start, though it would fit on an empty worker; the jobs of `holders` hold what it needs."""

    job: int
    request: Request
    holders: tuple[Holder, ...]


class JobsDeadlocked(msgspec.Struct, frozen=True, gc=False):
    """Jobs wait for each other, and for resources that they hold. The youngest that can never start fails, unless
    `failed` is False: this is a warning then, as a worker that joins might help.
    """

    deadlock: Deadlock
    failed: bool


class JobsOrphaned(msgspec.Struct, frozen=True, gc=False):
    """The attempt that submitted these jobs has ended, or had when they arrived: they are cancelled."""

    jobs: list[int]


class ShapesForgotten(msgspec.Struct, frozen=True, gc=False):
    """No job uses these shapes any more, and their numbers are not given again: workers may drop them."""

    shapes: list[int]


class JobsMoved(msgspec.Struct, frozen=True, gc=False):
    """A job that lent its cores continues on this allocation."""

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
    | ReleaseWorker
    | ValueAction
)

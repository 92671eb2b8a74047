"""The closed union of messages. What is not named here does not exist on the wire.

Messages are *columns*: one `Assign` carries many jobs as parallel lists, because a batch must cost one write and one
decoding however many jobs it holds. Job, lease, class and function are named by small integers that the head (or, for
leases, the worker) hands out; an attempt number travels with each job, so that a late answer is recognised.

Times are seconds on the sender's monotonic clock, made comparable by the `sent_at` of the message around them.
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

__all__ = [
    "Assign",
    "Beat",
    "Cancel",
    "Challenge",
    "ClassSpec",
    "Code",
    "Completed",
    "Define",
    "FunctionSpec",
    "Hello",
    "LeaseStart",
    "Leaving",
    "Message",
    "Proof",
    "ReceiptSpec",
    "Refused",
    "Report",
    "Retract",
    "Run",
    "Setup",
    "Stop",
    "Welcome",
]


class Code(IntEnum):
    """How one attempt of a job ended on its worker."""

    SUCCEEDED = 0  # its parcel is the value
    FAILED = 1  # its parcel is the exception
    CANCELLED = 2  # stopped because somebody asked for it
    TIMED_OUT = 3  # stopped because it ran past its function's `timeout`
    RETURNED = 4  # never started; the same attempt may be assigned again
    CRASHED = 5  # its runner died while the job may have been running; `details` says how
    STOPPED = 6  # ended because its worker was told to stop; another attempt may be made, and nothing counts as lost
    OUT_OF_MEMORY = 7  # failed for want of memory; its parcel is the exception
    UNFIT = 8  # never started, and never will here: the node cannot lay it out as it was asked for


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What all messages share: fixed, positional, never collected by the garbage collector."""


# --- the handshake ---------------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag=1):
    """The dialling end introduces itself. Nothing in it is believed before `Proof`."""

    role: str
    nonce: bytes
    protocol_low: int
    protocol_high: int
    python: str
    serializers: dict[str, str]
    name: str
    incarnation: str
    pid: int
    offer: str
    logical: list[int]


class Challenge(_Message, frozen=True, tag=2):
    """The listening end proves that it knows the secret, and asks for the same."""

    nonce: bytes
    proof: bytes


class Proof(_Message, frozen=True, tag=3):
    """The dialling end's answer to a `Challenge`."""

    proof: bytes


class Welcome(_Message, frozen=True, tag=4):
    """The worker is connected from here on.

    `paths` are the client's import paths, for its runners. `name` is what the worker is called from now on: another may
    have come with the name that it wished for.
    """

    cluster: str
    heartbeat_s: float
    paths: list[str]
    name: str


class Refused(_Message, frozen=True, tag=5):
    """The listening end will not have this peer; `kind` names the exception class, `reason` both sides and the fix."""

    kind: str
    reason: str


# --- head to worker --------------------------------------------------------------------------------------------------


class FunctionSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One function, shipped once per worker: its serialized form is the frame's buffer of the same index."""

    fn: int
    digest: bytes
    name: str
    is_async: bool
    timeout: float | None


class ClassSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request class: `request` is the canonical text of the resources that each of its jobs needs."""

    cls: int
    request: str
    isolate: bool


class Define(_Message, frozen=True, tag=10):
    """Functions and request classes that later messages name by number."""

    functions: list[FunctionSpec]
    classes: list[ClassSpec]


class Assign(_Message, frozen=True, tag=11):
    """Jobs of one class for this worker.

    A planned job (`ahead` false) fits by the head's books and starts before any job sent ahead; one sent ahead waits
    at the worker so that the next job starts without a round trip. `data` and `counts` are packed parcels. `hard_s` is
    how long each job may run at most.
    """

    cls: int
    ahead: bool
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    data: list[bytes]
    counts: list[int]
    hard_s: float | None = None


class Cancel(_Message, frozen=True, tag=12):
    """Stop these attempts, started or not; each is answered by a `Completed` once its slots are free."""

    jobs: list[int]
    attempts: list[int]


class Retract(_Message, frozen=True, tag=13):
    """Give back those of these attempts that have not started (`Code.RETURNED`); the others run on."""

    jobs: list[int]
    attempts: list[int]


class Beat(_Message, frozen=True, tag=14):
    """A heartbeat, both ways. Any message proves life; this one is for links that have nothing else to say."""

    number: int


# --- worker to head, runner to worker --------------------------------------------------------------------------------


class ReceiptSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was enforced, read back by system calls in the process of the jobs."""

    pid: int
    affinity: list[int]
    threads: dict[str, int]
    devices: list[int]
    memory_tier: str


class LeaseStart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A lease began: these jobs run one after another on this allocation."""

    lease: int
    cls: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    at: float


class Completed(_Message, frozen=True, tag=20):
    """How attempts ended, in columns. `lease` is 0 for jobs that were never part of one.

    `awaited` says that a coroutine of the batch suspended, which keeps its function out of run-lists. `details` maps a
    job to words for its error (a signal's name, say). `receipt` comes with the first `Completed` of a lease.
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
    details: dict[int, str] = {}


class Report(_Message, frozen=True, tag=21):
    """What happened on a worker since its last report: leases begun, attempts ended, leases ended, in that order."""

    sent_at: float
    started: list[LeaseStart]
    completed: list[Completed]
    ended: list[int]


class Leaving(_Message, frozen=True, tag=22):
    """The worker was told to stop: it takes no more jobs, ends those it has, reports them, and hangs up."""

    reason: str


# --- worker to runner ------------------------------------------------------------------------------------------------


class Setup(_Message, frozen=True, tag=30):
    """The first message to a runner: whom it works for and where its imports are found."""

    instance: str
    paths: list[str]


class Run(_Message, frozen=True, tag=31):
    """A lease for a runner: run these jobs one after another on `allocation`."""

    lease: int
    allocation: str
    jobs: list[int]
    attempts: list[int]
    fns: list[int]
    deadlines: list[float | None]
    data: list[bytes]
    counts: list[int]


class Stop(_Message, frozen=True, tag=32):
    """Cancel these jobs inside a runner."""

    jobs: list[int]


Message = (
    Hello
    | Challenge
    | Proof
    | Welcome
    | Refused
    | Define
    | Assign
    | Cancel
    | Retract
    | Beat
    | Completed
    | Report
    | Leaving
    | Setup
    | Run
    | Stop
)

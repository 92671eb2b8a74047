"""The closed union of messages. What is not named here does not exist on the wire.

Messages are *columns*: one `Assign` carries many jobs as parallel lists, because a batch must cost one write and one
decoding however many jobs it holds. Job, lease, class and function are named by small integers that the head (or, for
leases, the worker) hands out; an attempt number travels with each job, so that a late answer is recognised.

Times are seconds on the sender's monotonic clock, made comparable by the `sent_at` of the message around them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

import msgspec

from grainlike.wire._questions import FromClient, ToClient

__all__ = [
    "Ack",
    "Assign",
    "Awaits",
    "Beat",
    "Blocked",
    "Cancel",
    "ClassSpec",
    "Code",
    "Completed",
    "Credit",
    "Define",
    "Depart",
    "Follow",
    "FunctionSpec",
    "Gang",
    "GoesOn",
    "Goodbye",
    "Hello",
    "Hold",
    "Items",
    "LeaseStart",
    "LeaseWait",
    "Leaving",
    "Message",
    "Nested",
    "NestedFunction",
    "NodeSpec",
    "Outcomes",
    "Output",
    "OutputStream",
    "Ready",
    "ReceiptSpec",
    "Refused",
    "Renew",
    "Report",
    "Resumed",
    "Retract",
    "RetrySpec",
    "Run",
    "Setup",
    "Stop",
    "Wait",
    "Welcome",
    "Withdraw",
]


_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


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
    UNSTARTED = 9  # never started: no process could be started for it; `details` says why
    UNFIT = 8  # never started, and never will here: the node cannot lay it out as it was asked for


class Wait(IntEnum):
    """What the job of a lease waits for."""

    NOTHING = 0  # it runs, on cores of its own
    CHILDREN = 1  # it awaits jobs that it submitted
    CORES = 2  # what it awaited is there, and it wants the cores back that it lent


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What all messages share: fixed, positional, never collected by the garbage collector."""


# --- the handshake ---------------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag=1, forbid_unknown_fields=False):
    """The dialling end introduces itself. `memory` names the shared memory that it can map, if any, and `process` the
    process that it is to others of its machine; `memory_tier` says what holds a worker's jobs to theirs.

    With `received`, its side of the conversation outlives a link that breaks (`Transcript`): it may dial anew, with
    `resumes` and how many messages have come to it so far. -1 is for who does not do that.

    A client that names a `session` leaves its jobs to that, and gets what is there.

    A later protocol may add fields at the end: who speaks it must be understood well enough to be refused by name.
    """

    role: str
    protocol_low: int
    protocol_high: int
    python: str
    serializers: dict[str, str]
    name: str
    incarnation: str
    pid: int
    offer: str
    logical: list[int]
    memory: str = ""
    memory_tier: str = "none"
    process: str = ""
    received: int = -1
    resumes: bool = False
    session: str = ""


class Welcome(_Message, frozen=True, tag=4):
    """The worker, or client, is connected from here on.

    `paths` are the client's import paths, for its runners. `name` is what the worker is called from now on: another may
    have come with the name that it wished for. `store` is the directory of the head's shared memory, for those who can
    map it. `process` is the head's, and `received` how many messages have come from one that goes on; -1 where a link
    that breaks is the end. `returns`: when this process has died, another may go on with all that it knew.
    """

    cluster: str
    heartbeat_s: float
    paths: list[str]
    name: str
    store: str = ""
    process: str = ""
    received: int = -1
    returns: bool = False


class Refused(_Message, frozen=True, tag=5):
    """The listening end will not have this peer; `kind` names the exception class, `reason` both sides and the fix."""

    kind: str
    reason: str


# --- head to worker --------------------------------------------------------------------------------------------------


class FunctionSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One function, shipped once per worker: its serialized form is the frame's buffer of the same index.

    With `many`, one job of it stands for many calls: its one argument is a list of packed arguments. With `keep`, its
    jobs lend no cores while they await. `paths` are imports that it needs beside those of `Setup`. `on` holds the
    exception types after which a job is tried again, serialized; empty for all. `on_memory`: whether that is so where
    its process was killed for want of memory."""

    fn: int
    digest: bytes
    name: str
    is_async: bool
    timeout: float | None
    many: bool = False
    keep: bool = False
    paths: tuple[str, ...] = ()
    on: bytes = b""
    on_memory: bool = True


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


class Depart(_Message, frozen=True, tag=112):
    """Head to worker: end, once the jobs that are there have ended; with `kill`, end them, as if told to stop."""

    kill: bool


class Beat(_Message, frozen=True, tag=14):
    """A heartbeat, both ways. Any message proves life; this one is for links that have nothing else to say."""

    number: int


class Ack(_Message, frozen=True, tag=15):
    """So many messages of yours have come, in all: whoever keeps them for the case that the link breaks need not any
    more.
    """

    received: int


class Goodbye(_Message, frozen=True, tag=16):
    """The last word: whoever says it ends the conversation, and will not go on with it on another link."""

    reason: str


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


class LeaseWait(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The job of a lease begins to wait, or goes on.

    `waits` is a `Wait`. `heard` is how many outcomes of its own jobs it had got by then: who has sent more knows that
    it will not wait for long. `lent` says that its cores are not its own now, `allocation` what it holds.
    """

    lease: int
    job: int
    attempt: int
    waits: int
    heard: int
    lent: bool
    allocation: str


class Completed(_Message, frozen=True, tag=20):
    """How attempts ended, in columns. `lease` is 0 for jobs that were never part of one.

    `awaited` says that a coroutine of the batch suspended, which keeps its function out of run-lists. `details` maps a
    job to words for its error (a signal's name, say). `receipt` comes with the first `Completed` of a lease. `unborn`
    says that its runner died before it had done anything. `final` names the jobs that failed by an exception after
    which their function is not to be tried again."""

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
    final: list[int] = []
    unborn: bool = False


class Report(_Message, frozen=True, tag=21):
    """What happened on a worker since its last report: leases begun, attempts ended, leases ended, in that order."""

    sent_at: float
    started: list[LeaseStart]
    completed: list[Completed]
    ended: list[int]
    waits: list[LeaseWait] = []


class Leaving(_Message, frozen=True, tag=22):
    """The worker was told to stop: it takes no more jobs, ends those it has, reports them, and hangs up."""

    reason: str


# --- worker to runner ------------------------------------------------------------------------------------------------


class Setup(_Message, frozen=True, tag=30):
    """The first message to a runner: whom it works for, where its imports are, and the worker's context module.

    `store` is the directory of shared memory where large results go.
    """

    instance: str
    paths: list[str]
    context: str = ""
    store: str = ""


class Run(_Message, frozen=True, tag=31):
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


class Stop(_Message, frozen=True, tag=32):
    """Cancel these jobs inside a runner."""

    jobs: list[int]


# --- gangs: jobs on several workers at once --------------------------------------------------------------------------


class Hold(_Message, frozen=True, tag=33):
    """Head to worker: keep slots of this class for gangs, which are named by their jobs and attempts.

    Each is answered by a `LeaseStart` when its ids are granted; nothing runs on them. At the worker that leads the gang
    an `Assign` of the same job and attempt then starts the job on them. A `Cancel` ends a hold anywhere, which a
    `Completed` answers, and the end of its lease if it had one.
    """

    cls: int
    jobs: list[int]
    attempts: list[int]


class NodeSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a gang has on one worker: the worker's name, the address of its host, its slots as text."""

    name: str
    host: str
    allocation: str


class Gang(_Message, frozen=True, tag=34):
    """Head to the leading worker, and on to the runner: where the job that comes next has its slots, the leader first.

    `hostfile` is the path of the file that names the hosts; the worker adds it.
    """

    job: int
    attempt: int
    nodes: list[NodeSpec]
    hostfile: str = ""


# --- jobs that await -------------------------------------------------------------------------------------------------


class RetrySpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """When a job of a function is tried again: how often after failures and after losses, how long it waits before
    (first seconds, factor, most), and after which exceptions: see `FunctionSpec`.
    """

    times: Annotated[int, msgspec.Meta(ge=0)] = 0
    losses: Annotated[int, msgspec.Meta(ge=0)] = 2
    backoff: tuple[_Seconds, Annotated[float, msgspec.Meta(ge=1)], _Seconds] | None = None
    on: bytes = b""
    on_timeout: bool = True
    on_memory: bool = True


class NestedFunction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function that a job calls on workers. With `here`, its serialized form comes with the message: the first time
    that its runner sends it. After that the head knows it by its digest.
    """

    digest: bytes
    name: str
    is_async: bool
    timeout: float | None
    retry: RetrySpec
    many: bool
    keep: bool
    here: bool


class Nested(_Message, frozen=True, tag=40):
    """From a running job to the head: run these for it, all asking for the same.

    `children` are numbers that the job gives, `fns` positions in `functions`. The frame's buffers are the functions
    that are `here`, then those of the arguments, in `data` and `counts`, which nobody opens on the way. `names` is
    empty, or says under which name the outcome of each call is kept in the client's session; empty for none.
    """

    parent: int
    attempt: int
    request: str
    priority: int
    isolate: bool
    functions: list[NestedFunction]
    children: list[int]
    fns: list[int]
    data: list[bytes]
    counts: list[int]
    names: list[str] = []


class Withdraw(_Message, frozen=True, tag=41):
    """From a running job to the head: it does not want these of its children any more."""

    parent: int
    attempt: int
    children: list[int]


class Awaits(_Message, frozen=True, tag=42):
    """From a runner to its worker: the job waits for children of its own, and has had `heard` outcomes so far."""

    job: int
    attempt: int
    heard: int


class GoesOn(_Message, frozen=True, tag=43):
    """From a runner to its worker: what the job awaited is there; it goes on when `Resumed` comes."""

    job: int
    attempt: int
    heard: int


class Resumed(_Message, frozen=True, tag=44):
    """From a worker to its runner: the job may go on, on this allocation."""

    job: int
    attempt: int
    allocation: str


class Outcomes(_Message, frozen=True, tag=45):
    """From the head to a running job: how children of it ended, in columns.

    `good` says whether a parcel is a value or an exception. `workers`, `slots` and `attempts` are where each ran last;
    empty and 0 for one that never did.
    """

    parent: int
    attempt: int
    children: list[int]
    good: list[bool]
    workers: list[str]
    slots: list[str]
    attempts: list[int]
    wall: list[float]
    cpu: list[float]
    rss: list[int]
    receipts: list[ReceiptSpec | None]
    data: list[bytes]
    counts: list[int]


# --- streams: runner to worker to head, and back ---------------------------------------------------------------------


class Items(_Message, frozen=True, tag=50):
    """What the generator of a stream yielded, in order, after what came before. `data` and `counts` are packed parcels.

    A sender keeps to its `Window`. All items of an attempt come before the `Completed` that ends it.
    """

    job: int
    attempt: int
    data: list[bytes]
    counts: list[int]


class Credit(_Message, frozen=True, tag=51):
    """The reader of a stream took so many items, of so many bytes together: as many more may come."""

    job: int
    attempt: int
    items: int
    size: int


# --- output ----------------------------------------------------------------------------------------------------------


class OutputStream(IntEnum):
    """Where a piece of output was written."""

    STDOUT = 0
    STDERR = 1
    NOTE = 2  # by nobody: words about the output, such as how much of it is left out
    RUNNER = 3  # in the job's process, which it shared with others: whose it is nobody can tell


class Follow(_Message, frozen=True, tag=60):
    """Head to worker: tell a follower what this job has written and writes, all its attempts; `on` false: no more."""

    job: int
    follower: int
    on: bool


class Output(_Message, frozen=True, tag=61):
    """Runner to worker, worker to head: pieces of what an attempt wrote, in order; `streams` has an `OutputStream`
    for each.

    Everything that a job wrote comes before the `Report` of its end. With a `follower`, it is what was written before
    that one's `Follow`, and `caught_up` says that this is all of it; without, it is for those who have caught up.
    `last_words`: nobody asked, but the attempt ended with its process.
    """

    job: int
    attempt: int
    streams: list[int]
    data: list[bytes]
    follower: int = 0
    caught_up: bool = False
    last_words: bool = False


class Blocked(_Message, frozen=True, tag=62):
    """Worker to head: a job blocks the event loop that it shares, for so long now; 0: it does no longer."""

    job: int
    seconds: float
    stack: str


# --- runner to worker: its process ----------------------------------------------------------------------------------


class Renew(_Message, frozen=True, tag=70):
    """The process of this runner is used up: what it says after this is its last, and what it was told and has not
    begun is for its successor."""


class Ready(_Message, frozen=True, tag=71):
    """This process is about to begin its first job that has a limit: until now its start took time, which is not the
    job's."""


Message = (
    Hello
    | Welcome
    | Refused
    | Define
    | Assign
    | Cancel
    | Retract
    | Depart
    | Beat
    | Ack
    | Goodbye
    | Completed
    | Report
    | Leaving
    | Setup
    | Run
    | Stop
    | Hold
    | Gang
    | Nested
    | Withdraw
    | Awaits
    | GoesOn
    | Resumed
    | Outcomes
    | Items
    | Credit
    | Follow
    | Output
    | Blocked
    | Renew
    | Ready
    | FromClient
    | ToClient
)

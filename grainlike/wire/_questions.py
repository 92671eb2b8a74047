"""What a client may ask a head, and what it is told. `ask` is the client's number for a question; answers carry it.

A client may also submit: `Submit` and `Withdraw` with parent 0, answered by `Outcomes`. See `_nested`. In a named
session it first hears what is there: `SessionIs`, once or more often, then `Began` and `Outcomes` of what has a name.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._nested import AskOutcome, OutcomeIs

__all__ = [
    "MOST_ROWS",
    "Answer",
    "AskCancel",
    "AskDepart",
    "AskHead",
    "AskJob",
    "AskJobs",
    "AskLogs",
    "AskReport",
    "AskSessions",
    "AskStop",
    "AskTrace",
    "AskWanted",
    "AskWorkers",
    "Began",
    "Done",
    "EndSessions",
    "EnoughLogs",
    "Forget",
    "FromClient",
    "HeadIs",
    "ImportsFrom",
    "JobIs",
    "JobRow",
    "JobsAre",
    "LogsAre",
    "Matched",
    "Numbered",
    "Question",
    "ReportIs",
    "SessionIs",
    "SessionRow",
    "SessionsAre",
    "SpanRow",
    "ToClient",
    "TraceIs",
    "Unable",
    "WantedIs",
    "Warned",
    "WorkerRow",
    "WorkersAre",
]

MOST_ROWS = 10_000
"""The most jobs in one answer, whatever was asked for: it has to fit well into a frame."""


# --- questions -------------------------------------------------------------------------------------------------------


class AskHead(BaseMessage, frozen=True, tag=80):
    """Who are you, and how much is there?"""

    ask: int


class AskWorkers(BaseMessage, frozen=True, tag=81):
    """Which workers are there?"""

    ask: int


class AskJobs(BaseMessage, frozen=True, tag=82):
    """Which jobs have not ended? The oldest, and at most so many."""

    ask: int
    most: int


class AskJob(BaseMessage, frozen=True, tag=83):
    """Where does this job stand, and what does it wait for?"""

    ask: int
    job: int


class AskCancel(BaseMessage, frozen=True, tag=84):
    """Cancel this job, for everybody who waits for it."""

    ask: int
    job: int


class AskDepart(BaseMessage, frozen=True, tag=110):
    """Let the workers go whose names match one of these patterns, as of a shell; with `kill`, without their jobs."""

    ask: int
    patterns: list[str]
    kill: bool


class AskLogs(BaseMessage, frozen=True, tag=85):
    """What has this job written? With `follow`, also what it writes until it has ended.

    Answered by any number of `LogsAre`. One that has ended is known to its workers for a while.
    """

    ask: int
    job: int
    follow: bool


class EnoughLogs(BaseMessage, frozen=True, tag=86):
    """Nobody listens to the answer to that question any more. It has no answer."""

    ask: int


class AskStop(BaseMessage, frozen=True, tag=87):
    """End, cancelling what still runs. A head that lives in somebody's program does not."""

    ask: int


class AskWanted(BaseMessage, frozen=True, tag=113):
    """How many more workers with this offer would help? At most `most`, if short jobs may wait for so many seconds."""

    ask: int
    offer: str
    most: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    within_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class AskSessions(BaseMessage, frozen=True, tag=115):
    """Which named sessions are there?"""

    ask: int


class EndSessions(BaseMessage, frozen=True, tag=116):
    """Cancel what runs in these sessions, whoever has them, and forget what is kept in them. It has no answer."""

    sessions: list[str]


class Forget(BaseMessage, frozen=True, tag=117):
    """Keep nothing under these names any more; calls that still run go on without a name. It has no answer."""

    names: list[str]


class ImportsFrom(BaseMessage, frozen=True, tag=88):
    """Where the client's program imports from: the functions that it submits from now on need these paths."""

    paths: list[str]


class AskReport(BaseMessage, frozen=True, tag=100):
    """How have jobs ended so far?"""

    ask: int


class AskTrace(BaseMessage, frozen=True, tag=101):
    """What ran where and when, as far as you recorded it? Answered by any number of `TraceIs`."""

    ask: int


# --- answers ---------------------------------------------------------------------------------------------------------


class HeadIs(BaseMessage, frozen=True, tag=90):
    """The head in figures. `jobs` counts those that have not ended, by state; see `JobRow`. `journal`: whether what is
    told to it outlives it, in words; empty where it does not.
    """

    ask: int
    cluster: str
    version: str
    python: str
    pid: int
    up_s: float
    workers: int
    clients: int
    jobs: dict[str, int]
    journal: str = ""


class WorkerRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One worker, as `WorkerInfo` describes it; `resources` is text."""

    name: str
    resources: str
    logical: list[int]
    pid: int
    running: int
    beats: int
    silent_s: float
    memory_tier: str = "none"
    shut: str = ""
    shared: list[int] = []


class WorkersAre(BaseMessage, frozen=True, tag=91):
    """The workers, in the order in which they came."""

    ask: int
    workers: list[WorkerRow]


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One job that has not ended.

    `state` is `queued` (at the head), `assigned` (at a worker, not begun), `running`, or `stopping` (cancelled, and not
    gone yet). `worker` and `allocation` are empty where it has none, `running_s` is None until it runs. `client` is the
    number of the client that it came from, 0 for the head's own program; `program` is what that is called, or its
    session, and `named` the name that the call has there.
    """

    job: int
    name: str
    state: str
    request: str
    priority: int
    client: int
    attempt: int
    worker: str
    allocation: str
    running_s: float | None
    program: str = ""
    named: str = ""


class JobsAre(BaseMessage, frozen=True, tag=92):
    """The oldest jobs; `total` counts all."""

    ask: int
    jobs: list[JobRow]
    total: int


class JobIs(BaseMessage, frozen=True, tag=93):
    """Where a job stands: the parts of an `Explanation`, and `words`, which say it in a sentence or two."""

    ask: int
    job: int
    name: str
    state: str
    attempt: int
    request: str
    reason: str
    words: str
    worker: str | None
    before: int
    nearest: str | None
    holders: list[int]
    starts_in_s: float | None
    would_start_with: str | None
    members: list[str]
    lacking: int


class SessionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One named session. `client` is its number, as in `JobRow`; `jobs` counts those that have not ended, `names` the
    calls that have one, `outcomes` and `kept_bytes` what is kept of them. `attached` is the program that has it now,
    empty for none. `limit_bytes` is how much all sessions together may keep.
    """

    name: str
    client: int
    jobs: int
    names: int
    outcomes: int
    kept_bytes: int
    since_s: float
    attached: str
    limit_bytes: int = 0


class SessionsAre(BaseMessage, frozen=True, tag=118):
    """The named sessions, in the order in which they were opened."""

    ask: int
    sessions: list[SessionRow]


class SessionIs(BaseMessage, frozen=True, tag=119):
    """What has a name in the client's session, in columns; `last_child` is the highest number that a call has had.

    `functions` are names, `requests` text, `jobs` the numbers of the jobs. `apart` is how many bytes an outcome has
    that is kept and told only to who asks for it, by `AskOutcome`; -1 for all others.
    """

    last_child: int
    names: list[str]
    children: list[int]
    jobs: list[int]
    functions: list[str]
    requests: list[str]
    apart: list[int] = msgspec.field(default_factory=list)


class LogsAre(BaseMessage, frozen=True, tag=96):
    """Lines that a job has written, in columns; see `LogLine`. After `end` come no more."""

    ask: int
    lines: list[str]
    attempts: list[int]
    streams: list[str]
    end: bool


class Numbered(BaseMessage, frozen=True, tag=97):
    """The numbers of the jobs that were made of a client's `Submit`, in columns."""

    children: list[int]
    jobs: list[int]


class Warned(BaseMessage, frozen=True, tag=120):
    """What a client's program should know of its jobs, as that nobody is there who could run some."""

    words: str


class Began(BaseMessage, frozen=True, tag=98):
    """Jobs that a client submitted run now, or are back in the queue (`worker` is empty), in columns."""

    children: list[int]
    attempts: list[int]
    workers: list[str]
    slots: list[str]


class Matched(BaseMessage, frozen=True, tag=111):
    """The names of the workers that were meant."""

    ask: int
    workers: list[str]


class WantedIs(BaseMessage, frozen=True, tag=114):
    """So many more workers would help."""

    ask: int
    workers: int


class ReportIs(BaseMessage, frozen=True, tag=102):
    """How many jobs have ended how, as `Totals` counts them, with its seconds.

    `unended` counts those that have not ended.
    """

    ask: int
    succeeded: int
    failed: int
    skipped: int
    timed_out: int
    cancelled: int
    total_seconds: float
    run_seconds: float
    unended: int


class SpanRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One attempt as it ran, on the head's own clock; a call of the head's program has no slots, and job 0.

    `key` is what other rows call it by in their `needs`: those whose values it was given.
    """

    name: str
    worker: str
    slots: str
    began: float
    ended: float
    status: str
    job: int
    attempt: int
    key: int
    needs: list[int]


class TraceIs(BaseMessage, frozen=True, tag=103):
    """Some of what ran, and some moments with how many jobs waited and ran from then on. After `end` come no more."""

    ask: int
    spans: list[SpanRow]
    depths: list[tuple[float, int, int]]
    end: bool


class Done(BaseMessage, frozen=True, tag=94):
    """It is done, or has begun and cannot fail any more."""

    ask: int


class Unable(BaseMessage, frozen=True, tag=95):
    """It can not be; `why` says so in a sentence."""

    ask: int
    why: str


Question = (
    AskHead
    | AskWorkers
    | AskJobs
    | AskJob
    | AskCancel
    | AskDepart
    | AskLogs
    | EnoughLogs
    | AskStop
    | AskWanted
    | AskSessions
    | AskReport
    | AskTrace
    | AskOutcome
)
FromClient = Question | ImportsFrom | Forget | EndSessions
Answer = (
    HeadIs
    | WorkersAre
    | JobsAre
    | JobIs
    | LogsAre
    | Matched
    | WantedIs
    | SessionsAre
    | ReportIs
    | TraceIs
    | OutcomeIs
    | Done
    | Unable
)
ToClient = Answer | Numbered | Began | Warned | SessionIs

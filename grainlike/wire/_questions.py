"""Requests of a client to the head, and their answers. `ask` is the client's number of a request, which answers
carry.

A client also submits jobs: `Submit` and `Withdraw` with parent 0, answered by `Outcomes`; see `_nested`. In a named
session it first receives what is there: `SessionIs`, once or more often, then `Began` and `Outcomes` of named calls.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._fleet import (
    AskBlockFile,
    AskDown,
    AskEndBlock,
    AskFleet,
    AskPause,
    AskScale,
    AskUp,
    BlockFileIs,
    FleetIs,
    LaunchRefused,
    UpIs,
)
from grainlike.wire._history import AskHistory, EndedJob, HistoryIs
from grainlike.wire._live import AskLimits, AskLive, AskQueue, LimitsAre, LiveIs, QueueIs
from grainlike.wire._metrics import AskMetrics, MetricsAre
from grainlike.wire._nested import AskOutcome, OutcomeIs
from grainlike.wire._rows import BaseAnswer, JobRow, LostWorkerRow, WorkerRow
from grainlike.wire._totals import Totals

__all__ = [
    "MOST_NAMES",
    "MOST_ROWS",
    "Answer",
    "AskCancel",
    "AskDepart",
    "AskHead",
    "AskJob",
    "AskJobs",
    "AskLogs",
    "AskNamed",
    "AskReport",
    "AskSessions",
    "AskStop",
    "AskTrace",
    "AskWanted",
    "AskWorkers",
    "Began",
    "Done",
    "EndSessions",
    "Enough",
    "Forget",
    "FromClient",
    "HeadIs",
    "ImportsFrom",
    "JobIs",
    "JobsAre",
    "LogsAre",
    "Matched",
    "NamedAre",
    "NamedRow",
    "Notice",
    "Numbered",
    "Question",
    "ReportIs",
    "SessionIs",
    "SessionRow",
    "SessionsAre",
    "SpanRow",
    "StoresAre",
    "ToClient",
    "TraceIs",
    "Unable",
    "WantedIs",
    "Warned",
    "WorkersAre",
]

MOST_NAMES = 10_000
"""Most calls of one session that may have a name."""

MOST_ROWS = 10_000
"""The most jobs in one answer, whatever was asked for, so that it fits well into a frame."""


# --- questions -------------------------------------------------------------------------------------------------------


class AskHead(BaseMessage, frozen=True, tag=80):
    """Ask for the head's identity and totals; answered by `HeadIs`."""

    ask: int


class AskWorkers(BaseMessage, frozen=True, tag=81):
    """Ask for the workers; answered by `WorkersAre`."""

    ask: int


class AskJobs(BaseMessage, frozen=True, tag=82):
    """Ask for the jobs that have not ended, the oldest first, at most `most`; answered by `JobsAre`.

    With `name`, those whose names match this shell pattern; with `state`, those in this one, as in `JobRow`; with
    `parent`, those that this job submitted. `after` is the `next` of the answer before, 0 for the first.
    """

    ask: int
    most: int
    name: str = ""
    state: Annotated[str, msgspec.Meta(max_length=20)] = ""
    after: int = 0
    parent: int = 0


class AskJob(BaseMessage, frozen=True, tag=83):
    """Ask for the state of a job and what it waits for; answered by `JobIs`."""

    ask: int
    job: int


class AskCancel(BaseMessage, frozen=True, tag=84):
    """Cancel this job, for all that wait for it."""

    ask: int
    job: int


class AskDepart(BaseMessage, frozen=True, tag=110):
    """Drain the workers whose names match one of these shell patterns; with `kill`, end their jobs. Answered by
    `Matched`.
    """

    ask: int
    patterns: list[str]
    kill: bool


class AskLogs(BaseMessage, frozen=True, tag=85):
    """Ask for what this job has written; with `follow`, also for what it writes until it has ended.

    Answered by any number of `LogsAre`. Workers keep the ends of the output of the last attempts that have ended.
    """

    ask: int
    job: int
    follow: bool


class Enough(BaseMessage, frozen=True, tag=86):
    """Stop the answers to an `AskLogs` or `AskLive`. Not answered."""

    ask: int


class AskStop(BaseMessage, frozen=True, tag=87):
    """Stop the head. One with a journal leaves its work to the next where sessions have any; else, and with `forget`,
    what still runs is cancelled, and sessions are dropped. A head inside a user's program refuses.
    """

    ask: int
    forget: bool = False


class AskWanted(BaseMessage, frozen=True, tag=113):
    """Ask how many more workers with this offer would help: at most `most`, if short jobs may wait for `within_s`
    seconds.
    """

    ask: int
    offer: str
    most: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    within_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class AskSessions(BaseMessage, frozen=True, tag=115):
    """Ask for the named sessions; answered by `SessionsAre`."""

    ask: int


class EndSessions(BaseMessage, frozen=True, tag=116):
    """Cancel the jobs of these sessions, attached or not, and drop what is kept in them. Not answered."""

    sessions: list[str]


class Forget(BaseMessage, frozen=True, tag=117):
    """Drop what is kept under these names; calls that still run continue without a name. Not answered."""

    names: list[str]


class ImportsFrom(BaseMessage, frozen=True, tag=88):
    """Import paths of the client's program, which functions need that it submits from now on."""

    paths: list[str]


class AskReport(BaseMessage, frozen=True, tag=100):
    """Ask for the totals of ended jobs; answered by `ReportIs`."""

    ask: int


class AskTrace(BaseMessage, frozen=True, tag=101):
    """Ask for the recorded trace: what ran where and when. Answered by any number of `TraceIs`."""

    ask: int


# --- answers ---------------------------------------------------------------------------------------------------------


class HeadIs(BaseAnswer, frozen=True, tag=90):
    """The head in figures. `jobs` counts the jobs that have not ended, by state; see `JobRow`. `journal` says in words
    whether the head's state outlives it, "kept" or "not kept" and why, and `directory` where that is; both are empty if
    it does not. `ends_process`: its process ends with it, and is no program of a user's that goes on. `lost`: the last
    workers that this process has lost, the latest first. `serializers`: their versions, by name.
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
    directory: str = ""
    ends_process: bool = True
    lost: list[LostWorkerRow] = msgspec.field(default_factory=list)
    serializers: dict[str, str] = msgspec.field(default_factory=dict)


class WorkersAre(BaseAnswer, frozen=True, tag=91):
    """The workers, in the order in which they came."""

    ask: int
    workers: list[WorkerRow]


class StoresAre(BaseAnswer, frozen=True, tag=199):
    """Head to client: what workers keep of values now, in columns, as in `WorkerRow`; those that are not named keep
    nothing. As `WorkersAre`, it is not sent again after a break; no client asks for it, so `ask` is 0.
    """

    ask: int
    workers: list[str]
    stored: list[int]
    spilled: list[int]
    scratch_lost: list[str]


class JobsAre(BaseAnswer, frozen=True, tag=92):
    """The oldest jobs that were asked for; `total` counts all that have not ended. `next` is where the next answer
    begins, 0 where there are no more.
    """

    ask: int
    jobs: list[JobRow]
    total: int
    next: int = 0


class JobIs(BaseAnswer, frozen=True, tag=93):
    """The state of a job: the parts of an `Explanation`, and `words`, its text."""

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
    pools: str = ""
    halted: str = ""


class SessionRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A named session. `client` is its number, as in `JobRow`. `jobs` counts the jobs that have not ended, `names` the
    named calls, `outcomes` and `kept_bytes` what is kept of them. `attached` is the program that uses it now, empty for
    none. `limit_bytes` is how much all sessions together may keep.
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


class SessionsAre(BaseAnswer, frozen=True, tag=118):
    """The named sessions, in the order in which they were opened."""

    ask: int
    sessions: list[SessionRow]


class SessionIs(BaseMessage, frozen=True, tag=119):
    """Named calls of the client's session, in columns; `last_child` is the highest number that a call has had.

    `functions` are names, `requests` text, `jobs` the numbers of the jobs. `apart` is the size in bytes of an outcome
    that is sent only on request (`AskOutcome`); -1 for all others.
    """

    last_child: int
    names: list[str]
    children: list[int]
    jobs: list[int]
    functions: list[str]
    requests: list[str]
    apart: list[int] = msgspec.field(default_factory=list)


class AskNamed(BaseMessage, frozen=True, tag=200):
    """Ask for the named calls of a session, or for those with these names; answered by `NamedAre`. `after` is the
    `next` of the answer before, 0 for the first.
    """

    ask: int
    session: str
    names: list[str] = msgspec.field(default_factory=list)
    after: int = 0


class NamedRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A named call: `state` is that of a placeholder. `job` is the number of its job, 0 for none yet.

    `live` is its job that has not ended, `ended` that which has, as the head remembers it, `ended_s` seconds ago.
    `size` is how many bytes its value has, -1 for none, and `where` are the workers at which that stays.
    """

    name: str
    function: str
    state: str
    job: int
    live: JobRow | None = None
    ended: EndedJob | None = None
    ended_s: float = 0.0
    size: int = -1
    where: list[str] = []


class NamedAre(BaseAnswer, frozen=True, tag=201):
    """Named calls of a session; none where there is no such session. `next` is where the next answer begins, 0 where
    there are no more.
    """

    ask: int
    calls: list[NamedRow]
    next: int = 0


class LogsAre(BaseAnswer, frozen=True, tag=96):
    """Lines that a job has written, in columns; see `LogLine`. With `end`, the last ones."""

    ask: int
    lines: list[str]
    attempts: list[int]
    streams: list[str]
    end: bool


class Numbered(BaseMessage, frozen=True, tag=97):
    """Numbers of the jobs that were made of a client's `Submit`, in columns."""

    children: list[int]
    jobs: list[int]


class Warned(BaseMessage, frozen=True, tag=120):
    """A warning about a client's jobs, such as that no worker could run some of them; `child` is one of these."""

    words: str
    child: int = 0


class Notice(BaseMessage, frozen=True, tag=202):
    """A warning as `Warned`, for a reason that no journal has, such as a full disk; `child` is 0 if it is about no
    call. It belongs to its link, and is never resent.
    """

    words: str
    child: int = 0


class Began(BaseMessage, frozen=True, tag=98):
    """Jobs that a client submitted have started, or are back in the queue (`worker` is empty), in columns.

    `ran` says for how many seconds each runs already; empty where they start now.
    """

    children: list[int]
    attempts: list[int]
    workers: list[str]
    slots: list[str]
    ran: list[float] = msgspec.field(default_factory=list)


class Matched(BaseAnswer, frozen=True, tag=111):
    """Names of the workers that matched."""

    ask: int
    workers: list[str]


class WantedIs(BaseAnswer, frozen=True, tag=114):
    """Number of further workers that would help."""

    ask: int
    workers: int


class ReportIs(BaseAnswer, frozen=True, tag=102):
    """Totals of ended jobs by outcome; `unended` counts those that have not ended."""

    ask: int
    totals: Totals
    unended: int


class SpanRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An attempt that ran, on the head's own clock; a call in the head's program has no slots, and job 0.

    `key` identifies it in the `needs` of other rows: the rows whose values it was given. With a `lane` it is bytes that
    came to the worker (`in`), left it (`out`) or were written to its disk (`disk`), with `details` about them.
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
    lane: str = ""
    details: dict[str, str | int] = msgspec.field(default_factory=dict)


class TraceIs(BaseAnswer, frozen=True, tag=103):
    """A part of the trace: spans, and moments with the number of jobs that waited and ran from then on. With `end`, the
    last part.
    """

    ask: int
    spans: list[SpanRow]
    depths: list[tuple[float, int, int]]
    end: bool


class Done(BaseAnswer, frozen=True, tag=94):
    """The request was carried out, or is under way and cannot fail any more."""

    ask: int


class Unable(BaseAnswer, frozen=True, tag=95):
    """The request was refused; `why` is a sentence."""

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
    | Enough
    | AskStop
    | AskWanted
    | AskSessions
    | AskNamed
    | AskReport
    | AskTrace
    | AskOutcome
    | AskUp
    | AskBlockFile
    | AskScale
    | AskDown
    | AskPause
    | AskEndBlock
    | AskFleet
    | AskHistory
    | AskLive
    | AskQueue
    | AskMetrics
    | AskLimits
)
FromClient = Question | ImportsFrom | Forget | EndSessions
Answer = (
    HeadIs
    | WorkersAre
    | StoresAre
    | JobsAre
    | JobIs
    | LogsAre
    | Matched
    | WantedIs
    | SessionsAre
    | NamedAre
    | ReportIs
    | TraceIs
    | OutcomeIs
    | UpIs
    | BlockFileIs
    | LaunchRefused
    | FleetIs
    | HistoryIs
    | LiveIs
    | QueueIs
    | MetricsAre
    | LimitsAre
    | Done
    | Unable
)
ToClient = Answer | Numbered | Began | Warned | Notice | SessionIs

"""What a client may ask a head, and what it is told. `ask` is the client's number for a question; answers carry it.

A client may also submit: `Nested` and `Withdraw` with parent 0, answered by `Outcomes`. See `_messages`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = [
    "MOST_ROWS",
    "Answer",
    "AskCancel",
    "AskDepart",
    "AskHead",
    "AskJob",
    "AskJobs",
    "AskLogs",
    "AskStop",
    "AskWanted",
    "AskWorkers",
    "Began",
    "Done",
    "EnoughLogs",
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
    "ToClient",
    "Unable",
    "WantedIs",
    "WorkerRow",
    "WorkersAre",
]

MOST_ROWS = 10_000
"""The most jobs in one answer, whatever was asked for: it has to fit well into a frame."""


class _Message(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """As those of `_messages`: fixed, positional, never collected by the garbage collector."""


# --- questions -------------------------------------------------------------------------------------------------------


class AskHead(_Message, frozen=True, tag=80):
    """Who are you, and how much is there?"""

    ask: int


class AskWorkers(_Message, frozen=True, tag=81):
    """Which workers are there?"""

    ask: int


class AskJobs(_Message, frozen=True, tag=82):
    """Which jobs have not ended? The oldest, and at most so many."""

    ask: int
    most: int


class AskJob(_Message, frozen=True, tag=83):
    """Where does this job stand, and what does it wait for?"""

    ask: int
    job: int


class AskCancel(_Message, frozen=True, tag=84):
    """Cancel this job, for everybody who waits for it."""

    ask: int
    job: int


class AskDepart(_Message, frozen=True, tag=110):
    """Let the workers go whose names match one of these patterns, as of a shell; with `kill`, without their jobs."""

    ask: int
    patterns: list[str]
    kill: bool


class AskLogs(_Message, frozen=True, tag=85):
    """What has this job written? With `follow`, also what it writes until it has ended.

    Answered by any number of `LogsAre`. One that has ended is known to its workers for a while.
    """

    ask: int
    job: int
    follow: bool


class EnoughLogs(_Message, frozen=True, tag=86):
    """Nobody listens to the answer to that question any more. It has no answer."""

    ask: int


class AskStop(_Message, frozen=True, tag=87):
    """End, cancelling what still runs. A head that lives in somebody's program does not."""

    ask: int


class AskWanted(_Message, frozen=True, tag=113):
    """How many more workers with this offer would help? At most `most`, if short jobs may wait for so many seconds."""

    ask: int
    offer: str
    most: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    within_s: Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class ImportsFrom(_Message, frozen=True, tag=88):
    """Where the client's program imports from: the functions that it submits from now on need these paths."""

    paths: list[str]


# --- answers ---------------------------------------------------------------------------------------------------------


class HeadIs(_Message, frozen=True, tag=90):
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


class WorkersAre(_Message, frozen=True, tag=91):
    """The workers, in the order in which they came."""

    ask: int
    workers: list[WorkerRow]


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One job that has not ended.

    `state` is `queued` (at the head), `assigned` (at a worker, not begun), `running`, or `stopping` (cancelled, and not
    gone yet). `worker` and `allocation` are empty where it has none, `running_s` is None until it runs. `client` is the
    number of the client that it came from, 0 for the head's own program.
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


class JobsAre(_Message, frozen=True, tag=92):
    """The oldest jobs; `total` counts all."""

    ask: int
    jobs: list[JobRow]
    total: int


class JobIs(_Message, frozen=True, tag=93):
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


class LogsAre(_Message, frozen=True, tag=96):
    """Lines that a job has written, in columns; see `LogLine`. After `end` come no more."""

    ask: int
    lines: list[str]
    attempts: list[int]
    streams: list[str]
    end: bool


class Numbered(_Message, frozen=True, tag=97):
    """The numbers of the jobs that were made of a client's `Nested`, in columns."""

    children: list[int]
    jobs: list[int]


class Began(_Message, frozen=True, tag=98):
    """Jobs that a client submitted run now, or are back in the queue (`worker` is empty), in columns."""

    children: list[int]
    attempts: list[int]
    workers: list[str]
    slots: list[str]


class Matched(_Message, frozen=True, tag=111):
    """The names of the workers that were meant."""

    ask: int
    workers: list[str]


class WantedIs(_Message, frozen=True, tag=114):
    """So many more workers would help."""

    ask: int
    workers: int


class Done(_Message, frozen=True, tag=94):
    """It is done, or has begun and cannot fail any more."""

    ask: int


class Unable(_Message, frozen=True, tag=95):
    """It can not be; `why` says so in a sentence."""

    ask: int
    why: str


Question = AskHead | AskWorkers | AskJobs | AskJob | AskCancel | AskDepart | AskLogs | EnoughLogs | AskStop | AskWanted
FromClient = Question | ImportsFrom
Answer = HeadIs | WorkersAre | JobsAre | JobIs | LogsAre | Matched | WantedIs | Done | Unable
ToClient = Answer | Numbered | Began

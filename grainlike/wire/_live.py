"""Live view of a head: what has changed since the last update, a few times a second, for programs that show it.

An update says what is so at one moment. A job that began and ended between two moments is in the totals alone, so an
update is bounded by the workers' slots, however many jobs run through them.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._rows import BaseAnswer, WorkerRow
from grainlike.wire._totals import Totals

__all__ = [
    "LEAST_EVERY_S",
    "AskLimits",
    "AskLive",
    "AskQueue",
    "LimitRow",
    "LimitsAre",
    "LiveIs",
    "QueueIs",
    "QueueRow",
    "RunningRow",
]

LEAST_EVERY_S = 0.1
"""Shortest time in seconds between two updates to one viewer."""


class AskLive(BaseMessage, frozen=True, tag=140):
    """Follow what is so now: answered by a `LiveIs` at once, and then by one whenever something has changed, at most
    every `every_s` seconds, until an `Enough`. A busy head sends them less often.
    """

    ask: int
    every_s: Annotated[float, msgspec.Meta(ge=LEAST_EVERY_S, le=3600)]


class RunningRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that runs on a worker, or holds slots there for a gang that runs on another.

    `began` is when it began, as `time.time()` has it at the head; None while it is not known. `client` and `program`
    are as in `JobRow`.
    """

    job: int
    worker: str
    slots: str
    name: str
    attempt: int
    began: float | None
    client: int
    program: str


class LiveIs(BaseAnswer, frozen=True, tag=141):
    """An update of a live view.

    Attributes:
        at: its moment, as `time.time()` has it at the head.
        up_s: seconds for which the head has been up.
        full: it replaces all that was known before, as the first one does, and the one after a lost link.
        more: another message follows at once that belongs to the same moment.
        jobs: number of jobs that have not ended, by state, as in `HeadIs`.
        totals: how jobs have ended since the head was first started.
        clients: number of clients that are connected.
        workers: workers that have joined or changed.
        left: names of workers that are not here any more.
        began: jobs that run now, and did not at the moment before.
        ended: those that do not any more: numbers of jobs, and names of their workers, in columns.
    """

    ask: int
    at: float
    up_s: float
    full: bool
    more: bool
    jobs: dict[str, int]
    totals: Totals
    clients: int
    workers: list[WorkerRow]
    left: list[str]
    began: list[RunningRow]
    ended: tuple[list[int], list[str]]


class AskQueue(BaseMessage, frozen=True, tag=142):
    """Ask what waits, and why: at most `most` groups of alike jobs, the largest first; answered by `QueueIs`."""

    ask: int
    most: Annotated[int, msgspec.Meta(ge=1, le=100)]


class QueueRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Jobs of one client that wait at the head with the same request and priority.

    Attributes:
        job: the number of the one that is next.
        name: the name of its function; others of the group may be of another.
        count: how many they are.
        request: what each asks for.
        priority: their priority.
        client: as in `JobRow`.
        program: as in `JobRow`.
        reason: one word for what holds up the next one, as in `JobIs`.
        words: the same as a sentence or two.
    """

    job: int
    name: str
    count: int
    request: str
    priority: int
    client: int
    program: str
    reason: str
    words: str


class QueueIs(BaseAnswer, frozen=True, tag=143):
    """The largest groups of jobs that wait; `groups` counts all groups, `waiting` all jobs in them."""

    ask: int
    rows: list[QueueRow]
    groups: int
    waiting: int


class AskLimits(BaseMessage, frozen=True, tag=145):
    """Ask for the limits and rates of all requests that the head has jobs of; answered by `LimitsAre`."""

    ask: int


class LimitRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A limit or a rate, as some requests give it; another row has the same name where others give another amount.

    Attributes:
        kind: `limit` or `rate`.
        name: its name.
        most: jobs that may run at once, or start per second.
        running: jobs under a limit that run now; 0 for a rate.
        waiting: jobs in the queue whose requests give it.
        next_in_s: seconds until a rate lets the next job start; 0 for a limit, and for a rate that lets one start now.
    """

    kind: str
    name: str
    most: float
    running: int
    waiting: int
    next_in_s: float


class LimitsAre(BaseAnswer, frozen=True, tag=146):
    """Limits and rates, by kind and name."""

    ask: int
    rows: list[LimitRow]

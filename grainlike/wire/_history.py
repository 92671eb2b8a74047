"""Ended jobs: a client's question for them, and the head's answer, page by page."""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage

__all__ = [
    "KEPT_JOBS",
    "OUTCOMES",
    "PATTERN_CHARS",
    "AskHistory",
    "EndedJob",
    "HistoryIs",
    "checked_pattern",
]

KEPT_JOBS = 100_000
"""Number of ended jobs that a head remembers."""

OUTCOMES = ("succeeded", "failed", "timed_out", "cancelled", "skipped")
"""Outcomes of jobs."""

PATTERN_CHARS = 200
"""Most characters of a shell pattern for names: a head that compares many names does nothing else meanwhile."""

_Outcome = Annotated[str, msgspec.Meta(max_length=20)]


class EndedJob(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that has ended, as the head remembers it. `executor.history()` gives them, the latest first.

    Attributes:
        job: its number.
        name: the name of its function.
        outcome: `"succeeded"`, `"failed"`, `"timed_out"`, `"cancelled"`, or `"skipped"` for one that never started, as
            its graph had failed.
        error: type and first line of its exception, shortened; empty for one without.
        worker: the worker that had it last; empty where none had.
        request: what it asked for, as `parse` reads it; of jobs that a worker told of together, that of the first, from
            which others may differ by a few percent of memory. Empty if the head does not know.
        slots: what it held there, in the notation of allocations; empty where it held nothing.
        attempts: how often it was sent to a worker to run.
        client: the number of the client that it came from, 0 for the head's own program.
        program: the name of that client, or of its session.
        parent: the number of the job that submitted it, 0 for none.
        queued_s: seconds from its submission until its last attempt began, or it ended without one; None if the head
            does not know when it was submitted.
        ran_s: seconds that its last attempt ran; None if it did not run.
        cpu_s: CPU seconds of that attempt, with its children; 0 where its worker could not tell.
        peak_memory: bytes of memory that it had at most; 0 where its worker could not tell.
        ended_at: when it ended, as `time.time()` has it.
        coroutine: True for a call of a coroutine function, which shares its process with others: `peak_memory` is that
            process's, since it began.
    """

    job: int
    name: str
    outcome: str
    error: str
    worker: str
    request: str
    slots: str
    attempts: int
    client: int
    program: str
    parent: int
    queued_s: float | None
    ran_s: float | None
    cpu_s: float
    peak_memory: int
    ended_at: float
    coroutine: bool = False

    def __str__(self) -> str:
        times = "" if self.ran_s is None else f" after {self.ran_s:.3g} s"
        where = f" on worker {self.worker} in attempt {self.attempts}" if self.worker else ""
        why = f": {self.error}" if self.error else ""
        return f"{self.name} {self.outcome.replace('_', ' ')}{times}{where}{why}"


class AskHistory(BaseMessage, frozen=True, tag=134):
    """Ask for jobs that have ended, the latest first, at most `most` in one answer; answered by `HistoryIs`.

    With `name`, those whose names match this shell pattern; with `outcomes`, those that ended so; none before `since`,
    as `time.time()` has it; with `parent`, those that this job submitted; with `job`, that one alone. `before` is that
    of the page before, 0 for the first.
    """

    ask: int
    most: int
    name: str = ""
    outcomes: Annotated[list[_Outcome], msgspec.Meta(max_length=16)] = msgspec.field(default_factory=list)
    since: float = 0.0
    before: int = 0
    job: int = 0
    parent: int = 0


class HistoryIs(BaseMessage, frozen=True, tag=135):
    """A page of ended jobs. `before` is where the next one begins, 0 after the last; `kept` counts all that the head
    has.
    """

    ask: int
    jobs: list[EndedJob]
    before: int
    kept: int


def checked_pattern(name: str | None) -> str:
    """Return a shell pattern for names as questions have it: empty, where there is none.

    Raises:
        ValueError: it is longer than heads take.
    """
    if name is not None and len(name) > PATTERN_CHARS:
        raise ValueError(f"a pattern has at most {PATTERN_CHARS} characters; this has {len(name):,}")
    return name or ""

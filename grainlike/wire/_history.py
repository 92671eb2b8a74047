"""Ended jobs: a client's question for them, and the head's answer, page by page."""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._rows import BaseAnswer

__all__ = [
    "KEPT_JOBS",
    "OUTCOMES",
    "PATTERN_CHARS",
    "AskHistory",
    "EndedAttempt",
    "EndedJob",
    "HistoryIs",
    "ReceiptRow",
    "checked_pattern",
]

KEPT_JOBS = 100_000
"""Number of ended jobs that a head remembers."""

OUTCOMES = ("succeeded", "failed", "timed_out", "cancelled", "skipped")
"""Outcomes of jobs."""

PATTERN_CHARS = 200
"""Most characters of a shell pattern for names: a head that compares many names does nothing else meanwhile."""

_Outcome = Annotated[str, msgspec.Meta(max_length=20)]


class EndedAttempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An attempt of a job that was followed by another one.

    Attributes:
        attempt: its number, 1 for the first.
        worker: the worker that had it.
        slots: what it held there, in the notation of allocations.
        outcome: `"failed"`, `"timed_out"`, `"out_of_memory"`, `"stopped"`, `"lost"` with its worker, or `"succeeded"`
            where its large value was lost later. If its process died, `"crashed"`, or `"unbegun"` if the job had not
            begun; if none could be started, `"unstarted"`.
        error: type and first line of its exception, or why it was lost, shortened; empty where nothing is known.
        began_at: when it began, as `time.time()` has it.
        ran_s: seconds that it ran.
    """

    attempt: int
    worker: str
    slots: str
    outcome: str
    error: str
    began_at: float
    ran_s: float

    def __str__(self) -> str:
        why = f": {self.error}" if self.error else ""
        return f"attempt {self.attempt} on worker {self.worker} {self.outcome.replace('_', ' ')}{why}"


class ReceiptRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Limits that were enforced on a job, read back by system calls inside it: the fields of `Receipt`.

    Attributes:
        affinity: ids of the cores that it could run on, ascending.
        threads: the width of each thread pool, by the pool's name.
        devices: ids of the devices that it could see, ascending.
        memory_tier: what held it to its memory: `cgroup`, `watchdog` or `none`.
    """

    affinity: list[int]
    threads: dict[str, int]
    devices: list[int]
    memory_tier: str


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
        peak_memory: bytes of memory that it had at most; 0 where its worker could not tell, as of a coroutine.
        ended_at: when it ended, as `time.time()` has it.
        coroutine: True for a call of a coroutine function, which shares its process, and so its memory, with others.
        receipt: what was enforced on its last attempt, as its process read it back; None where no process reported
            one, as of a job that was cancelled, and where the head has forgotten it.
        earlier: the attempts before the last one, the first of them first: at most the latest 8. Empty for a job that
            was tried once.
        named: the name that the call had in its session when it ended; empty for none.
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
    receipt: ReceiptRow | None = None
    earlier: list[EndedAttempt] = msgspec.field(default_factory=list)
    named: str = ""

    def __str__(self) -> str:
        times = "" if self.ran_s is None else f" after {self.ran_s:.3g} s"
        where = f" on worker {self.worker} in attempt {self.attempts}" if self.worker else ""
        why = f": {self.error}" if self.error else ""
        return f"{self.name} {self.outcome.replace('_', ' ')}{times}{where}{why}"


class AskHistory(BaseMessage, frozen=True, tag=134):
    """Ask for jobs that have ended, the latest first, at most `most` in one answer; answered by `HistoryIs`.

    With `name`, those whose names match this shell pattern; with `outcomes`, those that ended so; none before `since`,
    as `time.time()` has it; with `parent`, those that this job submitted; with `job`, that one alone. With `error`,
    those whose error has this text, in either case of letters; with `worker`, those on workers whose names match this
    shell pattern. `before` is that of the page before, 0 for the first.
    """

    ask: int
    most: int
    name: str = ""
    outcomes: Annotated[list[_Outcome], msgspec.Meta(max_length=16)] = msgspec.field(default_factory=list)
    since: float = 0.0
    before: int = 0
    job: int = 0
    parent: int = 0
    error: str = ""
    worker: str = ""


class HistoryIs(BaseAnswer, frozen=True, tag=135):
    """A page of ended jobs. `before` is where the next one begins, 0 after the last; `kept` counts all that the head
    has. `earlier` are the attempts so far of the one job that was asked for, where that has not ended. `few` says why
    the value of that one job has fewer replicas than it is to have; empty where it has those. `copy` is the URL of that
    value's durable copy; empty for none, and for one whose URL the head does not know.
    """

    ask: int
    jobs: list[EndedJob]
    before: int
    kept: int
    earlier: list[EndedAttempt] = msgspec.field(default_factory=list)
    few: str = ""
    copy: str = ""


def checked_pattern(name: str | None) -> str:
    """Return a shell pattern for names as questions have it: empty, where there is none.

    Raises:
        ValueError: it is longer than heads take.
    """
    if name is not None and len(name) > PATTERN_CHARS:
        raise ValueError(f"a pattern has at most {PATTERN_CHARS} characters; this has {len(name):,}")
    return name or ""

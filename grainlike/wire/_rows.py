"""Base of answers, and their rows: a worker, one that was lost, and a job that has not ended."""

from __future__ import annotations

import msgspec

from grainlike.wire._base import BaseMessage

__all__ = ["BaseAnswer", "JobRow", "LostWorkerRow", "WorkerRow"]


class BaseAnswer(BaseMessage, frozen=True, forbid_unknown_fields=False):
    """Base of what a head answers to questions. A later release may add fields at the end of an answer, with defaults,
    as of a row: who asks and does not know them passes them over.
    """


class WorkerRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A worker, as `WorkerInfo` describes it; `resources` is text."""

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
    block: str = ""
    host: str = ""
    stored: int = 0
    spilled: int = 0
    data: str = ""
    scratch_lost: str = ""
    store: int = -1
    scratch: int = 0


class LostWorkerRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A worker that was lost at the moment `at` of `time.time()`, while `running` jobs ran there."""

    name: str
    at: float
    running: int
    why: str


class JobRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A job that has not ended.

    `state` is `queued` (at the head), `assigned` (at a worker, not begun), `running`, or `stopping` (cancelled, and not
    gone yet). `worker` and `allocation` are empty where it has none, `running_s` is None until it runs. `client` is the
    number of the client that it came from, 0 for the head's own program; `program` is the name of that client, or of
    its session, and `named` the name that the call has there. `parent` is the job that submitted it, 0 for none.
    `halted` says in words why its process does not go on; empty if it does.
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
    parent: int = 0
    halted: str = ""

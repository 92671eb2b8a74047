"""Records of values that stay at workers, and of their copies under way.

A value is named by the number of the job that made it; a replica also by the attempt. No job made an own value of a
program: that program, its *origin*, can give it. The *interest* of a value is everybody who needs its bytes: its owner,
unfinished jobs that have it among their inputs, and readers outside the workers. The *lineage* of a value is the call
that made it: function, class of the request, and inputs.
"""

from __future__ import annotations

from functools import lru_cache

from grainlike.resources import Request
from grainlike.scheduler._records import HeadFunction, HeadJob, RequestClass

__all__ = ["SHARED_MOST", "CopyReader", "ReplicaCopy", "ValueState", "shared"]

SHARED_MOST = 4096
"""Tuples of which one is kept for all that are equal, the most recently used ones."""

_NOBODY: tuple[int, ...] = ()


@lru_cache(SHARED_MOST)
def shared(workers: tuple[int, ...]) -> tuple[int, ...]:
    """Return one tuple for all that are equal: the replicas of many values are at the same few workers."""
    return workers


class CopyReader:
    """Call that reads a copy of a value outside the workers: its function, class and request."""

    __slots__ = ("cls", "fn", "own")

    def __init__(self, reader: ValueState) -> None:
        self.fn = reader.fn
        self.cls = reader.cls
        self.own = reader.own


class ValueState:
    """Record of a value: where its replicas are, who needs it, and the call that made it.

    Attributes:
        attempt: last attempt that made the value.
        last: last attempt that was started to make it.
        origin: program that can give this own value; 0 for other values.
        first_to: worker to which a copy from the origin is under way; 0 without one.
        replicas: workers with a whole replica, in the order of arrival; a worker from which it was moved comes last.
        owned: False once the program that submitted the job has released the value.
        asked: number of readers outside the workers for whom no worker was told yet to give the value.
        givers: for each other reader outside, the worker that was told to give the value.
        copies: number of replicas to keep; further replicas are spare.
        durable: call that reads the value's copy outside the workers; None without a copy.
        unreached: True while a program waits until the value has `copies` replicas.
        users: unfinished jobs that need the value, by number.
        dependents: number of known values that have this value among the inputs of their lineage.
        is_kept: False once the lineage was given up.
        maker: job that makes the value again; None without one.
        recomputed: how many times the value was made again.
        why: how the last replica was lost; empty while there is a replica.
    """

    __slots__ = (
        "age", "asked", "attempt", "cls", "copies", "dependents", "durable", "first_to", "fn", "givers", "id", "inputs",
        "is_kept", "last", "maker", "origin", "own", "owned", "recomputed", "replicas", "size", "unreached", "users",
        "why",
    )  # fmt: skip

    def __init__(self, number: int, attempt: int, size: int, replicas: tuple[int, ...] = ()) -> None:
        self.id = self.age = number
        self.attempt = self.last = attempt
        self.size = size
        self.origin = self.first_to = 0
        self.replicas = replicas
        self.fn: HeadFunction | None = None
        self.cls: RequestClass | None = None
        self.own: Request | None = None
        self.inputs: tuple[int, ...] = ()
        self.is_kept = True
        self.owned = True
        self.asked = 0
        self.givers = _NOBODY
        self.copies = 1
        self.durable: CopyReader | None = None
        self.unreached = False
        self.users: dict[int, HeadJob] | None = None
        self.dependents = 0
        self.maker: HeadJob | None = None
        self.recomputed = 0
        self.why = ""

    @classmethod
    def made_by(cls, job: HeadJob, attempt: int, size: int, worker: int) -> ValueState:
        """Return the record of a value that an attempt of a job has made."""
        value = cls(job.id, attempt, size, shared((worker,)))
        value.age, value.fn, value.cls, value.own, value.inputs = job.age, job.fn, job.cls, job.own, job.inputs
        return value

    @property
    def is_needed(self) -> bool:
        """True if the bytes are needed."""
        return bool(self.owned or self.users or self.asked or self.givers or self.unreached)

    @property
    def is_awaited(self) -> bool:
        """True if the value is made again when its last replica is lost, because somebody needs its bytes now."""
        return bool(self.users or self.asked or self.givers or self.unreached)


class ReplicaCopy:
    """Copy of a value to the worker `target`: asked for, and under way once it has a `source`.

    Attributes:
        jobs: jobs that wait for the copy.
        is_safety: True if the copy is made whether or not a job waits for it.
        weight: how much the copy counts against the limit of copies that go into or out of a worker at once.
        size: bytes of the value when the copy was asked for.
        began: time at which the copy began.
        direct: True if the copy goes between data servers, False if it goes through the head.
    """

    __slots__ = ("attempt", "began", "direct", "is_safety", "jobs", "size", "source", "target", "value", "weight")

    def __init__(self, value: ValueState, target: int, weight: int) -> None:
        self.value = value
        self.size = value.size
        self.attempt = value.attempt
        self.target = target
        self.source = 0
        self.jobs: dict[int, HeadJob] = {}
        self.is_safety = False
        self.weight = weight
        self.began = 0.0
        self.direct = False

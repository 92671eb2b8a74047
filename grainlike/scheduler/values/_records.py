"""Records of values that stay at workers, and of their copies under way.

A value is named by the number of the job that made it, a replica of it by the attempt too. One of a program's own was
made by no job, and can be had from that program, its *origin*. The *interest* of a value is its owner,
the unfinished jobs that have it among their inputs, and those outside the workers who want its bytes. Its *lineage* is
the call that made it: function, class of the request, and inputs.
"""

from __future__ import annotations

from grainlike.resources import Request
from grainlike.scheduler._records import HeadFunction, HeadJob, RequestClass

__all__ = ["CopyReader", "ReplicaCopy", "ValueState"]

_NOBODY: tuple[int, ...] = ()


class CopyReader:
    """The call that reads a copy of a value outside of all workers: its function, class and request."""

    __slots__ = ("cls", "fn", "own")

    def __init__(self, reader: ValueState) -> None:
        self.fn = reader.fn
        self.cls = reader.cls
        self.own = reader.own


class ValueState:
    """Record of a value: where it is, who needs it, and the call that made it.

    Attributes:
        attempt: the attempt that made it; of a value that is made again, the last one that did.
        last: the last attempt that was to make it.
        origin: the program that can give it, of a program's own value; 0 for any other.
        first_to: worker to which a copy from the origin is under way; 0 without one.
        replicas: workers that have it, whole, in the order in which they got it, those last from which it was moved.
        owned: False once whoever submitted the job has released it.
        asked: number of those outside who want it and for whom no worker was told to give it yet.
        givers: the worker that was told to, for each of the others.
        copies: how many replicas it is to have; further ones are spare.
        durable: the call that reads its copy outside of all workers; None while there is none.
        unreached: True while somebody waits until it has so many.
        users: the unfinished jobs that need it.
        heirs: number of known values with this one among the inputs of their lineage.
        is_kept: False once its lineage was given up.
        maker: the job that makes it again; None while none does.
        recomputed: how many times it was made again.
        why: how its last replica was lost; empty while it has one.
    """

    __slots__ = (
        "age", "asked", "attempt", "cls", "copies", "durable", "first_to", "fn", "givers", "heirs", "id", "inputs",
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
        self.heirs = 0
        self.maker: HeadJob | None = None
        self.recomputed = 0
        self.why = ""

    @classmethod
    def made_by(cls, job: HeadJob, attempt: int, size: int, worker: int) -> ValueState:
        """Return the record of a value that this attempt of a job has made."""
        value = cls(job.id, attempt, size, (worker,))
        value.age, value.fn, value.cls, value.own, value.inputs = job.age, job.fn, job.cls, job.own, job.inputs
        return value

    @property
    def is_needed(self) -> bool:
        """True if its bytes are."""
        return bool(self.owned or self.users or self.asked or self.givers or self.unreached)

    @property
    def is_awaited(self) -> bool:
        """True if it is made again when it is lost: by those who need its bytes now."""
        return bool(self.users or self.asked or self.givers or self.unreached)


class ReplicaCopy:
    """A copy of a value to a worker, `target`: asked for, and under way once it has a `source`.

    Attributes:
        jobs: the jobs that wait for it.
        is_safety: True for a copy that is made whatever jobs want it, as there are to be more.
        weight: how much it counts against what may go in or out of a worker at once.
        size: bytes of the value when it was asked for.
        began: when it was sent for.
        direct: True if it goes from data server to data server, False if through the head.
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

"""Records of values that stay at workers, and of their copies under way.

A value is named by the number of the job that made it, a replica of it by the attempt too. Its *interest* is its owner,
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
        replicas: workers that have it, whole, in the order in which they got it.
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
        "age", "asked", "attempt", "cls", "copies", "durable", "fn", "givers", "heirs", "id", "inputs", "is_kept",
        "last", "maker", "own", "owned", "recomputed", "replicas", "size", "unreached", "users", "why",
    )  # fmt: skip

    def __init__(self, job: HeadJob, attempt: int, size: int, worker: int) -> None:
        self.id = job.id
        self.age = job.age
        self.attempt = self.last = attempt
        self.size = size
        self.replicas: tuple[int, ...] = (worker,)
        self.fn: HeadFunction = job.fn
        self.cls: RequestClass = job.cls
        self.own: Request | None = job.own
        self.inputs = job.inputs
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

"""Messages about jobs that jobs submit, and their outcomes. Clients of a head submit by the same messages; see
`_questions`.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._reports import ReceiptSpec

__all__ = [
    "AskOutcome",
    "OutcomeIs",
    "Outcomes",
    "OutcomesHeard",
    "ReleaseFunctions",
    "RetrySpec",
    "Submit",
    "SubmittedFunction",
    "Withdraw",
]

_Number = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class RetrySpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Retry policy of a function: how often its jobs are tried again after failures and after losses, the waits before
    (first seconds, factor, most), and for which exceptions; see `FunctionSpec`.
    """

    times: Annotated[int, msgspec.Meta(ge=0)] = 0
    losses: Annotated[int, msgspec.Meta(ge=0)] = 2
    backoff: tuple[_Seconds, Annotated[float, msgspec.Meta(ge=1)], _Seconds] | None = None
    on: bytes = b""
    on_timeout: bool = True
    on_memory: bool = True


class SubmittedFunction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A function that a job or a client calls on workers. A `stream` sends `Items` before its outcome.

    With `here`, its serialized form comes with the message: the first time that the job, or the client, sends it. After
    that the head knows it by its digest, until the job has ended, or the client has left or sent `ReleaseFunctions`.
    `logs` and `stays`: see `FunctionSpec`. The jobs of an `internal` one are counted in no total.
    """

    digest: bytes
    name: str
    is_async: bool
    timeout: float | None
    retry: RetrySpec
    many: bool
    keep: bool
    here: bool
    stream: bool = False
    logs: bytes = b""
    stays: bool = False
    internal: bool = False


class Submit(BaseMessage, frozen=True, tag=40):
    """From a running job to the head: run these jobs for it, all with the same request.

    `children` are numbers that the job gives, `fns` positions in `functions`. The frame's buffers are the functions
    that are `here`, then those of the arguments, in `data` and `counts`, which are not unpacked on the way. `names` is
    empty, or gives for each call the name under which its outcome is kept in the client's session; empty for none.
    `ages` are the head's numbers of the oldest jobs that each call needs, itself or by way of others; 0 for a call that
    needs none, empty if none does. `sizes` are the bytes of each call's arguments, 0 where they are small, empty if all
    are. `inputs` are the values that each call needs, by the head's numbers of the jobs that made them; empty if none
    needs any. `needs` is for graphs of a session: for each call, the numbers of earlier calls whose values are to fill
    its arguments; empty if these are no calls of a graph. `goes_on`: what only a failed call needed is not cancelled.
    """

    parent: int
    attempt: int
    request: str
    priority: int
    isolate: bool
    functions: list[SubmittedFunction]
    children: list[int]
    fns: list[int]
    data: list[bytes]
    counts: list[int]
    names: list[str] = msgspec.field(default_factory=list)
    ages: list[_Number] = msgspec.field(default_factory=list)
    sizes: list[_Number] = msgspec.field(default_factory=list)
    inputs: list[list[_Number]] = msgspec.field(default_factory=list)
    needs: list[list[_Number]] = msgspec.field(default_factory=list)
    goes_on: bool = False


class OutcomesHeard(BaseMessage, frozen=True, tag=190):
    """From a client to the head: the outcomes of these calls of graphs have come; what it submits from now on has their
    values, or refers to those, and not to the calls.
    """

    children: list[int]


class ReleaseFunctions(BaseMessage, frozen=True, tag=123):
    """From a client to the head: the client has dropped these functions, and sends them again should it call them. Jobs
    that it has submitted are not affected.
    """

    digests: list[bytes]


class Withdraw(BaseMessage, frozen=True, tag=41):
    """From a running job to the head: cancel these of its children.

    `skipped`: those that have not begun count as skipped, because something that they need, or their graph, has failed.
    """

    parent: int
    attempt: int
    children: list[int]
    skipped: bool = False


class Outcomes(BaseMessage, frozen=True, tag=45):
    """From the head to a running job: outcomes of children of it, in columns.

    `good` says whether a parcel is a value or an exception. `workers`, `slots` and `attempts` are where each ran last;
    empty and 0 for one that never did. `jobs` are their numbers at the head, for a job, whose calls are as old as the
    jobs that they need, and where a value stays; clients were told of these when they submitted. `sizes`: bytes of each
    value that stays at its worker, whose parcel is empty; 0 for others, empty if none stays.
    """

    parent: int
    attempt: int
    children: list[int]
    good: list[bool]
    workers: list[str]
    slots: list[str]
    attempts: list[int]
    wall: list[float]
    cpu: list[float]
    rss: list[int]
    receipts: list[ReceiptSpec | None]
    data: list[bytes]
    counts: list[int]
    jobs: list[int] = msgspec.field(default_factory=list)
    sizes: list[int] = msgspec.field(default_factory=list)


class AskOutcome(BaseMessage, frozen=True, tag=121):
    """Ask for the kept outcome of call `child` in the client's session, from byte `at` on; answered by any number of
    `OutcomeIs`.
    """

    ask: int
    child: int
    at: int


class OutcomeIs(BaseMessage, frozen=True, tag=122):
    """A part of an outcome, from byte `at` of its frame; with `end`, the last one. `checksum` is the CRC-32 of the
    whole.
    """

    ask: int
    at: int
    data: bytes
    end: bool
    checksum: int

"""Messages about values that stay at workers: which replicas a worker is to send, receive and drop.

A value is named by the number of the job that made it, and a replica of it by the attempt too: a value that is made
again is another replica, with the same bytes for its users. `transfer` is a number that the head gives
to each copy of a replica on its way.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from grainlike.wire._base import BaseMessage

__all__ = [
    "GENERATION",
    "OWN_VALUES",
    "DropOwnValues",
    "DropReplicas",
    "DurableCopy",
    "EncloseValues",
    "Evicted",
    "Fetched",
    "Need",
    "OwnValues",
    "PullReplica",
    "Pulled",
    "ReplicaCredit",
    "ReplicaPart",
    "SendReplica",
    "SpareReplicas",
    "StopTransfer",
    "Stored",
    "Unsent",
    "ValueComes",
    "ValueInterest",
    "ValuesAt",
    "ValuesGone",
]


_Number = Annotated[int, msgspec.Meta(ge=0)]

GENERATION = 1 << 32
"""Factor of the count in the numbers by which sources know transfers; see `SendReplica`."""

OWN_VALUES = 1 << 40
"""Count of numbers that each program has for values of its own; jobs have the numbers below."""


class Need(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A value that a job needs: the number of the job that made it, the attempt, and its size in bytes."""

    value: int
    attempt: int
    size: int


class SendReplica(BaseMessage, frozen=True, tag=160):
    """Head to worker, or to the client whose own value it is: send the bytes of a replica from byte `at` on, in
    `ReplicaPart`s, as far as credit goes; answered by `Unsent` where that is impossible.

    `transfer` is `GENERATION` times a count of how often it was asked for, and the transfer's number: it takes the
    place of one with a lower count.
    """

    transfer: int
    value: int
    attempt: int
    at: int
    credit: int


class ReplicaPart(BaseMessage, frozen=True, tag=161):
    """The bytes of a replica from byte `at` on, in the frame's one buffer: from a worker, or the client whose own value
    it is, to the head, and from the head to the worker, or client, that is to have it. `size` is that of the whole
    replica.
    """

    transfer: int
    value: int
    attempt: int
    at: int
    size: int


class ReplicaCredit(BaseMessage, frozen=True, tag=162):
    """So many more bytes of a transfer may be sent: they were written, or passed on."""

    transfer: int
    credit: int


class Fetched(BaseMessage, frozen=True, tag=163):
    """Worker to head: this replica is here, whole."""

    transfer: int
    value: int
    attempt: int


class Unsent(BaseMessage, frozen=True, tag=164):
    """Worker to head: a transfer cannot go on here. `gone`: there is no such replica where it was to come from, or a
    damaged one. `at`: bytes that are here, with which another transfer may go on. `unreachable`: the source's data
    server did not answer, or sent nothing for too long.
    """

    transfer: int
    why: str
    gone: bool = False
    at: int = 0
    unreachable: bool = False


class PullReplica(BaseMessage, frozen=True, tag=167):
    """Head to worker: get a replica of `size` bytes, from byte `at` on, from the data server at `address`, where it has
    the name `name`; answered by `Fetched` or `Unsent`, and by `Pulled` meanwhile.
    """

    transfer: int
    value: int
    attempt: int
    size: int
    at: int
    address: str
    name: bytes


class Pulled(BaseMessage, frozen=True, tag=168):
    """Worker to head: so many bytes of each of these transfers are here; twice a second at most."""

    transfers: list[int]
    at: list[int]


class StopTransfer(BaseMessage, frozen=True, tag=165):
    """Head to worker: a transfer is over before its end; drop what has come of it, or send no more."""

    transfer: int


class DropReplicas(BaseMessage, frozen=True, tag=166):
    """Head to worker: remove these replicas. No job that starts from now on needs them; who has mapped one keeps it."""

    values: list[int]
    attempts: list[int]


class Stored(BaseMessage, frozen=True, tag=175):
    """Worker to head: so many bytes of its replicas are on disk; 0.1 s late at most. `lost`: why it writes no more of
    them there; empty while it does. `over`: bytes by which what it keeps in shared memory exceeds its budget.
    """

    spilled: int
    lost: str = ""
    over: int = 0


class SpareReplicas(BaseMessage, frozen=True, tag=176):
    """Head to worker: these replicas may be evicted, as others have them; with `is_spare` False, no longer."""

    values: list[int]
    attempts: list[int]
    is_spare: bool = True


class Evicted(BaseMessage, frozen=True, tag=177):
    """Worker to head: these replicas were spare, and made room for others."""

    values: list[int]
    attempts: list[int]


class ValueInterest(BaseMessage, frozen=True, tag=169):
    """Client to head: of the values of its own jobs, it wants the bytes of some, of some not any more, and refers to
    some no more. Each that it wants is answered by `ValueComes` or `ValuesGone`. Of those `replicated` at least
    `copies` replicas are to be kept, 0: one at every worker; answered by `ValuesAt.reached` or `ValuesGone` for each.
    """

    wanted: list[_Number]
    unwanted: list[_Number]
    released: list[_Number]
    replicated: list[_Number] = msgspec.field(default_factory=list)
    copies: _Number = 0


class DurableCopy(BaseMessage, frozen=True, tag=198):
    """Client to head: there is a copy of its value outside of all workers, and the call that made its value `reader`
    reads it: that call is made where `value` is needed and lost.
    """

    value: _Number
    reader: _Number


class OwnValues(BaseMessage, frozen=True, tag=185):
    """Client to head: it has these values of its own, of so many bytes, which its jobs may need. They have numbers from
    `Welcome.own_values` on, each a new one. It keeps them until `DropOwnValues`, and sends them when it is asked to
    (`SendReplica`). `directory`: where files of them are, of use to peers with the same memory; empty without.
    """

    values: list[_Number]
    sizes: list[_Number]
    directory: str = ""


class DropOwnValues(BaseMessage, frozen=True, tag=186):
    """Head to client: nothing needs these values of its own any more, and it need not keep them."""

    values: list[int]


class EncloseValues(BaseMessage, frozen=True, tag=187):
    """Head to client: this call was dropped before it began, as it needs `values` of the client's own for which no
    worker has room ever. It is to be submitted again, as a new one, with these in its arguments: what was sent of them
    is here, in `data` and buffers as in `Submit`, and `inputs` are the other values to which they refer.
    """

    child: int
    values: list[int]
    inputs: list[int]
    data: list[bytes]
    counts: list[int]


class ValueComes(BaseMessage, frozen=True, tag=170):
    """Head to client: this transfer brings a value that it wants, in place of any other of that value. With a
    `directory` there is a file in it to be mapped; else the bytes come in `ReplicaPart`s, which the client answers by
    `ReplicaCredit`. Answered by `Fetched`, or by `Unsent`: there is no such file, or (`gone`) the bytes are damaged.
    """

    transfer: int
    value: int
    attempt: int
    size: int
    directory: str = ""


class ValuesGone(BaseMessage, frozen=True, tag=171):
    """Head to client: these values, which it wants, or replicas of them, are lost, and why."""

    values: list[int]
    words: list[str]


class ValuesAt(BaseMessage, frozen=True, tag=172):
    """Head to client: the workers that have these values have changed; `recomputed` is how often each of the first was
    made again, and `attempts` by which attempt last, on the first of its workers; both are empty if that has not
    changed. Of those `reached` there are as many replicas as it asked for, or as there can be.
    """

    values: list[int]
    workers: list[list[str]]
    recomputed: list[int]
    reached: list[int] = msgspec.field(default_factory=list)
    attempts: list[int] = msgspec.field(default_factory=list)

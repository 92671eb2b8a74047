"""Events and actions of the head scheduler about values that stay at workers.

A value is named by the number of the job that made it. It comes into being with a row of `Completed.sizes`, wanted by
the submitter of the job until `ValuesReleased`; jobs name the values that they need in `JobsSubmitted.inputs`.

A value of a program's *own* was made by no job: it comes into being by `OwnValuesAdded`, under a number that no job
has. That program is its *origin*: a source of it while no worker has it.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "PROGRAM",
    "CopiesLost",
    "CopyMade",
    "FetchReplicas",
    "GiveValues",
    "InputsLost",
    "InputsTravel",
    "InputsUnfit",
    "JobsRevived",
    "LineageDropped",
    "OutputsUnfit",
    "OverdraftUnpaid",
    "OwnValuesAdded",
    "OwnValuesFreed",
    "OwnValuesLost",
    "ReplicasArrived",
    "ReplicasDropped",
    "ReplicasFailed",
    "ReplicasGone",
    "ReplicasSpared",
    "ReplicasUnfit",
    "ReplicationAsked",
    "ReplicationReached",
    "ValueAction",
    "ValueEvent",
    "ValuesForgotten",
    "ValuesGiven",
    "ValuesLost",
    "ValuesReleased",
    "ValuesWanted",
]

PROGRAM = -1
"""Origin of the values of the program in whose process the head is; that of a client's values is its number."""


# --- events ----------------------------------------------------------------------------------------------------------


class ValuesReleased(msgspec.Struct, frozen=True, gc=False):
    """The submitter of the jobs that made these values refers to them no more. Unknown values are ignored."""

    values: list[int]


class ValuesWanted(msgspec.Struct, frozen=True, gc=False):
    """Somebody outside the workers is to have the bytes of these values: each is answered by `GiveValues`, now or once
    it was made again, or by `ValuesLost`; and wanted until `ValuesGiven`.
    """

    values: list[int]


class ValuesGiven(msgspec.Struct, frozen=True, gc=False):
    """These wanted values were passed on, or are wanted no more: one for each time in `ValuesWanted`."""

    values: list[int]


class ReplicasArrived(msgspec.Struct, frozen=True, gc=False):
    """A worker has these replicas, whole, as `FetchReplicas` asked."""

    worker: int
    values: list[int]
    attempts: list[int]


class ReplicasFailed(msgspec.Struct, frozen=True, gc=False):
    """A worker could not get these replicas from where `FetchReplicas` said; they may be fetched again. `unreachable`:
    there was no way between the two data servers, or nothing came for too long. `refused`: the worker could not write
    them, and most often has no room.
    """

    worker: int
    values: list[int]
    attempts: list[int]
    why: str
    unreachable: bool = False
    refused: bool = False


class ReplicasGone(msgspec.Struct, frozen=True, gc=False):
    """A worker has these replicas no more, or they are damaged."""

    worker: int
    values: list[int]
    attempts: list[int]


class OwnValuesAdded(msgspec.Struct, frozen=True, gc=False):
    """A program, `origin`, has these values of its own, of so many bytes, and refers to them until `ValuesReleased`."""

    origin: int
    values: list[int]
    sizes: list[int]


class OwnValuesLost(msgspec.Struct, frozen=True, gc=False):
    """The programs whose own values these are cannot give them any more."""

    values: list[int]


class LineageDropped(msgspec.Struct, frozen=True, gc=False):
    """The calls that made these values are not kept any more: they cannot be made again."""

    values: list[int]


class ReplicationAsked(msgspec.Struct, frozen=True, gc=False):
    """Keep at least so many replicas of each of these values, and make good those that go with a worker; 0: one at
    every worker. Answered by `ReplicationReached` or `ValuesLost` for each.
    """

    values: list[int]
    copies: int


class CopyMade(msgspec.Struct, frozen=True, gc=False):
    """There is a copy of a value outside of all workers, which the call that made the value `reader` reads: that call
    makes the value again, as long as it can. Unknown values are ignored.
    """

    value: int
    reader: int


ValueEvent = (
    ValuesReleased
    | ValuesWanted
    | ValuesGiven
    | ReplicasArrived
    | ReplicasFailed
    | ReplicasGone
    | LineageDropped
    | OwnValuesAdded
    | OwnValuesLost
    | ReplicationAsked
    | CopyMade
)


# --- actions ---------------------------------------------------------------------------------------------------------


class FetchReplicas(msgspec.Struct, frozen=True, gc=False):
    """Copy replicas to `worker`, each from the worker, or origin, of the same index in `sources`: through the head
    where `relayed` says so or is empty, else between their data servers. Answered by `ReplicasArrived` or
    `ReplicasFailed` for each.
    """

    worker: int
    values: list[int]
    attempts: list[int]
    sizes: list[int]
    sources: list[int]
    relayed: list[bool] = msgspec.field(default_factory=list)


class GiveValues(msgspec.Struct, frozen=True, gc=False):
    """Pass on these wanted values from `worker`, which has them."""

    worker: int
    values: list[int]
    attempts: list[int]
    sizes: list[int]


class ReplicasDropped(msgspec.Struct, frozen=True, gc=False):
    """Have a worker remove these replicas: nothing needs them, or their attempt does not count."""

    worker: int
    values: list[int]
    attempts: list[int]


class ReplicasSpared(msgspec.Struct, frozen=True, gc=False):
    """A worker may give up these replicas for room, as others are kept, and says so by `ReplicasGone`; with `is_spare`
    False, no longer. Those of which nothing was said are not spare.
    """

    worker: int
    values: list[int]
    attempts: list[int]
    is_spare: bool


class JobsRevived(msgspec.Struct, frozen=True, gc=False):
    """These jobs, which had ended, are queued again, as their values are needed and gone. They end as others do, by
    `JobsSettled` or `JobsLost`; who had their outcome hears nothing. With `by_copy` their values are read from copies
    outside of all workers.
    """

    jobs: list[int]
    by_copy: bool = False


class CopiesLost(msgspec.Struct, frozen=True, gc=False):
    """The copies of these values outside of all workers could not be read, and are not tried again."""

    values: list[int]


class ValuesLost(msgspec.Struct, frozen=True, gc=False):
    """Wanted values whose last replica is gone and which cannot be made again, because of `why`."""

    values: list[int]
    why: str


class ValuesForgotten(msgspec.Struct, frozen=True, gc=False):
    """Nothing needs these values, nor what could be made of them again: the calls that made them need not be kept. One
    that is just being made again is cancelled.
    """

    values: list[int]


class OwnValuesFreed(msgspec.Struct, frozen=True, gc=False):
    """Nothing needs these values, and their programs need not keep them. What is under way from there is given up."""

    values: list[int]


class ReplicationReached(msgspec.Struct, frozen=True, gc=False):
    """There are as many replicas of these values as `ReplicationAsked` wants, or as there are workers that could have
    one.
    """

    values: list[int]


class ReplicasUnfit(msgspec.Struct, frozen=True, gc=False):
    """Fewer replicas of a value can be made than it is to have, as stores of workers are too small for it, because of
    `why`: a warning, once per function, as a worker that joins might help.
    """

    value: int
    why: str


class InputsUnfit(msgspec.Struct, frozen=True, gc=False):
    """The inputs of these jobs fit into no store of a worker that could run them, because of `why`. The jobs are
    dropped, unless `failed` is False: this is a warning then, once per function, as a worker that joins might help.
    """

    jobs: list[int]
    why: str
    failed: bool


class OutputsUnfit(msgspec.Struct, frozen=True, gc=False):
    """The values of these jobs, which have just failed for that, found no room where they ran, and are not made
    elsewhere, as `why` says beside what the worker said. The jobs are dropped.
    """

    jobs: list[int]
    why: str


class OverdraftUnpaid(msgspec.Struct, frozen=True, gc=False):
    """These jobs have no room for their inputs, because of `why`: a worker exceeds its store, and nothing can pay that
    back. The jobs are dropped.
    """

    jobs: list[int]
    why: str


class InputsTravel(msgspec.Struct, frozen=True, gc=False):
    """These jobs need values of their program's own for which no store that could serve has room ever: those of the
    same index in `values`, and `others` beside. They have these in their arguments from now on. Jobs of the program in
    whose process the head is are queued; those of clients are dropped, and their clients submit them again.
    """

    jobs: list[int]
    values: list[list[int]]
    others: list[list[int]]


class InputsLost(msgspec.Struct, frozen=True, gc=False):
    """These jobs can never run, as `value`, which they need, is lost because of `why`. They are dropped."""

    jobs: list[int]
    value: int
    why: str


ValueAction = (
    FetchReplicas
    | GiveValues
    | ReplicasDropped
    | ReplicasSpared
    | ReplicasUnfit
    | ReplicationReached
    | CopiesLost
    | JobsRevived
    | OwnValuesFreed
    | ValuesLost
    | ValuesForgotten
    | InputsLost
    | InputsTravel
    | InputsUnfit
    | OutputsUnfit
    | OverdraftUnpaid
)

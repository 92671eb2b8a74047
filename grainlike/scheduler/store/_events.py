"""Events and actions of the store scheduler. A replica is named by a value and the attempt that made it."""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = [
    "CopyLeft",
    "EvictReplica",
    "GiveRoom",
    "LookAt",
    "MemoryFree",
    "MemoryGranted",
    "PaybackDue",
    "RefuseRoom",
    "Replica",
    "ReplicaFound",
    "ReplicaWritten",
    "ReplicasRemoved",
    "ReplicasUnused",
    "ReplicasUsed",
    "RoomAsked",
    "RoomReturned",
    "RoomUnfit",
    "ScratchLost",
    "SpareTold",
    "SpillDiscarded",
    "SpillEnded",
    "SpillKept",
    "SpillReplica",
    "StoreAction",
    "StoreEvent",
    "Tier",
]

Replica = tuple[int, int]
"""Value, and the attempt that made it."""


class Tier(Enum):
    """Kind of place for a replica."""

    MEMORY = "shared memory"
    SCRATCH = "scratch"


# --- events ----------------------------------------------------------------------------------------------------------


class RoomAsked(msgspec.Struct, frozen=True, gc=False):
    """Room is needed here for a replica: for the value of a job (`is_output`), or for a copy from another worker.
    Answered once by `GiveRoom` or `RefuseRoom`, at once or later, unless `RoomReturned` comes first. `free`: bytes of
    the machine's memory that are free beyond a tenth of it. `busy`: leases here as in `PaybackDue`.
    """

    replica: Replica
    size: int
    is_output: bool
    free: int = 0
    busy: list[int] = []


class RoomUnfit(msgspec.Struct, frozen=True, gc=False):
    """The room that was given is not there: its file system has no space, or fails."""

    replica: Replica


class RoomReturned(msgspec.Struct, frozen=True, gc=False):
    """A replica will not be written, whether or not it has room yet. Unknown ones are ignored."""

    replica: Replica


class CopyLeft(msgspec.Struct, frozen=True, gc=False):
    """A copy broke off and has left a part of its replica in its room. The room counts, and may be evicted, until room
    for the same replica is asked for again; then the replica has this room. Unknown ones are ignored.
    """

    replica: Replica


class ReplicaWritten(msgspec.Struct, frozen=True, gc=False):
    """A replica is whole, in the room that was given for it."""

    replica: Replica


class ReplicaFound(msgspec.Struct, frozen=True, gc=False):
    """A replica is in shared memory without having asked for room. Known ones are ignored."""

    replica: Replica
    size: int


class ReplicasUsed(msgspec.Struct, frozen=True, gc=False):
    """A lease has begun here whose jobs use these replicas."""

    lease: int
    replicas: list[Replica]


class ReplicasUnused(msgspec.Struct, frozen=True, gc=False):
    """A lease has ended whose jobs used replicas."""

    lease: int


class ReplicasRemoved(msgspec.Struct, frozen=True, gc=False):
    """These replicas are not here any more. Unknown ones are ignored."""

    replicas: list[Replica]


class SpareTold(msgspec.Struct, frozen=True, gc=False):
    """These replicas may be evicted, or (`is_spare` False) may not any more. Before this event, none may. Replicas that
    are not whole are ignored.
    """

    replicas: list[Replica]
    is_spare: bool


class SpillEnded(msgspec.Struct, frozen=True, gc=False):
    """The copy to scratch for `SpillReplica` is whole, or (`is_whole` False) impossible. A whole copy is answered by
    `SpillKept` or `SpillDiscarded`.
    """

    replica: Replica
    is_whole: bool


class ScratchLost(msgspec.Struct, frozen=True, gc=False):
    """The disk is full, or fails: nothing more is written there. Replicas on the disk stay."""


class MemoryGranted(msgspec.Struct, frozen=True, gc=False):
    """Jobs have this many bytes of memory in all."""

    granted: int


class MemoryFree(msgspec.Struct, frozen=True, gc=False):
    """So many bytes of the machine's memory are free beyond a tenth of it; told before each event while outputs wait.
    It has no actions of its own: the event behind it may say that an output waits no more.
    """

    free: int


class PaybackDue(msgspec.Struct, frozen=True, gc=False):
    """The time of `LookAt` has come. `busy`: leases here that use replicas, and whose jobs compute: they wait neither
    for room nor for jobs of their own.
    """

    busy: list[int]


StoreEvent = (
    RoomAsked
    | RoomUnfit
    | RoomReturned
    | CopyLeft
    | ReplicaWritten
    | ReplicaFound
    | ReplicasUsed
    | ReplicasUnused
    | ReplicasRemoved
    | SpareTold
    | SpillEnded
    | ScratchLost
    | MemoryGranted
    | MemoryFree
    | PaybackDue
)


# --- actions ---------------------------------------------------------------------------------------------------------


class GiveRoom(msgspec.Struct, frozen=True, gc=False):
    """Let a replica be written in this tier."""

    replica: Replica
    size: int
    tier: Tier


class RefuseRoom(msgspec.Struct, frozen=True, gc=False):
    """There is no room for a replica, although each tier may have this many bytes."""

    replica: Replica
    size: int
    memory: int
    scratch: int


class EvictReplica(msgspec.Struct, frozen=True, gc=False):
    """Remove a spare replica, or an unfinished copy."""

    replica: Replica


class SpillReplica(msgspec.Struct, frozen=True, gc=False):
    """Copy a replica to scratch; answered by `SpillEnded`."""

    replica: Replica
    size: int


class SpillKept(msgspec.Struct, frozen=True, gc=False):
    """The copy in scratch takes the place of the replica in shared memory."""

    replica: Replica


class SpillDiscarded(msgspec.Struct, frozen=True, gc=False):
    """Remove the copy in scratch, because the replica was removed meanwhile, or is used."""

    replica: Replica


class LookAt(msgspec.Struct, frozen=True, gc=False):
    """Tell `PaybackDue` at this time."""

    at: float


StoreAction = GiveRoom | RefuseRoom | EvictReplica | SpillReplica | SpillKept | SpillDiscarded | LookAt

"""Events and actions of the store scheduler. A replica is named by a value and the attempt that made it."""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = [
    "CopyLeft",
    "EvictReplica",
    "GiveRoom",
    "MemoryGranted",
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
"""The value, and the attempt that made it."""


class Tier(Enum):
    """Kind of place for a replica."""

    MEMORY = "shared memory"
    SCRATCH = "scratch"


# --- events ----------------------------------------------------------------------------------------------------------


class RoomAsked(msgspec.Struct, frozen=True, gc=False):
    """Bytes of a replica are to be written here: what a job gave (`is_output`), or a copy from elsewhere. Answered once
    by `GiveRoom` or `RefuseRoom`, unless `RoomReturned` comes first. `free`: bytes of the machine's memory that are
    free beyond a tenth of it.
    """

    replica: Replica
    size: int
    is_output: bool
    free: int = 0


class RoomUnfit(msgspec.Struct, frozen=True, gc=False):
    """The room that was given cannot be had: its file system has no room for it, or is out of order."""

    replica: Replica


class RoomReturned(msgspec.Struct, frozen=True, gc=False):
    """A replica will not be written, whether there is room for it yet or not. Unknown ones are ignored."""

    replica: Replica


class CopyLeft(msgspec.Struct, frozen=True, gc=False):
    """A copy was broken off and has left a part of its replica in the room that it had. That counts, and may be
    evicted, until room for the same replica is asked again: then it has this one. Unknown ones are ignored.
    """

    replica: Replica


class ReplicaWritten(msgspec.Struct, frozen=True, gc=False):
    """A replica is whole, in the room that was given for it."""

    replica: Replica


class ReplicaFound(msgspec.Struct, frozen=True, gc=False):
    """A replica is in shared memory for which no room was asked. Known ones are ignored."""

    replica: Replica
    size: int


class ReplicasUsed(msgspec.Struct, frozen=True, gc=False):
    """Something that uses these replicas has begun here: a job, or a copy to elsewhere."""

    replicas: list[Replica]


class ReplicasUnused(msgspec.Struct, frozen=True, gc=False):
    """Uses of replicas have ended: one for each in `ReplicasUsed`."""

    replicas: list[Replica]


class ReplicasRemoved(msgspec.Struct, frozen=True, gc=False):
    """These replicas are here no more. Unknown ones are ignored."""

    replicas: list[Replica]


class SpareTold(msgspec.Struct, frozen=True, gc=False):
    """These replicas may be evicted, or (`is_spare` False) no longer. Until told, none may be. Those that are not whole
    are ignored.
    """

    replicas: list[Replica]
    is_spare: bool


class SpillEnded(msgspec.Struct, frozen=True, gc=False):
    """The copy to scratch that `SpillReplica` asked for is whole, or (`is_whole` False) impossible. Answered by
    `SpillKept` or `SpillDiscarded` where it is whole.
    """

    replica: Replica
    is_whole: bool


class ScratchLost(msgspec.Struct, frozen=True, gc=False):
    """The disk is full, or out of order: nothing more is written there. What is there stays."""


class MemoryGranted(msgspec.Struct, frozen=True, gc=False):
    """So many bytes of memory are granted to jobs in all."""

    granted: int


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
)


# --- actions ---------------------------------------------------------------------------------------------------------


class GiveRoom(msgspec.Struct, frozen=True, gc=False):
    """Let a replica be written in this tier."""

    replica: Replica
    size: int
    tier: Tier


class RefuseRoom(msgspec.Struct, frozen=True, gc=False):
    """There is no room for a replica, although the store may have this much in each tier."""

    replica: Replica
    size: int
    memory: int
    scratch: int


class EvictReplica(msgspec.Struct, frozen=True, gc=False):
    """Remove a spare replica, or what a copy has left."""

    replica: Replica


class SpillReplica(msgspec.Struct, frozen=True, gc=False):
    """Copy a replica to scratch; answered by `SpillEnded`."""

    replica: Replica
    size: int


class SpillKept(msgspec.Struct, frozen=True, gc=False):
    """The copy in scratch takes the place of the replica in shared memory."""

    replica: Replica


class SpillDiscarded(msgspec.Struct, frozen=True, gc=False):
    """Remove the copy in scratch: the replica was removed meanwhile, or is used."""

    replica: Replica


StoreAction = GiveRoom | RefuseRoom | EvictReplica | SpillReplica | SpillKept | SpillDiscarded

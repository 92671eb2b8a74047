"""Room for replicas that are not whole: the files to which they are written, each allocated before a byte comes."""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from grainlike.payload import SharedDirectory, SpareFiles, allocate_replica, is_held, replica_room
from grainlike.scheduler.store import Tier
from grainlike_worker.store._held_memory import HeldMemory

__all__ = ["LeftRoom", "ReplicaRoom", "RoomFiles"]

_AT_ONCE = 4 * 1024 * 1024
"""Bytes of shared memory that are allocated without a thread: it takes a millisecond or two."""

_THREADS = 2

_SMALL = 1024 * 1024
"""Bytes below which a value is a file, where half of a small shared memory is free: it needs no descriptor."""


class ReplicaRoom:
    """Room that was asked for: `told` once the mind has answered, by a tier, or None and why; then `path` is its file,
    all of it allocated.
    """

    __slots__ = ("answer", "path", "told")

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.answer: Tier | str | None = None
        self.path: Path | None = None


class LeftRoom(NamedTuple):
    """Room of `size` bytes that a copy has left with the first `at` of them, for the next to go on with."""

    path: Path
    size: int
    at: int


class RoomFiles:
    """Files of rooms for the replicas in `directory`: in shared memory there, in memory that this process holds, if it
    has `held`, or on a disk in a directory of `place`.

    Example::

        files = RoomFiles(directory, Path("/var/tmp"))
        room = await files.allocate(replica_path(directory, 7, 1), 200_064, Tier.SCRATCH, free=0)
        files.remove()
    """

    def __init__(
        self,
        directory: Path | None,
        place: Path | None,
        scratch: SharedDirectory | None,
        held: HeldMemory | None = None,
        spare: SpareFiles | None = None,
    ) -> None:
        self.at_once = _AT_ONCE
        """Bytes of shared memory that are allocated in this thread."""
        self._directory = directory
        self._held = held
        self.spare = spare
        """Files of values that nobody needs any more, for the next ones; None where none are kept."""
        self._place = place
        self._scratch = scratch
        self._threads: anyio.CapacityLimiter | None = None
        self._numbers = itertools.count(1)

    async def allocate(self, file: Path, size: int, tier: Tier, free: int) -> Path:
        """Return a file of `size` bytes, all of them allocated, in which the replica `file` is written. `free`: bytes
        of the budget that are left then, which files may take that nobody needs. Raises `OSError` where that is not
        possible.
        """
        if tier is Tier.MEMORY and self.spare:
            room = self.path(file, tier)
            if self.spare.take(room, size):
                return room
            self.spare.shrink(max(0, free))
        if tier is Tier.MEMORY and size <= self.at_once:
            return self._allocated(file, size, tier)
        return await anyio.to_thread.run_sync(self._allocated, file, size, tier, limiter=self.limiter())

    def _allocated(self, file: Path, size: int, tier: Tier) -> Path:
        if self._held is not None and tier is Tier.MEMORY and not (size < _SMALL and _is_half_free(file.parent)):
            return self._held.make(file, size)
        room = self.path(file, tier)
        allocate_replica(room, size)
        return room

    def path(self, file: Path, tier: Tier) -> Path:
        """Return where in a tier the replica `file` may be written, each time another place: what an attempt that was
        given up still writes is not in the way of the next.
        """
        return replica_room(file.parent if tier is Tier.MEMORY else self._disk(), file, next(self._numbers))

    def release(self, room: Path | None) -> None:
        """Remove a room, if it is there."""
        if room is None:
            return
        if self._held is not None and is_held(room):
            self._held.release(room)
            return
        with suppress(OSError):
            room.unlink()

    def seal(self, room: Path | None) -> Path | None:
        """Let nobody change what is whole in a room, if this process holds that; return the room then."""
        if self._held is None or room is None or not is_held(room):
            return None
        self._held.seal(room)
        return room

    def limiter(self) -> anyio.CapacityLimiter:
        """Return what lets these threads wait for each other, and not for those of the user's program."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return self._threads

    def remove(self) -> None:
        """Remove the directory on disk with all that is in it, and let go of memory."""
        if self._held is not None:
            self._held.release_all()
        if self._scratch is not None:
            self._scratch.remove()

    def _disk(self) -> Path:
        """Return the directory on disk, made when it is first needed; `OSError` where that is not possible."""
        if self._scratch is None and self._place is not None:
            self._scratch = SharedDirectory.make(self._place)
        if self._scratch is None:
            raise OSError(f"no directory can be made in {self._place}")
        return self._scratch.path


def _is_half_free(directory: Path) -> bool:
    found = os.statvfs(directory)
    return 2 * found.f_bavail >= found.f_blocks

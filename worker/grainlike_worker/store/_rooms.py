"""Rooms for replicas that are not whole: the files to which they are written, allocated before a byte comes."""

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
"""Most bytes of shared memory that are allocated without a thread, in a millisecond or two."""

_THREADS = 2

_SMALL = 1024 * 1024
"""Bytes below which a value is a file if half of a small shared memory is free, because a file needs no descriptor."""


class ReplicaRoom:
    """Room that was asked for. `told` is set when the store scheduler has answered: with a tier, or with None and why.
    Then `path` is the file, all of it allocated.
    """

    __slots__ = ("answer", "path", "told")

    def __init__(self) -> None:
        self.told = anyio.Event()
        self.answer: Tier | str | None = None
        self.path: Path | None = None


class LeftRoom(NamedTuple):
    """Room of `size` bytes in which an unfinished copy has left the first `at`, for the next copy to go on with."""

    path: Path
    size: int
    at: int


class RoomFiles:
    """Files of rooms for the replicas in `directory`: in shared memory there, in memory that this process holds
    (`held`), or on a disk, in a directory of `place`.

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
        """Files that nothing needs any more, kept for the next values; None if none are kept."""
        self._place = place
        self._scratch = scratch
        self._threads: anyio.CapacityLimiter | None = None
        self._numbers = itertools.count(1)

    async def allocate(self, file: Path, size: int, tier: Tier, free: int) -> Path:
        """Return a file of `size` bytes, all allocated, in which the replica `file` is written. `free` is what then
        remains of the budget: the bytes that kept files may take. Raises `OSError` if that is not possible.
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
        """Return a new path in a tier at which the replica `file` may be written. Each call gives another path, so that
        an attempt that was given up and still writes does not disturb the next.
        """
        return replica_room(file.parent if tier is Tier.MEMORY else self._disk(), file, next(self._numbers))

    def release(self, room: Path | None) -> None:
        """Remove a room, if it exists."""
        if room is None:
            return
        if self._held is not None and is_held(room):
            self._held.release(room)
            return
        with suppress(OSError):
            room.unlink()

    def seal(self, room: Path | None) -> Path | None:
        """Forbid every change to the bytes in a room, if this process holds the memory; return the room then."""
        if self._held is None or room is None or not is_held(room):
            return None
        self._held.seal(room)
        return room

    def limiter(self) -> anyio.CapacityLimiter:
        """Return the limiter of the threads for disks, so that they do not take threads of the user's program."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return self._threads

    def remove(self) -> None:
        """Remove the directory on disk with all files, and release memory."""
        if self._held is not None:
            self._held.release_all()
        if self._scratch is not None:
            self._scratch.remove()

    def _disk(self) -> Path:
        """Return the directory on disk, which is made at the first call. Raises `OSError` if that is not possible."""
        if self._scratch is None and self._place is not None:
            self._scratch = SharedDirectory.make(self._place)
        if self._scratch is None:
            raise OSError(f"no directory can be made in {self._place}")
        return self._scratch.path


def _is_half_free(directory: Path) -> bool:
    found = os.statvfs(directory)
    return 2 * found.f_bavail >= found.f_blocks

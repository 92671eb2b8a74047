"""Room for replicas that are not whole: the files to which they are written, each allocated before a byte comes."""

from __future__ import annotations

import itertools
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

from grainlike.payload import SharedDirectory, allocate_replica, replica_room
from grainlike.scheduler.store import Tier

__all__ = ["LeftRoom", "ReplicaRoom", "RoomFiles"]

_AT_ONCE = 4 * 1024 * 1024
"""Bytes of shared memory that are allocated without a thread: it takes a millisecond or two."""

_THREADS = 2


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
    """Files of rooms for the replicas in `directory`: in shared memory there, or on a disk in a directory of `place`.

    Example::

        files = RoomFiles(directory, Path("/var/tmp"))
        room = await files.allocate(replica_path(directory, 7, 1), 200_064, Tier.SCRATCH)
        files.remove()
    """

    def __init__(self, directory: Path | None, place: Path | None, scratch: SharedDirectory | None) -> None:
        self.at_once = _AT_ONCE
        """Bytes of shared memory that are allocated in this thread."""
        self._directory = directory
        self._place = place
        self._scratch = scratch
        self._threads: anyio.CapacityLimiter | None = None
        self._numbers = itertools.count(1)

    async def allocate(self, file: Path, size: int, tier: Tier) -> Path:
        """Return a new file of `size` bytes, all of them allocated, in which the replica `file` is written. Raises
        `OSError` where that is not possible.
        """
        room = self.path(file, tier)
        if tier is Tier.MEMORY and size <= self.at_once:
            allocate_replica(room, size)
        else:
            await anyio.to_thread.run_sync(allocate_replica, room, size, limiter=self.limiter())
        return room

    def path(self, file: Path, tier: Tier) -> Path:
        """Return where in a tier the replica `file` may be written, each time another place: what an attempt that was
        given up still writes is not in the way of the next.
        """
        return replica_room(file.parent if tier is Tier.MEMORY else self._disk(), file, next(self._numbers))

    def release(self, room: Path | None) -> None:
        """Remove a room, if it is there."""
        if room is not None:
            with suppress(OSError):
                room.unlink()

    def is_on_disk(self, room: Path) -> bool:
        """Return True for a room on disk, whose bytes are sealed with their CRC-32."""
        return room.parent != self._directory

    def limiter(self) -> anyio.CapacityLimiter:
        """Return what lets these threads wait for each other, and not for those of the user's program."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(_THREADS)
        return self._threads

    def remove(self) -> None:
        """Remove the directory on disk with all that is in it."""
        if self._scratch is not None:
            self._scratch.remove()

    def _disk(self) -> Path:
        """Return the directory on disk, made when it is first needed; `OSError` where that is not possible."""
        if self._scratch is None and self._place is not None:
            self._scratch = SharedDirectory.make(self._place)
        if self._scratch is None:
            raise OSError(f"no directory can be made in {self._place}")
        return self._scratch.path

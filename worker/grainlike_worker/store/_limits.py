"""Limits of a worker's store: how much shared memory and disk its values may take, and where that disk is."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path
from typing import NamedTuple

from grainlike.errors import ResourceSpecError
from grainlike.payload import is_memory_small
from grainlike.resources import Allocation
from grainlike.resources._quantity import UNIT, in_bytes, quantity
from grainlike.system import free_bytes, is_in_memory, own_memory

__all__ = ["StoreLimits", "StoreOptions", "store_limits"]

logger = logging.getLogger("grainlike.worker")

_SHARED = Path("/dev/shm")  # noqa: S108 - where the directories of replicas are
_STORE_PERCENT = 30
_SCRATCH_PERCENT = 80


class StoreOptions(NamedTuple):
    """Options for a worker's store: sizes as text, and a directory. None means the default."""

    store: str | None = None
    scratch: str | os.PathLike[str] | None = None
    scratch_limit: str | None = None


class StoreLimits(NamedTuple):
    """Limits of a store: bytes of shared memory and of disk; the directory on disk, None without one; how many outputs
    may exceed the budget; the memory that the store shares with its jobs, 0 if jobs were offered none; and True if the
    worker holds the memory itself, because the file system of shared memory is too small.
    """

    memory: int
    scratch: int = 0
    place: Path | None = None
    slots: int = 1
    machine: int = 0
    is_held: bool = False


def store_limits(options: StoreOptions, offer: Allocation) -> StoreLimits:
    """Return the limits of the store of a worker with this offer.

    Raises:
        ResourceSpecError: a size is no size, or is more than the worker's memory; or the directory cannot be used.
    """
    usable = offer.memory or own_memory()
    place = _default_place() if options.scratch is None else _checked_place(options.scratch)
    scratch = _scratch(options.scratch_limit, place)
    room = free_bytes(_SHARED) if _SHARED.is_dir() else 0
    may_hold = room > 0 and is_memory_small()
    memory = _memory(options.store, usable, room=usable if may_hold else room)
    slots = max(1, len(offer.cores))
    return StoreLimits(memory, scratch, place, slots, offer.memory, is_held=may_hold and memory > room)


def _scratch(asked: str | None, place: Path | None) -> int:
    """Return how many bytes of a disk values may take."""
    free = 0 if place is None else free_bytes(place)
    if asked is None:
        return free * _SCRATCH_PERCENT // 100
    size = _size("scratch_limit", asked)
    if size and place is None:
        raise ResourceSpecError("scratch_limit: there is no disk for it; name a directory on a disk with scratch")
    if size > free:
        words = "values may take %s of the disk, but %s has room for only %s: when it is full, none is written there"
        logger.warning(words, _shown(size), place, _shown(free))
    return size


def _memory(asked: str | None, usable: int, room: int) -> int:
    """Return the budget of shared memory, in a file system with `room` bytes free."""
    if asked is None:
        return min(usable * _STORE_PERCENT // 100, room)
    size = _size("store", asked)
    if usable and size > usable:
        raise ResourceSpecError(f"store: {_shown(size)} is more than the worker's memory of {_shown(usable)}")
    if size > room:
        words = "the store may take %s of shared memory, but %s has room for only %s: values that do not fit go to disk"
        logger.warning(words, _shown(size), _SHARED, _shown(room))
    return size


def _size(what: str, text: str) -> int:
    try:
        size = quantity(text)
    except ResourceSpecError as error:
        raise ResourceSpecError(f"{what}: {error}") from error
    if size < 0 or size % UNIT:
        raise ResourceSpecError(f"{what}: {text!r} is no number of bytes, such as 8Gi")
    return size // UNIT


def _shown(size: int) -> str:
    return in_bytes(size * UNIT)


def _default_place() -> Path | None:
    """Return the directory for temporary files, if it is on a disk that we can use."""
    places = [*map(os.environ.get, ("TMPDIR", "TEMP", "TMP")), "/tmp", "/var/tmp"]  # noqa: S108 - as `tempfile` looks
    for place in map(Path, filter(None, places)):
        if not _why_not(place):
            return place.absolute()
    return None


def _checked_place(asked: str | os.PathLike[str]) -> Path:
    try:
        place = Path(asked).expanduser()
    except (TypeError, RuntimeError) as error:  # it is no path, or begins with a user that there is not
        raise ResourceSpecError(f"scratch: {asked!r} is no directory") from error
    if not os.fspath(asked):  # a variable that is not set, and no wish for the current directory
        raise ResourceSpecError("scratch: '' is no directory")
    why = _why_not(place)
    if why:
        raise ResourceSpecError(f"scratch: {place} {why}")
    return place.absolute()


def _try(place: Path) -> None:
    """Write a file, and remove it: a file server, or the kernel, may refuse what the rights allow, or have no room.

    No directory: to remove one takes some milliseconds on the usual file systems.
    """
    mine = place / f".grainlike-{os.urandom(8).hex()}"
    fd = os.open(mine, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, b"x")
    finally:
        os.close(fd)
        mine.unlink()


def _why_not(place: Path) -> str:
    """Return why a directory cannot hold values; an empty text if it can."""
    try:
        status = place.stat()
        if not stat.S_ISDIR(status.st_mode):
            return "is no directory"
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            return "may not be written to by this user"
        if is_in_memory(place):
            return "is in memory: name a directory on a disk"
    except OSError as error:
        return f"cannot be used: {error.strerror}"
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to user id {status.st_uid}, not to us ({os.geteuid()}): choose another"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return f"could be changed by others; close it with: chmod go-w {place}"
    try:
        _try(place)
    except OSError as error:
        return f"may not be written to: {error.strerror}"
    return ""

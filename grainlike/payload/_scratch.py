"""Files of replicas, in shared memory or on disk: allocated before a byte is written, opened, and removed.

A replica on disk, in *scratch*, still has its name in shared memory: a symbolic link to the file on disk. The link
replaces the file in memory in one step, so a process that opens the name gets one or the other. The name of the file on
disk ends with the CRC-32 of its bytes, which is checked before they are used.

If the file system of shared memory is too small, a process holds the memory of replicas for others. Each is a `memfd`
of a worker's daemon, opened as `/proc/PID/fd/N`, and the replica's name is a link to that path. The same path may later
be another file, or a file of another process. So a process that opens it checks the name that the system has for the
file: it contains the directory's name, which no other file's name contains.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import weakref
import zlib
from contextlib import suppress
from pathlib import Path

from grainlike.errors import SerializationError
from grainlike.payload._mapping import allocate_memory, private_map
from grainlike.payload._payload import Buffer
from grainlike.payload._shared_directory import is_shared_directory, unlink

__all__ = [
    "ReplicaSource",
    "allocate_replica",
    "check_replica",
    "copy_replica",
    "crc_of_file",
    "hold_memory",
    "is_held",
    "is_on_disk",
    "open_replica",
    "open_room",
    "remove_replica",
    "replica_room",
    "seal_held",
    "seal_replica",
]

_CHUNK = 1024 * 1024
_DAMAGED = "the bytes of a value are damaged: they are not those that were written to disk"
_HELD = re.compile(r"/proc/[0-9]+/fd/[0-9]+")
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
_OPEN = os.O_NOFOLLOW | os.O_CLOEXEC


def replica_room(directory: Path, path: Path, number: int = 0) -> Path:
    """Return the path at which the replica `path` is written before it is whole, in a directory; each number has its
    own.

    >>> replica_room(Path("/tmp/x"), Path("/dev/shm/y/v7-1"), 3).name
    'v7-1.3.part'
    """
    return directory / f"{path.name}.{number}.part"


def allocate_replica(room: Path, size: int) -> None:
    """Make a new file with `size` bytes, at least one, and allocate all of them. Raises `OSError` if there is no room;
    no file is left then.
    """
    fd = os.open(room, os.O_RDWR | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
    try:
        if is_shared_directory(str(room.parent)):
            allocate_memory(fd, size)
        else:
            os.posix_fallocate(fd, 0, size)
    except BaseException:
        unlink(room)
        raise
    finally:
        os.close(fd)


def is_held(room: Path | str) -> bool:
    """Return True for a path to memory that a process holds.

    >>> is_held("/proc/7/fd/12"), is_held("/dev/shm/x/v7-1")
    (True, False)
    """
    return _HELD.fullmatch(str(room)) is not None


def hold_memory(path: Path, size: int) -> int:
    """Return the descriptor of new memory for the replica `path`, with `size` bytes, all allocated. Raises `OSError` if
    there is no memory, or if other processes could not open it.
    """
    fd = os.memfd_create(_held_name(path), os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        allocate_memory(fd, size)
        os.close(open_held(f"/proc/{os.getpid()}/fd/{fd}", path, os.O_RDONLY))
    except BaseException:
        os.close(fd)
        raise
    return fd


def seal_held(fd: int) -> None:
    """Forbid every change to the bytes and the size of memory."""
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)


def open_held(room: Path | str, path: Path, flags: int) -> int:
    """Open memory that a process holds for the replica `path`. Raises `FileNotFoundError` if it is released."""
    fd = os.open(room, flags | os.O_CLOEXEC)
    if os.readlink(f"/proc/self/fd/{fd}").removesuffix(" (deleted)") != f"/memfd:{_held_name(path)}":  # noqa: PTH115
        os.close(fd)
        raise FileNotFoundError(f"{room} is not {path.name} any more")
    return fd


def open_room(room: Path, path: Path, flags: int) -> int:
    """Open the room in which the replica `path` is written, in memory or on disk. Raises `OSError` if it is gone."""
    if is_held(room):
        return open_held(room, path, flags)
    return os.open(room, flags | os.O_NOFOLLOW | os.O_CLOEXEC)


def is_on_disk(room: Path, path: Path) -> bool:
    """Return True if a room of the replica `path` is on disk."""
    return room.parent != path.parent and not is_held(room)


def seal_replica(room: Path, path: Path, crc: int) -> None:
    """Make a whole file the replica `path`. For a file on disk, `crc` is the CRC-32 of its bytes."""
    if room.parent == path.parent:
        room.rename(path)
        return
    kept = room
    if not is_held(room):
        kept = room.with_name(f"{path.name}.{crc:08x}")
        room.rename(kept)
    link = path.with_name(f"{path.name}.link")
    try:
        unlink(link)
        link.symlink_to(kept)
        link.rename(path)
    except BaseException:
        unlink(kept)
        raise


def open_replica(path: Path | str) -> tuple[int, int | None]:
    """Open a replica for reading, in memory or on disk. Return the descriptor, and the CRC-32 of the bytes on disk;
    None for memory, which has none.

    Raises `OSError` if the replica is gone.
    """
    try:
        return os.open(path, os.O_RDONLY | _OPEN), None
    except OSError as error:
        target = _target(path) if error.errno == errno.ELOOP else None
        if target is None:
            raise
        if is_held(target):
            return open_held(target, Path(path), os.O_RDONLY), None
        return os.open(target, os.O_RDONLY | _OPEN), int(target[-8:], 16)


def check_replica(fd: int, crc: int | None) -> None:
    """Check the bytes of an open replica; nothing is checked if `crc` is None.

    The bytes are read, not mapped: if the disk fails, a read raises an error, while a mapping would kill the process.

    Raises `SerializationError` if the bytes are damaged.
    """
    if crc is None:
        return
    try:
        found = crc_of_file(fd)
    except OSError as error:
        raise SerializationError(f"the bytes of a value are damaged: {error.strerror}") from error
    if found != crc:
        raise SerializationError(_DAMAGED)


def crc_of_file(fd: int, end: int | None = None) -> int:
    """Return the CRC-32 of the bytes of an open file, up to `end` if that is given. Raises `OSError` if the file cannot
    be read.
    """
    found = at = 0
    buffer = memoryview(bytearray(_CHUNK))
    while end is None or at < end:
        count = os.preadv(fd, [buffer if end is None else buffer[: end - at]], at)
        if not count:
            break
        found = zlib.crc32(buffer[:count], found)
        at += count
    return found


class ReplicaSource:
    """Bytes of a replica that are sent in order, from byte `begin` on: mapped in shared memory, read from disk.

    Raises `OSError` if the replica is gone, and `ValueError` if it is empty. Example::

        source = ReplicaSource(replica_path(directory, 7, 1))
        parts = [source.read(at, min(at + 4096, source.size)) for at in range(0, source.size, 4096)]
    """

    __slots__ = ("__weakref__", "_close", "_crc", "_fd", "_found", "_view", "size")

    def __init__(self, path: Path, begin: int = 0) -> None:
        fd, self._crc = open_replica(path)
        self._close = weakref.finalize(self, os.close, fd)
        self._fd = fd
        self.size: int = os.fstat(fd).st_size
        self._found = 0
        self._view = None
        if self._crc is None:
            self._view = private_map(fd, self.size)
            self._close()
        else:
            self._found = crc_of_file(fd, begin)

    def read(self, begin: int, end: int) -> Buffer:
        """Return the bytes from `begin` to `end`, which follow the bytes of the last call.

        Raises `OSError` if the disk fails. Raises `SerializationError` in place of the last bytes, if the bytes on disk
        are damaged.
        """
        if self._view is not None:
            return self._view[begin:end]
        data = os.pread(self._fd, end - begin, begin)
        self._found = zlib.crc32(data, self._found)
        if len(data) != end - begin or (end == self.size and self._found != self._crc):
            raise SerializationError(_DAMAGED)
        return data


def copy_replica(path: Path, room: Path) -> int:
    """Copy a replica from memory to a new file, and return the CRC-32 of its bytes. Raises `FileNotFoundError` if the
    replica is gone, and `OSError` if the file cannot be written; no file is left then.
    """
    source, _ = open_replica(path)
    try:
        allocate_replica(room, max(os.fstat(source).st_size, 1))
        try:
            return _copied(source, room)
        except BaseException:
            unlink(room)
            raise
    finally:
        os.close(source)


def remove_replica(path: Path | str) -> None:
    """Remove a replica, in memory or on disk, if it exists."""
    target = _target(path)
    for one in (path,) if target is None or is_held(target) else (path, target):
        with suppress(OSError):
            os.unlink(one)  # noqa: PTH108 - a `Path` for each costs as much as all else


def _copied(source: int, room: Path) -> int:
    crc = 0
    buffer = memoryview(bytearray(_CHUNK))
    target = os.open(room, os.O_WRONLY | _OPEN)
    try:
        while count := os.readv(source, [buffer]):
            crc = zlib.crc32(buffer[:count], crc)
            left = buffer[:count]
            while left.nbytes:
                left = left[os.write(target, left) :]
    finally:
        os.close(target)
    return crc


def _target(path: Path | str) -> str | None:
    """Return the file to which a replica's name links, if `seal_replica` has made the link."""
    try:
        target = os.readlink(path)  # noqa: PTH115 - as above
    except OSError:
        return None
    name = re.escape(os.path.basename(path))  # noqa: PTH119 - as above
    return target if is_held(target) or re.fullmatch(rf".*/{name}\.[0-9a-f]{{8}}", target, re.DOTALL) else None


def _held_name(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"

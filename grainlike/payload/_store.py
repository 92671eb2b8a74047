"""Large buffers by way of memory that processes of one machine share, instead of through sockets.

A `Store` is a directory of files in shared memory. `put` writes a payload's buffers into one of them and gives a
payload without buffers that names it; `load_arguments` and `load_value` map the file where they meet such a name.
Everybody on the way, worker and head, carries the name alone. Bytes are copied once on each side: into the file, and
where an object is changed that was rebuilt upon it.

A name is of no use but to processes that know the directory: it is a file's name there, never a path, and the directory
and its files are their owner's alone. Who made the store removes it with all that nobody took; `sweep` removes those of
processes that were killed.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grainlike.errors import SerializationError
from grainlike.payload._mapping import private_map
from grainlike.payload._payload import Buffer, Payload

__all__ = ["LEAST", "MARK", "Store", "drop", "is_stored", "know", "mapped", "memory_id", "stored_bytes"]

LEAST = 256 * 1024
"""Bytes below which buffers had better go through the socket: making and mapping a file costs as much."""

MARK = b"\x01store\x00"
"""What the stream of a payload in a store begins with; a pickle never does."""

_HOME = Path("/dev/shm")  # noqa: S108 - ours is a directory of mode 0700 in it
_PREFIX = "grainlike-store-"
_LOCK = "owner.lock"
_FILE = re.compile(r"[a-z0-9-]{1,64}")
_HEAD = struct.Struct("<H")
"""Number of runs of buffers, each in one file."""
_RUN = struct.Struct("<HIQ")
"""The length of the file's name, how many buffers there are, and where in the file the first begins."""
_SIZE = struct.Struct("<Q")
_ALIGNED = 64

_MOST = 1 << 62
"""Bytes that no file has."""

_uses: dict[str, int] = {}
"""For how many payloads a file is kept, of those that more than one may need."""

_known: list[Path] = []
"""The directories that this process may take files from."""


class BufferRun(NamedTuple):
    """Buffers of a payload that lie one after another in one file."""

    name: str
    at: int
    sizes: list[int]


class Store:
    """A directory of shared memory that belongs to this process, or that its owner told this process of.

    Example::

        store = Store.make()
        payload = store.put(dump_value(array), "7-1")     # mentions the file 7-1, and holds no buffer
        load_value(payload)                               # here or in a process that knows the directory
        drop(payload.data)
        store.remove()
    """

    def __init__(self, directory: Path, lock: int = -1) -> None:
        self.directory = directory
        self._lock = lock
        """Held while its maker lives, so that others see that it does; -1 for those who only know it."""

    @classmethod
    def make(cls) -> Store | None:
        """A new one, after sweeping what killed processes left; None where there is no shared memory to be had."""
        if not _HOME.is_dir():
            return None
        _sweep()
        try:
            # By hand, as every program with an executor does it, and `tempfile` takes a while to import.
            directory = _HOME / f"{_PREFIX}{os.urandom(8).hex()}"
            directory.mkdir(mode=0o700)
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:
            return None
        know(directory)
        return cls(directory, lock)

    def put(self, payload: Payload, name: str) -> Payload:
        """The same payload with its buffers in the file `name`; as it is where they are small, or there is no room."""
        if sum(memoryview(buffer).nbytes for buffer in payload.buffers) < LEAST:
            return payload
        buffers = [memoryview(buffer).cast("B") for buffer in payload.buffers]
        try:
            self.write(name, buffers)
        except OSError:
            return payload
        return Payload(named([BufferRun(name, 0, [buffer.nbytes for buffer in buffers])]) + payload.data)

    def own(self, name: str) -> str:
        """Return the name with a part of the directory's: files of two stores that one process knows differ."""
        return f"{name}-{self.directory.name[-12:]}"

    def write(self, name: str, buffers: Sequence[memoryview]) -> None:
        """Write buffers into the file `name`; where that raises `OSError`, there is no such file."""
        try:
            self._write(name, buffers)
        except OSError:
            self.discard(name)
            raise

    def discard(self, name: str) -> None:
        """Remove the file `name`, if there is one."""
        _unlink(self.directory / name)

    def remove(self) -> None:
        """Remove the directory with all that is in it."""
        with suppress(ValueError):
            _known.remove(self.directory)
        _remove_all(self.directory)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _write(self, name: str, buffers: Sequence[memoryview]) -> None:
        """By `write`: it refuses where there is no room, while a store through a mapping would kill the process."""
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            for buffer in buffers:
                left = buffer
                while left.nbytes:
                    left = left[os.write(fd, left) :]
                os.lseek(fd, -buffer.nbytes % _ALIGNED, os.SEEK_CUR)
            os.ftruncate(fd, sum(padded(buffer.nbytes) for buffer in buffers))
        finally:
            os.close(fd)


def memory_id() -> str:
    """Return an id that two processes have in common if they can share a store: machine, shared memory, user. Empty
    where
    there is none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{_HOME.stat().st_dev}:{os.getuid()}"
    except OSError:
        return ""


def know(directory: Path) -> None:
    """Take files from this directory from now on."""
    if directory not in _known:
        _known.append(directory)


def is_stored(data: Buffer) -> bool:
    """Return True if a payload's stream names shared memory in place of its buffers."""
    return data[: len(MARK)] == MARK


def stored_bytes(data: Buffer) -> int:
    """Return the size of the buffers that a payload's stream names in shared memory; 0 for any other."""
    return sum(sum(run.sizes) for run in _taken_apart(data)[0]) if is_stored(data) else 0


def drop(data: Buffer) -> None:
    """Remove the files that a payload's stream names, if it names any, but for those that others need, too (`retain`);
    whoever has mapped one keeps it.
    """
    if is_stored(data):
        for name in dict.fromkeys(run.name for run in _taken_apart(data)[0]):
            release(name)


def retain(name: str) -> None:
    """Keep a file for one payload more: it is removed when `drop` was called for as many."""
    _uses[name] = _uses.get(name, 0) + 1


def retained(name: str) -> bool:
    """Return True if a file of this process is kept for some payload."""
    return name in _uses


def release(name: str) -> None:
    """Remove a file, unless it is kept for other payloads, too."""
    uses = _uses.pop(name, 1) - 1
    if uses:
        _uses[name] = uses
        return
    for directory in _known:
        _unlink(directory / name)


def padded(size: int) -> int:
    """Return the bytes that a buffer takes in a file."""
    return size + -size % _ALIGNED


def named(runs: Sequence[BufferRun]) -> bytes:
    """Return what stands in front of the stream of a payload whose buffers are in these runs, in this order."""
    parts = [MARK, _HEAD.pack(len(runs))]
    for name, at, sizes in runs:
        encoded = name.encode()
        parts += [_RUN.pack(len(encoded), len(sizes), at), encoded, *map(_SIZE.pack, sizes)]
    return b"".join(parts)


def mapped(data: Buffer) -> Payload:
    """The payload that a stream with `MARK` stands for, its buffers on private memory: a change reaches nobody.

    Raises `SerializationError` where the file is not there, or no file of ours.
    """
    runs, stream = _taken_apart(data)
    ends: dict[str, int] = {}
    for name, at, sizes in runs:
        ends[name] = max(ends.get(name, 0), at + sum(map(padded, sizes)))
    files = {name: map_file(name, total) for name, total in ends.items()}
    buffers: list[Buffer] = []
    for name, begin, sizes in runs:
        at = begin
        for size in sizes:
            buffers.append(files[name][at : at + size])
            at += padded(size)
    return Payload(stream, tuple(buffers))


def map_file(name: str, total: int) -> memoryview:
    """Map a file of so many bytes on private memory. Raises `SerializationError` where there is no such file."""
    fd = _open(name)
    try:
        if os.fstat(fd).st_size != total:
            raise SerializationError(f"the shared memory {name!r} is not of the size that was told")
        return private_map(fd, total)
    finally:
        os.close(fd)


def _open(name: str) -> int:
    for directory in _known:
        try:
            return os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SerializationError(f"the shared memory {name!r} cannot be opened: {error.strerror}") from error
    raise SerializationError(f"the shared memory {name!r} is gone: whoever made it has closed")


def _taken_apart(data: Buffer) -> tuple[list[BufferRun], Buffer]:
    """The runs of buffers, and the stream behind."""
    runs: list[BufferRun] = []
    try:
        at = len(MARK)
        (left,) = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        for _ in range(left):
            length, count, begin = _RUN.unpack_from(data, at)
            at += _RUN.size
            name = bytes(data[at : at + length]).decode("ascii")
            at += length
            sizes = [size for (size,) in _SIZE.iter_unpack(data[at : at + count * _SIZE.size])]
            at += count * _SIZE.size
            if not _FILE.fullmatch(name) or len(sizes) != count or begin >= _MOST:
                raise SerializationError(f"a payload names shared memory as nobody does: {name!r}")
            runs.append(BufferRun(name, begin, sizes))
    except (struct.error, UnicodeDecodeError) as error:
        raise SerializationError("a payload names shared memory in a way that nobody writes") from error
    return runs, data[at:]


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _remove_all(directory: Path) -> None:
    """Remove a store's directory, in which there are files alone; the lock at last, for until then it can be swept."""
    with suppress(OSError):
        for name in sorted(os.listdir(directory), key=_LOCK.__eq__):  # noqa: PTH208 - names are all that is needed
            _unlink(directory / name)
        directory.rmdir()


def _sweep() -> None:
    """Remove what processes of this user left that are no more."""
    with suppress(OSError):
        for path in _HOME.glob(f"{_PREFIX}*"):
            if path.stat().st_uid == os.getuid() and not _has_owner(path):
                _remove_all(path)


def _has_owner(directory: Path) -> bool:
    """By its lock, not by a process number: another container may share the memory, and count its processes anew."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True  # just being made, or just being removed
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False

"""Large buffers in memory that processes of one machine share, instead of messages through sockets.

A `Store` is a directory of files in shared memory. `put` writes a payload's buffers into one file, and returns a
payload without buffers that names the file. `load_arguments` and `load_value` map the file when they read the name.
Workers and the head pass on the name alone. Bytes are copied when the file is written, and once more if an object that
was rebuilt on the mapped file is changed.

A name is a file's name in the directory, never a path, so only processes that know the directory can use it. The
directory and its files belong to one user alone. The process that made the store removes it, with all files; `sweep`
removes the directories of processes that were killed.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from grainlike.errors import SerializationError
from grainlike.payload._mapping import private_map, take_huge_pages
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._shared_directory import SharedDirectory, flat, padded, unlink, write_padded

__all__ = ["LEAST", "MARK", "Store", "drop", "is_stored", "know", "mapped", "stored_bytes"]

LEAST = 256 * 1024
"""Bytes below which buffers go through the socket, because making and mapping a file costs as much."""

MARK = b"\x01store\x00"
"""Beginning of the stream of a payload in a store; no pickle begins with it."""

_FILE = re.compile(r"[a-z0-9-]{1,64}")
_HEAD = struct.Struct("<H")
"""Number of runs of buffers, each in one file."""
_RUN = struct.Struct("<HIQ")
"""Length of the file's name, number of buffers, and position of the first buffer in the file."""
_SIZE = struct.Struct("<Q")

_MOST = 1 << 62
"""More bytes than any file has."""

_uses: dict[str, int] = {}
"""Number of payloads that need a file, by name, for files that several payloads may need."""

_known: list[Path] = []
"""Directories from which this process may take files."""


class BufferRun(NamedTuple):
    """Buffers of a payload that lie one after another in one file."""

    name: str
    at: int
    sizes: list[int]


class Store:
    """Directory of shared memory, which this process has made, or about which its owner told this process.

    Example::

        store = Store.make()
        payload = store.put(dump_value(array), "7-1")     # mentions the file 7-1, and holds no buffer
        load_value(payload)                               # here or in a process that knows the directory
        drop(payload.data)
        store.remove()
    """

    def __init__(self, directory: Path, made: SharedDirectory | None = None) -> None:
        self.directory = directory
        self._made = made
        """None if another process has made the directory."""

    @classmethod
    def make(cls) -> Store | None:
        """Return a new store, after removing what killed processes left; None if there is no shared memory."""
        made = SharedDirectory.make()
        if made is None:
            return None
        know(made.path)
        return cls(made.path, made)

    def put(self, payload: Payload, name: str) -> Payload:
        """Return the payload with its buffers in the file `name`; unchanged if they are small, or there is no room."""
        if sum(memoryview(buffer).nbytes for buffer in payload.buffers) < LEAST:
            return payload
        buffers = list(map(flat, payload.buffers))
        try:
            self.write(name, buffers)
        except OSError:
            return payload
        return Payload(named([BufferRun(name, 0, [buffer.nbytes for buffer in buffers])]) + payload.data)

    def own(self, name: str) -> str:
        """Return a name with a part of the directory's name, which makes it different from names in other stores."""
        return f"{name}-{self.directory.name[-12:]}"

    def write(self, name: str, buffers: Sequence[memoryview]) -> None:
        """Write buffers into the file `name`; if that raises `OSError`, no such file is left."""
        try:
            self._write(name, buffers)
        except OSError:
            self.discard(name)
            raise

    def discard(self, name: str) -> None:
        """Remove the file `name`, if there is one."""
        unlink(self.directory / name)

    def remove(self) -> None:
        """Remove the directory with its files, if this process made it; take no more files from the directory."""
        with suppress(ValueError):
            _known.remove(self.directory)
        if self._made is not None:
            self._made.remove()

    def _write(self, name: str, buffers: Sequence[memoryview]) -> None:
        fd = os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            take_huge_pages(fd, sum(padded(buffer.nbytes) for buffer in buffers))
            write_padded(fd, buffers)
        finally:
            os.close(fd)


def know(directory: Path) -> None:
    """Allow this process to take files from a directory."""
    if directory not in _known:
        _known.append(directory)


def is_stored(data: Buffer) -> bool:
    """Return True if a payload's stream names files in shared memory in place of its buffers."""
    return data[: len(MARK)] == MARK


def stored_bytes(data: Buffer) -> int:
    """Return the size of the buffers in shared memory that a payload's stream names; 0 for other streams."""
    return sum(sum(run.sizes) for run in _taken_apart(data)[0]) if is_stored(data) else 0


def drop(data: Buffer) -> None:
    """Remove the files that a payload's stream names, except those that other payloads need (`retain`). A process that
    has mapped a file keeps its bytes.
    """
    if is_stored(data):
        for name in dict.fromkeys(run.name for run in _taken_apart(data)[0]):
            release(name)


def retain(name: str) -> None:
    """Keep a file for one more payload: the file is removed after as many calls of `drop`."""
    _uses[name] = _uses.get(name, 0) + 1


def retained(name: str) -> bool:
    """Return True if this process keeps a file for a payload."""
    return name in _uses


def release(name: str) -> None:
    """Remove a file, unless other payloads need it."""
    uses = _uses.pop(name, 1) - 1
    if uses:
        _uses[name] = uses
        return
    for directory in tuple(_known):  # another thread may remove a store meanwhile
        unlink(directory / name)


def named(runs: Sequence[BufferRun]) -> bytes:
    """Return the bytes that go before the stream of a payload whose buffers are in these runs, in this order."""
    parts = [MARK, _HEAD.pack(len(runs))]
    for name, at, sizes in runs:
        encoded = name.encode()
        parts += [_RUN.pack(len(encoded), len(sizes), at), encoded, *map(_SIZE.pack, sizes)]
    return b"".join(parts)


def mapped(data: Buffer) -> Payload:
    """Return the payload for a stream with `MARK`. Its buffers are in memory that only this process has.

    Raises `SerializationError` if a file is missing, or is no file of a store.
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
    """Map a file of `total` bytes on private memory. Raises `SerializationError` if there is no such file."""
    fd = _open(name)
    try:
        if os.fstat(fd).st_size != total:
            raise SerializationError(f"the shared memory {name!r} has another size than the payload says")
        return private_map(fd, total)
    finally:
        os.close(fd)


def _open(name: str) -> int:
    for directory in tuple(_known):  # another thread may remove a store meanwhile
        try:
            return os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SerializationError(f"the shared memory {name!r} cannot be opened: {error.strerror}") from error
    raise SerializationError(f"the shared memory {name!r} is gone: the process that made it has ended")


def _taken_apart(data: Buffer) -> tuple[list[BufferRun], Buffer]:
    """Return the runs of buffers, and the stream that follows them."""
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
                raise SerializationError(f"a payload names shared memory that no store has: {name!r}")
            runs.append(BufferRun(name, begin, sizes))
    except (struct.error, UnicodeDecodeError) as error:
        raise SerializationError("the names of shared memory in a payload are damaged") from error
    return runs, data[at:]

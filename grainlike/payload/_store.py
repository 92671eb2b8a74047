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
from grainlike.payload._shared_directory import SharedDirectory, flat, padded, unlink, write_padded

__all__ = ["LEAST", "MARK", "Store", "drop", "is_stored", "know", "mapped", "stored_bytes"]

LEAST = 256 * 1024
"""Bytes below which buffers had better go through the socket: making and mapping a file costs as much."""

MARK = b"\x01store\x00"
"""What the stream of a payload in a store begins with; a pickle never does."""

_FILE = re.compile(r"[a-z0-9-]{1,64}")
_HEAD = struct.Struct("<H")
"""Number of runs of buffers, each in one file."""
_RUN = struct.Struct("<HIQ")
"""The length of the file's name, how many buffers there are, and where in the file the first begins."""
_SIZE = struct.Struct("<Q")

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

    def __init__(self, directory: Path, made: SharedDirectory | None = None) -> None:
        self.directory = directory
        self._made = made
        """None for those who only know it."""

    @classmethod
    def make(cls) -> Store | None:
        """A new one, after sweeping what killed processes left; None where there is no shared memory to be had."""
        made = SharedDirectory.make()
        if made is None:
            return None
        know(made.path)
        return cls(made.path, made)

    def put(self, payload: Payload, name: str) -> Payload:
        """The same payload with its buffers in the file `name`; as it is where they are small, or there is no room."""
        if sum(memoryview(buffer).nbytes for buffer in payload.buffers) < LEAST:
            return payload
        buffers = list(map(flat, payload.buffers))
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
        unlink(self.directory / name)

    def remove(self) -> None:
        """Remove the directory with all that is in it, if this process made it; and take no more files from it."""
        with suppress(ValueError):
            _known.remove(self.directory)
        if self._made is not None:
            self._made.remove()

    def _write(self, name: str, buffers: Sequence[memoryview]) -> None:
        fd = os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            write_padded(fd, buffers)
        finally:
            os.close(fd)


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
        unlink(directory / name)


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

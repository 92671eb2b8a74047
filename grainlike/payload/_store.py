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

from grainlike.errors import SerializationError
from grainlike.payload._mapping import private_map
from grainlike.payload._payload import Buffer, Payload
from grainlike.payload._shared_directory import SharedDirectory, flat, padded, unlink, write_padded

__all__ = ["LEAST", "MARK", "Store", "drop", "is_stored", "know", "mapped"]

LEAST = 256 * 1024
"""Bytes below which buffers had better go through the socket: making and mapping a file costs as much."""

MARK = b"\x01store\x00"
"""What the stream of a payload in a store begins with; a pickle never does."""

_FILE = re.compile(r"[a-z0-9-]{1,64}")
_HEAD = struct.Struct("<HI")
"""The length of the file's name, and how many buffers there are."""
_SIZE = struct.Struct("<Q")

_known: list[Path] = []
"""The directories that this process may take files from."""


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
            self._write(name, buffers)
        except OSError:
            self.discard(name)
            return payload
        encoded = name.encode()
        sizes = b"".join(_SIZE.pack(buffer.nbytes) for buffer in buffers)
        head = MARK + _HEAD.pack(len(encoded), len(buffers)) + encoded + sizes
        return Payload(head + payload.data)

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


def drop(data: Buffer) -> None:
    """Remove the file that a payload's stream names, if it names one; whoever has mapped it keeps it."""
    if is_stored(data):
        name = _taken_apart(data)[0]
        for directory in _known:
            unlink(directory / name)


def mapped(data: Buffer) -> Payload:
    """The payload that a stream with `MARK` stands for, its buffers on private memory: a change reaches nobody.

    Raises `SerializationError` where the file is not there, or no file of ours.
    """
    name, sizes, stream = _taken_apart(data)
    fd = _open(name)
    try:
        total = sum(map(padded, sizes))
        if os.fstat(fd).st_size != total:
            raise SerializationError(f"the shared memory {name!r} is not of the size that was told")
        memory = private_map(fd, total)
    finally:
        os.close(fd)
    buffers: list[Buffer] = []
    at = 0
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += padded(size)
    return Payload(stream, tuple(buffers))


def _open(name: str) -> int:
    for directory in _known:
        try:
            return os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SerializationError(f"the shared memory {name!r} cannot be opened: {error.strerror}") from error
    raise SerializationError(f"the shared memory {name!r} is gone: whoever made it has closed")


def _taken_apart(data: Buffer) -> tuple[str, list[int], Buffer]:
    """The file's name, the sizes of the buffers in it, and the stream behind."""
    try:
        at = len(MARK)
        length, count = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = bytes(data[at : at + length]).decode("ascii")
        at += length
        sizes = [size for (size,) in _SIZE.iter_unpack(data[at : at + count * _SIZE.size])]
    except (struct.error, UnicodeDecodeError) as error:
        raise SerializationError("a payload names shared memory in a way that nobody writes") from error
    if not _FILE.fullmatch(name) or len(sizes) != count:
        raise SerializationError(f"a payload names shared memory as nobody does: {name!r}")
    return name, sizes, data[at + count * _SIZE.size :]

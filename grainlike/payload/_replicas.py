"""Replicas: files that each hold one whole value: its pickle stream, and its buffers.

A replica is named by the job that made the value, and by the attempt. It is written under another name, in room that
was allocated for it, and renamed when it is whole, so an unfinished one is never opened. A replica is never changed
afterwards, so any number of processes may map it. The bytes that a socket carries are the same.

The layout: first a head, with `_MAGIC`, the length of the stream, the number of buffers, the size of each buffer, and a
CRC-32 of all these. Then the stream and the buffers, each at a multiple of 64 bytes.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from grainlike._memory import mapped_memory
from grainlike.errors import SerializationError
from grainlike.payload._mapping import private_map
from grainlike.payload._payload import Buffer, Payload, stand_in
from grainlike.payload._scratch import check_replica, is_on_disk, open_replica, open_room, seal_replica
from grainlike.payload._shared_directory import flat, padded, unlink, write_padded

__all__ = [
    "STAY_BYTES",
    "ArrivingReplica",
    "ReplicaBytes",
    "arriving_replica",
    "map_replica",
    "replica_file",
    "replica_name",
    "replica_parts",
    "replica_path",
    "replica_payload",
    "replica_size",
    "write_replica",
]

STAY_BYTES = 64 * 1024
"""Bytes of a payload above which a value stays at the worker that made it."""

_MAGIC = b"grainval"
_HEAD = struct.Struct("<8sQI")
_SIZE = struct.Struct("<Q")
_CHECK = struct.Struct("<I")
_READ_BYTES = 256 * 1024
"""Size up to which reading a file costs less than mapping it, because a mapping has a page fault for each page."""

_MOST_BUFFERS = 1 << 16
"""Far more buffers than a payload has: a head that claims more is damaged."""


def replica_path(directory: Path, value: int, attempt: int) -> Path:
    """Return the path, in a directory of replicas, of the replica that this attempt of job `value` made.

    >>> replica_path(Path("/dev/shm/x"), 7, 1).name
    'v7-1'
    """
    return Path(replica_file(str(directory), value, attempt))


def replica_file(directory: str, value: int, attempt: int) -> str:
    """Return the path of a replica as text, which takes a tenth of the time of `replica_path`.

    >>> replica_file("/dev/shm/x", 7, 1)
    '/dev/shm/x/v7-1'
    """
    return f"{directory}/v{value}-{attempt}"


def replica_name(key: bytes, value: int, attempt: int) -> bytes:
    """Return the name by which a data server knows a replica: 16 bytes that cannot be guessed without the server's
    `key`. The head tells the name to workers that may have the replica.

    >>> len(replica_name(bytes(16), 7, 1))
    16
    """
    from hashlib import blake2b  # OpenSSL comes with it, and processes of jobs need none

    return blake2b(b"%d-%d" % (value, attempt), digest_size=16, key=key).digest()


def replica_size(payload: Payload) -> int:
    """Return the bytes of the file that holds a payload."""
    parts = _views(payload)
    return padded(len(_head(parts))) + sum(padded(part.nbytes) for part in parts)


def replica_parts(payload: Payload) -> list[memoryview]:
    """Return the bytes of the file that holds a payload, in parts. `replica_payload` reads them again.

    >>> b"".join(replica_parts(Payload(b"abc")))[:8]
    b'grainval'
    """
    parts = _views(payload)
    parts.insert(0, memoryview(_head(parts)))
    pads = [memoryview(bytes(padded(part.nbytes) - part.nbytes)) for part in parts]
    return [piece for pair in zip(parts, pads, strict=True) for piece in pair if piece.nbytes]


def write_replica(room: Path, path: Path, payload: Payload) -> int | None:
    """Write a payload to the allocated file `room`, make it the replica `path`, and return its size in bytes.

    Return None if that is not possible. The replica appears whole, or not at all, and no unfinished file is left.
    """
    parts = _views(payload)
    parts.insert(0, memoryview(_head(parts)))
    crc = _crc_of(parts) if is_on_disk(room, path) else 0
    try:
        fd = open_room(room, path, os.O_WRONLY)
        try:
            write_padded(fd, parts)
        finally:
            os.close(fd)
        seal_replica(room, path, crc)
    except OSError:
        unlink(room)
        return None
    except BaseException:  # the job is being cancelled
        unlink(room)
        raise
    return sum(padded(part.nbytes) for part in parts)


class ReplicaBytes:
    """Bytes of a replica of a payload in memory, as its file would have them. The payload must not change.

    Example::

        image = ReplicaBytes(dump_value(array).detached())
        parts = [image.read(at, min(at + 4096, image.size)) for at in range(0, image.size, 4096)]
    """

    __slots__ = ("_parts", "payload", "size")

    def __init__(self, payload: Payload) -> None:
        self.payload: Payload = payload
        self.size: int = 0
        self._parts: list[tuple[int, memoryview]] = []
        parts = _views(payload)
        for part in (memoryview(_head(parts)), *parts):
            self._parts.append((self.size, part))
            self.size += padded(part.nbytes)

    def read(self, begin: int, end: int) -> Buffer:
        """Return the bytes from `begin` to `end`."""
        data: bytearray | None = None
        for at, part in self._parts:
            first, last = max(begin, at), min(end, at + part.nbytes)
            if first >= last:
                continue
            if last - first == end - begin:
                return part[first - at : last - at]
            data = bytearray(end - begin) if data is None else data
            data[first - begin : last - begin] = part[first - at : last - at]
        return bytes(end - begin) if data is None else data


def map_replica(path: Path | str) -> Payload:
    """Return the payload in a file, on memory that only this process has; the file may be removed meanwhile.

    Raises `SerializationError` if the file is gone or damaged.
    """
    try:
        fd, crc = open_replica(path)
    except OSError as error:
        raise SerializationError(f"the value in {Path(path).name} is gone: {error.strerror}") from error
    try:
        check_replica(fd, crc)
        size = os.fstat(fd).st_size
        data = _read(fd, size) if size <= _READ_BYTES else private_map(fd, size)
    except OSError as error:
        raise SerializationError(f"the value in {Path(path).name} cannot be mapped: {error.strerror}") from error
    finally:
        os.close(fd)
    return replica_payload(data)


def replica_payload(data: Buffer) -> Payload:
    """Return the payload in the bytes of a replica; its buffers are views of these bytes.

    Raises `SerializationError` if the bytes are damaged or incomplete.
    """
    view = flat(data)
    stream, *buffers = _parts(view)
    return Payload(stream, tuple(buffers))


class ArrivingReplica:
    """Memory for the `size` bytes of a replica; see `arriving_replica`."""

    __slots__ = ("_memory",)

    def __init__(self, size: int) -> None:
        self._memory = mapped_memory(size) or bytearray(size)

    def take(self, at: int, buffers: Sequence[Buffer]) -> int:
        """Keep the part that begins with byte `at`, the first of `buffers`; return how many bytes it has."""
        part = memoryview(buffers[0]).cast("B")
        self._memory[at : at + part.nbytes] = part
        return part.nbytes

    def payload(self) -> Payload:
        """Return the payload of a replica that is whole.

        Raises:
            SerializationError: it is damaged.
        """
        return replica_payload(self._memory)


def arriving_replica(size: int) -> ArrivingReplica | Payload:
    """Return memory for a replica of so many bytes; where there is not so much, a payload that says so when loaded.

    Example::

        arriving = arriving_replica(200_064)
        arriving.take(0, [data])
        arriving.payload()
    """
    try:
        return ArrivingReplica(size)
    except (MemoryError, OverflowError):
        return Payload(stand_in(size, 0))


def _read(fd: int, size: int) -> bytearray:
    data = bytearray(size)
    count = os.readv(fd, [data])
    return data if count == size else data[:count]  # `replica_payload` finds that bytes are missing


def _views(payload: Payload) -> list[memoryview]:
    return [flat(payload.data), *map(flat, payload.buffers)]


def _head(parts: list[memoryview]) -> bytes:
    head = _HEAD.pack(_MAGIC, parts[0].nbytes, len(parts) - 1)
    head += b"".join(_SIZE.pack(part.nbytes) for part in parts[1:])
    return head + _CHECK.pack(zlib.crc32(head))


def _crc_of(parts: list[memoryview]) -> int:
    """Return the CRC-32 of parts and the padding between them, as in a file."""
    crc = 0
    for part in parts:
        crc = zlib.crc32(bytes(padded(part.nbytes) - part.nbytes), zlib.crc32(part, crc))
    return crc


def _parts(view: memoryview) -> Iterator[memoryview]:
    at, sizes = _sizes(view)
    at = padded(at)
    if at + sum(map(padded, sizes)) != view.nbytes:
        raise SerializationError("the bytes of a value are damaged: there are more or fewer of them than its head says")
    for size in sizes:
        yield view[at : at + size]
        at += padded(size)


def _sizes(view: memoryview) -> tuple[int, list[int]]:
    """Return the length of the head, and the sizes of the parts that follow it."""
    try:
        magic, stream, count = _HEAD.unpack_from(view)
        end = _HEAD.size + min(count, _MOST_BUFFERS) * _SIZE.size
        sizes = [size for (size,) in _SIZE.iter_unpack(view[_HEAD.size : end])]
        (check,) = _CHECK.unpack_from(view, end)
    except struct.error as error:
        raise SerializationError("the bytes of a value are damaged: they end within its head") from error
    if magic != _MAGIC or count > _MOST_BUFFERS or check != zlib.crc32(view[:end]):
        raise SerializationError("the bytes of a value are damaged: they begin with no valid head")
    return end + _CHECK.size, [stream, *sizes]

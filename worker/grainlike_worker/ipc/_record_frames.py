"""Format of the pipe through which a runner sends records of `logging`: in parts that the kernel does not tear.

Several processes may write to it, a runner and what a job forks, and none of them ever waits: a part for which there
is no room is not written, and its record is lost as a whole.
"""

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import suppress

from grainlike.wire import RECORD_BYTES

__all__ = ["CARRIER", "PIPE_BYTES", "RecordFrames", "enlarge", "send_record"]

CARRIER = struct.Struct("<qI")
"""The first bytes of each record: number and attempt of the job that the worker was sent."""

PIPE_BYTES = 1 << 20
"""Room in the pipe of a process that logs much, where the system grants it."""

_HEADER = struct.Struct("<IHB")
"""Process that writes, number of bytes in this part, and which part it is."""

_FIRST, _LAST = 1, 2
_PART_BYTES = 4096 - _HEADER.size
"""Bytes in one part: the kernel writes up to 4096 to a pipe as a whole or not at all (POSIX: at least 512)."""

_MOST_WRITERS = 16

_F_SETPIPE_SZ = 1031


def send_record(fd: int, record: bytes) -> bool:
    """Write a record, which begins with a `CARRIER`, to a pipe that does not block; return False if it is lost."""
    pid, most = os.getpid(), len(record)
    try:
        for at in range(0, most, _PART_BYTES):
            part = record[at : at + _PART_BYTES]
            which = (_FIRST if at == 0 else 0) | (_LAST if at + _PART_BYTES >= most else 0)
            os.write(fd, _HEADER.pack(pid, len(part), which) + part)
    except OSError:
        return False
    return True


def enlarge(fd: int) -> None:
    """Give a pipe `PIPE_BYTES` instead of the usual 64 KiB. Not for all pipes from the beginning: what the pipes of one
    user may have together is limited, and beyond it new ones have a page or two.
    """
    with suppress(OSError):  # there is no more for this user
        fcntl.fcntl(fd, _F_SETPIPE_SZ, PIPE_BYTES)


class RecordFrames:
    """Assembles records from what is read from the pipe. Raises `ValueError`, in `feed`, for what no runner writes."""

    __slots__ = ("_parts", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._parts: dict[int, bytearray] = {}

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Iterate over the records that these bytes complete, each with its `CARRIER`."""
        rest = self._rest + data if self._rest else data
        self._rest = b""
        at = 0
        while len(rest) - at >= _HEADER.size:
            pid, size, which = _HEADER.unpack_from(rest, at)
            if size > _PART_BYTES:
                raise ValueError("a part of a record is too long")
            end = at + _HEADER.size + size
            if end > len(rest):
                break
            whole = self._add(pid, rest[at + _HEADER.size : end], which)
            if whole is not None:
                yield whole
            at = end
        self._rest = rest[at:]

    def _add(self, pid: int, part: bytes, which: int) -> bytes | None:
        if which == _FIRST | _LAST:
            self._parts.pop(pid, None)  # one that its writer could not end
            return part if len(part) >= CARRIER.size else None
        if which & _FIRST:
            if len(self._parts) >= _MOST_WRITERS:
                self._parts.clear()
            self._parts[pid] = bytearray()
        found = self._parts.get(pid)
        if found is None:
            return None
        found += part
        if len(found) > RECORD_BYTES + CARRIER.size:
            del self._parts[pid]
        elif which & _LAST:
            return bytes(self._parts.pop(pid))
        return None

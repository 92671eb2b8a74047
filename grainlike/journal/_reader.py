"""Records out of bytes: one after another, until the end or the first that is not valid, and what lies behind that.

The bytes come from a function, `read(offset, size)`, which returns fewer only at the end. It may be that of a file.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from grainlike.journal._format import HEAD_SIZE, HEADER_SIZE, MARK, Header, RecordHead

__all__ = ["Read", "RecordReader", "is_zero", "valid_record_behind"]

Read = Callable[[int, int], bytes]

_WINDOW = 256 * 1024


class RecordReader(Iterator[bytes]):
    """The records of one file, whose header was read before. Stops before the first that is not valid.

    No record is longer than what is left of the file: a length is compared with that before anything is allocated.

    Attributes:
        offset: where the next record begins; after the last one, how many bytes of the file are sound.
        count: how many records there were.
        ended: whether the end of an image has been read.
    """

    __slots__ = ("_base", "_first", "_read", "_seed", "_size", "_window", "count", "ended", "offset")

    def __init__(self, read: Read, size: int, header: Header) -> None:
        self._read, self._size = read, size
        self._seed, self._first = header.seed, header.first
        self._base, self._window = 0, b""
        self.offset, self.count, self.ended = HEADER_SIZE, 0, False

    def __next__(self) -> bytes:
        head = None if self.ended else RecordHead.decode(self._bytes(self.offset, HEAD_SIZE), self._seed)
        if head is None or head.sequence != self._first + self.count:
            raise StopIteration
        if head.length > self._size - self.offset - HEAD_SIZE:
            raise StopIteration
        payload = self._bytes(self.offset + HEAD_SIZE, head.length)
        if zlib.crc32(payload, self._seed) != head.checksum:
            raise StopIteration
        self.offset += HEAD_SIZE + head.length
        if head.ends:
            self.ended = True
            raise StopIteration
        self.count += 1
        return payload

    def _bytes(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, out of a window that is read again as needed; a large payload is read apart."""
        start = offset - self._base
        if not 0 <= start <= start + size <= len(self._window):
            if size > _WINDOW:
                return self._read(offset, size)
            self._base, self._window, start = offset, self._read(offset, _WINDOW), 0
        return self._window[start : start + size]


def valid_record_behind(read: Read, size: int, header: Header, offset: int, sequence: int) -> int | None:
    """Return where, from `offset` on, the first valid record begins that is numbered `sequence` or later; None if
    nowhere.
    """
    while offset <= size - HEAD_SIZE:
        window = read(offset, _WINDOW)
        found = window.find(MARK)
        while found >= 0:
            if _is_record(read, size, header.seed, offset + found, sequence):
                return offset + found
            found = window.find(MARK, found + 1)
        offset += max(len(window) - len(MARK) + 1, 1)  # a mark may lie across two windows
    return None


def _is_record(read: Read, size: int, seed: int, offset: int, sequence: int) -> bool:
    head = RecordHead.decode(read(offset, HEAD_SIZE), seed)
    if head is None or head.sequence < sequence or head.length > size - offset - HEAD_SIZE:
        return False
    return zlib.crc32(read(offset + HEAD_SIZE, head.length), seed) == head.checksum


def is_zero(read: Read, size: int) -> bool:
    """Return True if all of the bytes are zero."""
    return all(not read(offset, _WINDOW).strip(b"\0") for offset in range(0, size, _WINDOW))

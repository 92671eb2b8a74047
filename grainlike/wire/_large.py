"""Large buffers on the wire: blocks, with gaps between them in which other frames may pass.

Layout: `BLOCK` bytes, then a gap, and so on; no gap follows the last block. A gap is a u32, how many bytes of whole
frames follow before the buffer continues, and those bytes. So an urgent frame waits for one block, not for gigabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from grainlike._memory import HUGE, mapped_memory
from grainlike.errors import ProtocolError

__all__ = ["BLOCK", "EMPTY_GAP", "Buffer", "LargeBuffer", "blocks", "gap_with"]

Buffer = bytes | bytearray | memoryview

BLOCK = 1024 * 1024

_GAP = struct.Struct("<I")

EMPTY_GAP = _GAP.pack(0)
"""A gap in which nothing passes. Senders recognize it by identity, and may put a gap with frames in its place."""

_ZEROS = memoryview(bytes(BLOCK))
"""Allocated by calloc, so that it takes no physical memory."""


def blocks(view: memoryview) -> Iterator[Buffer]:
    """Return the pieces of a buffer as they are sent, without copies."""
    yield view[:BLOCK]
    for start in range(BLOCK, view.nbytes, BLOCK):
        yield EMPTY_GAP
        yield view[start : start + BLOCK]


def gap_with(frames: bytes) -> bytes:
    """Return a gap in which these frames pass."""
    return _GAP.pack(len(frames)) + frames


class LargeBuffer:
    """Memory that grows as a buffer is received: a length that a peer only declares costs nothing. For a very large
    buffer the address space is reserved at once, and the system adds pages as they are written; others grow block by
    block.

    Its bytes are fed, or read straight into its `room`. `passed` collects the frames of gaps, at most `most` bytes in
    each gap; the caller takes them. A buffer that is not `kept`, or for which there is no memory, is read and dropped.
    """

    __slots__ = ("_aside", "_at", "_base", "_counted", "_length", "_most", "_wanted", "data", "kept", "passed")

    def __init__(self, length: int, most: int, *, kept: bool = True) -> None:
        self.data: bytearray | memoryview = bytearray()
        self.kept: bool = kept
        self.passed: list[bytes] = []
        self._length = length
        self._most = most
        self._at = 0
        self._base = 0
        """Position of the first byte of `data`; of a buffer that is not kept there is at most a block in memory."""
        self._aside = bytearray()
        self._wanted = 0
        """Number of bytes of a gap that come next; 0 if bytes of the buffer do."""
        self._counted = False
        if kept and length >= HUGE:
            self._map()

    @property
    def whole(self) -> bool:
        """True once all of it was received; it is in `data` then, if it was kept."""
        return self._at == self._length

    def feed(self, view: memoryview) -> memoryview:
        """Add received bytes; return those after the buffer's end."""
        while view and not self.whole:
            if self._wanted:
                view = self._take_aside(view)
                continue
            count = min(view.nbytes, self._block_end() - self._at)
            if self.kept:
                self._copy(view[:count])
            self._came(count)
            view = view[count:]
        return view

    def room(self) -> memoryview | None:
        """Return memory for the next read: up to the end of the block, and of the gap's count, which lies where the
        next block begins. None inside a gap. Memory grows in here: release one room before asking for another.
        """
        if self._wanted or self.whole:
            return None
        end = self._block_end()
        if end + _GAP.size <= self._length:
            end += _GAP.size
        self._grow(end)
        return memoryview(self.data)[self._at - self._base : end - self._base]

    def filled(self, count: int) -> None:
        """Add `count` bytes that were read into the room."""
        if not count:
            return
        own = min(count, self._block_end() - self._at)
        behind = self._at + own - self._base
        self._came(own)
        if count > own:
            self._take_aside(memoryview(self.data)[behind : behind + count - own])

    def _map(self) -> None:
        try:
            self.data = mapped_memory(self._length) or self.data
        except MemoryError:
            self._forget()

    def _copy(self, view: memoryview) -> None:
        at = self._at - self._base
        if not isinstance(self.data, bytearray) or len(self.data) > at:  # it is mapped, or `room` has grown it
            self.data[at : at + view.nbytes] = view
            return
        try:
            self.data += view
        except MemoryError:
            self._forget()

    def _grow(self, end: int) -> None:
        """Grow the memory up to `end`."""
        try:
            while isinstance(self.data, bytearray) and len(self.data) < end - self._base:
                self.data += _ZEROS[: end - self._base - len(self.data)]
        except MemoryError:
            if not self.kept:
                raise
            self._forget()
            self._grow(end)

    def _forget(self) -> None:
        """Drop the buffer, as memory is short: keep memory for one block only."""
        self.kept = False
        self.data = bytearray()
        self._base = self._at

    def _block_end(self) -> int:
        return min(self._length, (self._at // BLOCK + 1) * BLOCK)

    def _came(self, count: int) -> None:
        self._at += count
        if self._at % BLOCK == 0 and self._at < self._length:
            self._wanted = _GAP.size
            if not self.kept:
                self._base = self._at

    def _take_aside(self, view: memoryview) -> memoryview:
        """Take bytes of a gap: its count first, then its frames."""
        count = min(view.nbytes, self._wanted)
        self._aside += view[:count]
        self._wanted -= count
        if not self._wanted:
            aside, self._aside = self._aside, bytearray()
            if self._counted:
                self.passed.append(bytes(aside))
                self._counted = False
            else:
                self._count(aside)
        return view[count:]

    def _count(self, aside: bytearray) -> None:
        (self._wanted,) = _GAP.unpack(aside)
        if self._wanted > self._most:
            raise ProtocolError(f"{self._wanted} bytes in a gap are over the limit of {self._most}")
        self._counted = self._wanted > 0

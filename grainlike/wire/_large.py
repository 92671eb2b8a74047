"""One large buffer on its way: blocks of it, and gaps between them in which other frames may pass.

Layout: `BLOCK` bytes, then a gap, and so on; no gap follows the last block. A gap is a u32, how many bytes of whole
frames follow before the buffer goes on, and those bytes. So whoever has something urgent to say waits for a block, and
not for gigabytes.
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
"""A gap in which nothing passes. Senders know it by its identity: it is where something could."""

_ZEROS = memoryview(bytes(BLOCK))
"""Calloc's, so that it takes no memory of its own."""


def blocks(view: memoryview) -> Iterator[Buffer]:
    """The pieces of a buffer as it travels, never copied."""
    yield view[:BLOCK]
    for start in range(BLOCK, view.nbytes, BLOCK):
        yield EMPTY_GAP
        yield view[start : start + BLOCK]


def gap_with(frames: bytes) -> bytes:
    """A gap in which these frames pass."""
    return _GAP.pack(len(frames)) + frames


class LargeBuffer:
    """Memory that grows as a buffer comes: what a peer only declares costs nothing. Of a large one all addresses are
    there from the start, and the system adds the pages; of others a block is added at a time.

    Its bytes are fed, or read straight into its `room`. `passed` is what came in gaps, to be taken from there; at most
    `most` bytes in each. One that is not `kept`, or for which there is no memory, is read and forgotten.
    """

    __slots__ = ("_aside", "_at", "_base", "_counted", "_length", "_most", "_wanted", "data", "kept", "passed")

    def __init__(self, length: int, most: int, *, kept: bool = True) -> None:
        self.data: bytearray | memoryview = bytearray()
        self.kept = kept
        self.passed: list[bytes] = []
        self._length = length
        self._most = most
        self._at = 0
        self._base = 0
        """What `data` begins with: of what is not kept there is never more than a block."""
        self._aside = bytearray()
        self._wanted = 0
        """How many bytes in a gap come next; 0 where those of the buffer do."""
        self._counted = False
        if kept and length >= HUGE:
            self._map()

    @property
    def whole(self) -> bool:
        """Whether all of it has come; if it was kept, it is `data` then."""
        return self._at == self._length

    def feed(self, view: memoryview) -> memoryview:
        """Take what has come; return what is left behind the buffer's end."""
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
        """Where what comes next may be read to: up to the end of the block, and the gap's count behind it, where the
        next block begins. None inside a gap. Memory grows in here: let go of one room before you ask for another.
        """
        if self._wanted or self.whole:
            return None
        end = self._block_end()
        if end + _GAP.size <= self._length:
            end += _GAP.size
        self._grow(end)
        return memoryview(self.data)[self._at - self._base : end - self._base]

    def filled(self, count: int) -> None:
        """So many bytes were read into the room."""
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
        if not isinstance(self.data, bytearray) or len(self.data) > at:  # it is mapped, or room was offered
            self.data[at : at + view.nbytes] = view
            return
        try:
            self.data += view
        except MemoryError:
            self._forget()

    def _grow(self, end: int) -> None:
        """Have memory up to there."""
        try:
            while isinstance(self.data, bytearray) and len(self.data) < end - self._base:
                self.data += _ZEROS[: end - self._base - len(self.data)]
        except MemoryError:
            if not self.kept:
                raise
            self._forget()
            self._grow(end)

    def _forget(self) -> None:
        """There is no memory for it: make do with that of one block."""
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
        """Take bytes in a gap: its count first, then what passes."""
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

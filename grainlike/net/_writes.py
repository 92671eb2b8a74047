"""Batching of frames: the pieces of many frames leave in as few writes as possible, without copying large ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from grainlike.wire import EMPTY_GAP, Buffer, gap_with

__all__ = ["CHUNK", "Outbox"]

CHUNK = 256 * 1024
"""The most bytes in one write of a large buffer: before 3.12, asyncio copies what the socket has no room for."""

_LARGE = 64 * 1024

_TOGETHER = 1024
"""Number of frames in one write, where none is large."""

_MOST_PASSING = 64 * 1024
"""Bytes that pass a large buffer in one gap; a frame that is longer passes alone."""


class Outbox:
    """Outbox: frames to be written, in their order, and those that may pass where something large is in the way.

    Example::

        outbox.add(encode_frame(message, buffers))
        outbox.let_pass(encode_frame(Beat(1)))
        for data in outbox:         # it may be added to meanwhile
            sock.send(data)
    """

    __slots__ = ("_passing", "_under_way", "_writes", "frames", "large", "more", "taken")

    def __init__(self) -> None:
        self.frames: list[Sequence[Buffer]] = []  # no deques: each would take more than all the rest of a link
        """Those that wait; read-only for callers."""
        self._passing: list[Buffer] = []
        self.large = 0
        """Number of large frames that wait, or are being written."""
        self.taken = 0
        """Number of pieces that were taken to be written."""
        self.more = False
        """True if there may be another piece behind the one that was taken last: `next` says for certain."""
        self._under_way: list[Sequence[Buffer]] | None = None
        self._writes: Iterator[Buffer] | None = None

    def __bool__(self) -> bool:
        return self._writes is not None or bool(self.frames)

    def add(self, pieces: Sequence[Buffer]) -> None:
        """Add the result of `encode_frame`."""
        self.frames.append(pieces)
        if len(pieces) > 1:
            self.large += _is_large(pieces)

    def let_pass(self, pieces: Sequence[Buffer]) -> None:
        """Add a frame without buffers, ahead of what is large. Those that may pass do not pass each other."""
        if self.large:
            self._passing.extend(pieces)
        else:
            self.frames.append(pieces)

    def clear(self) -> None:
        """Drop all frames."""
        self.frames.clear()
        self._under_way = None
        self._passing.clear()
        self.large = 0
        self._writes = None

    def size(self) -> int:
        """Return how many bytes wait behind the frame that is being written. They are recounted on each call."""
        waiting = [*(self._under_way or ()), *self.frames, self._passing]
        return sum(memoryview(piece).nbytes for pieces in waiting for piece in pieces)

    def next(self) -> Buffer | None:
        """Return the next piece to write: small neighbours joined, large ones as slices of at most `CHUNK` bytes."""
        self.taken += 1
        while True:
            if self._writes is None:
                if not self.frames:
                    return None
                if not self.large:
                    # One join in place of `_written`, which takes several steps for each frame: nearly all frames are
                    # small, and where none is large nothing waits to pass.
                    frames, self.frames = self.frames[:_TOGETHER], self.frames[_TOGETHER:]
                    self.more = bool(self.frames)
                    return b"".join(frames[0] if len(frames) == 1 else [piece for pieces in frames for piece in pieces])
                self._writes = self._written()
            self.more = True
            data = next(self._writes, None)
            if data is not None:
                return data
            self._writes = None

    def _written(self) -> Iterator[Buffer]:
        small: list[Buffer] = []
        size = 0
        for pieces in self._waiting():
            large = len(pieces) > 1 and _is_large(pieces)
            if large:
                self._let_through(small)
            for piece in pieces:
                what = self._gap() if piece is EMPTY_GAP else piece
                if len(what) < _LARGE:
                    small.append(what)
                    size += len(what)
                    if size < CHUNK:
                        continue
                if small:
                    yield b"".join(small)
                    small.clear()
                    size = 0
                if len(what) >= _LARGE:
                    yield from _slices(memoryview(what))
            if large:
                self.large -= 1
                self._let_through(small)
        if small:
            yield b"".join(small)

    def _let_through(self, small: list[Buffer]) -> None:
        """Send small frames around large ones: `small` comes first as it was posted earlier, as a welcome must."""
        small += self._passing
        self._passing.clear()

    def _waiting(self) -> Iterator[Sequence[Buffer]]:
        """Iterate over all frames, with those that are added meanwhile."""
        while self.frames:
            frames, self.frames = self.frames, []
            self._under_way = frames
            for at, pieces in enumerate(frames):
                frames[at] = ()
                yield pieces
        self._under_way = None

    def _gap(self) -> bytes:
        """Return a gap filled with frames that wait to pass, as many as fit."""
        if not self._passing:
            return EMPTY_GAP
        count = 1
        size = len(self._passing[0])
        while count < len(self._passing) and size + len(self._passing[count]) <= _MOST_PASSING:
            size += len(self._passing[count])
            count += 1
        passing, self._passing = self._passing[:count], self._passing[count:]
        return gap_with(b"".join(passing))


def _slices(view: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


def _is_large(pieces: Sequence[Buffer]) -> bool:
    return any(len(piece) >= _LARGE for piece in pieces)

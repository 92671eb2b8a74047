"""From the pieces of many frames to as few writes as possible, without copying what is large."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from grainlike.wire import EMPTY_GAP, Buffer, gap_with

__all__ = ["CHUNK", "Outbox"]

CHUNK = 256 * 1024
"""The most bytes in one write of a large buffer: before 3.12, asyncio copies what the socket has no room for."""

_LARGE = 64 * 1024

_MOST_PASSING = 64 * 1024
"""How many bytes pass a large buffer in one gap; a frame that is longer passes alone."""


class Outbox:
    """What waits to be written: frames in their order, and those that may pass where something large is in the way.

    Example::

        outbox.add(encode_frame(message, buffers))
        outbox.let_pass(encode_frame(Beat(1)))
        for data in outbox:         # it may be added to meanwhile
            sock.send(data)
    """

    __slots__ = ("_frames", "_passing", "_writes", "large")

    def __init__(self) -> None:
        self._frames: deque[Sequence[Buffer]] = deque()
        self._passing: deque[Buffer] = deque()
        self.large = 0
        """How many frames that are large wait, or are being written."""
        self._writes: Iterator[Buffer] | None = None

    def __bool__(self) -> bool:
        return self._writes is not None or bool(self._frames)

    def add(self, pieces: Sequence[Buffer]) -> None:
        """Add what `encode_frame` made of a message."""
        self._frames.append(pieces)
        self.large += _is_large(pieces)

    def let_pass(self, pieces: Sequence[Buffer]) -> None:
        """Add a frame without buffers, ahead of what is large. Those that may pass do not pass each other."""
        if self.large:
            self._passing.extend(pieces)
        else:
            self._frames.append(pieces)

    def clear(self) -> None:
        """Forget all of it."""
        self._frames.clear()
        self._passing.clear()
        self.large = 0
        self._writes = None

    def next(self) -> Buffer | None:
        """The next piece to write: small neighbours joined, large ones as slices of at most `CHUNK` bytes."""
        while self:
            if self._writes is None:
                self._writes = self._written()
            data = next(self._writes, None)
            if data is not None:
                return data
            self._writes = None
        return None

    def _written(self) -> Iterator[Buffer]:
        small: list[Buffer] = []
        size = 0
        while self._frames:
            if self._passing:
                small += self._passing
                self._passing.clear()
            pieces = self._frames.popleft()
            if len(pieces) == 1:
                small += pieces
                size += len(pieces[0])
                if size >= CHUNK:
                    yield b"".join(small)
                    small.clear()
                    size = 0
                continue
            for piece in pieces:
                if piece is EMPTY_GAP:
                    small.append(self._gap())
                elif len(piece) < _LARGE:
                    small.append(piece)
                else:
                    if small:
                        yield b"".join(small)
                        small.clear()
                    view = memoryview(piece)
                    for start in range(0, len(view), CHUNK):
                        yield view[start : start + CHUNK]
            self.large -= _is_large(pieces)
        if self._passing:
            small += self._passing
            self._passing.clear()
        if small:
            yield b"".join(small)

    def _gap(self) -> bytes:
        """A gap in which passes what waits for it, as much as goes into one."""
        if not self._passing:
            return EMPTY_GAP
        passing = [self._passing.popleft()]
        size = len(passing[0])
        while self._passing and size + len(self._passing[0]) <= _MOST_PASSING:
            size += len(self._passing[0])
            passing.append(self._passing.popleft())
        return gap_with(b"".join(passing))


def _is_large(pieces: Sequence[Buffer]) -> bool:
    return len(pieces) > 1 and any(len(piece) >= _LARGE for piece in pieces)

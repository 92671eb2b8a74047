"""Output of one attempt of a job, kept in bounded room: the beginning whole, and then the end.

It lies in files that have no names, so that nothing is left of it however the worker ends: at most 256 MiB of all
attempts. What is small lies in memory while the attempt runs, and so does the end of what is large.
"""

import errno
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from grainlike.system import free_bytes
from grainlike.wire import OutputStream

__all__ = ["HEAD_BYTES", "TAIL_BYTES", "AttemptOutput", "Piece", "PieceRing", "Spool", "left_out"]

HEAD_BYTES = 1 << 20
"""How much of an attempt's output is kept from its beginning."""

TAIL_BYTES = 64 * 1024
"""How much of what follows is kept: the end of it."""

_BLOCK = 8 * 1024
"""What is smaller than this waits in memory for more."""

_LATE = 512
"""What is smaller than this, and comes after the end, waits in memory for more."""

_NOT_WRITTEN = (OutputStream.NOTE, OutputStream.TRACEBACK)

Piece = tuple[OutputStream, bytes]

_Place = tuple[int, int, int]
"""Number of a file, offset, and size."""


class Spool:
    """Bytes on disk, the last of them: of two nameless files the older is dropped when the newer is full.

    Each file takes an eighth of what was free there when it was begun at the most: jobs have their scratch directories
    on that disk. A disk that is full, or gone, loses what is written, and its readers are told.
    """

    def __init__(self, size: int = 128 << 20) -> None:
        self._size = size
        self._files: dict[int, int] = {}
        self._newest = -1
        self._end = self._most = 0

    def write(self, data: bytes) -> _Place:
        """Keep bytes; returns where they lie."""
        try:
            if self._end + len(data) > self._most:
                self._turn(len(data))
            os.pwrite(self._files[self._newest], data, self._end)
        except (OSError, KeyError):
            return (-1, 0, len(data))
        place = (self._newest, self._end, len(data))
        self._end += len(data)
        return place

    def read(self, place: _Place) -> bytes | None:
        """Return what lies there; None if it is gone."""
        number, offset, size = place
        fd = self._files.get(number)
        if fd is None:
            return None
        try:
            data = os.pread(fd, size, offset)
        except OSError:
            return None
        return data if len(data) == size else None

    def close(self) -> None:
        """Forget everything."""
        for fd in self._files.values():
            os.close(fd)
        self._files.clear()

    def _turn(self, needed: int) -> None:
        import tempfile  # here, because few jobs write so much, and a worker starts sooner without

        most = min(self._size, free_bytes(Path(tempfile.gettempdir())) // 8)
        if needed > most:
            raise OSError(errno.ENOSPC, "the rest is left to jobs")
        fd, path = tempfile.mkstemp(prefix="grainlike-output-")
        os.unlink(path)  # noqa: PTH108 - the descriptor is all that is needed
        self._newest += 1
        self._files[self._newest] = fd
        self._end, self._most = 0, most
        old = self._files.pop(self._newest - 2, None)
        if old is not None:
            os.close(old)


class PieceRing:
    """The last pieces that were put in, `limit` bytes of them; `cut` bytes before them are gone."""

    __slots__ = ("_pieces", "_size", "cut", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.cut = 0
        self._size = 0
        self._pieces: deque[Piece] = deque()

    def add(self, stream: OutputStream, data: bytes) -> None:
        """Put in a piece."""
        self._pieces.append((stream, data))
        self._size += len(data)
        while self._size > self.limit:
            stream, first = self._pieces.popleft()
            extra = min(len(first), self._size - self.limit)
            self._size -= extra
            self.cut += extra
            if extra < len(first):
                self._pieces.appendleft((stream, first[extra:]))

    def pieces(self) -> list[Piece]:
        """Return what is left, with a note of what is not."""
        return [*left_out(self.cut), *self._pieces]

    def take(self) -> list[Piece]:
        """Return what is left, with a note of what is not, and start again."""
        taken = self.pieces()
        self._pieces.clear()
        self._size = self.cut = 0
        return taken


class AttemptOutput:
    """The output of one attempt. Bytes go in at any time; `pieces` may be asked for at any time, and again."""

    __slots__ = ("_blocks", "_pending", "_room", "_spool", "_tail", "_told_end", "_waiting", "attempt", "ended", "job")

    def __init__(self, job: int, attempt: int, spool: Spool) -> None:
        self.job = job
        self.attempt = attempt
        self.ended = False
        self._spool = spool
        self._room = HEAD_BYTES
        self._pending: list[Piece] = []
        self._waiting = 0
        self._blocks: list[tuple[list[tuple[OutputStream, int]], _Place]] = []
        self._tail: PieceRing | None = None
        self._told_end = False

    def add(self, stream: OutputStream, data: bytes) -> int:
        """Put in bytes; returns how many of them are of the beginning, which is kept whole."""
        head = data[: self._room] if self._room < len(data) else data
        if head:
            self._room -= len(head)
            self._keep(stream, head)
            self._waiting += len(head)
            if self._waiting >= _BLOCK:
                self._store()
        if len(head) < len(data):
            if self._tail is None:
                self._tail = PieceRing(TAIL_BYTES)
            self._tail.add(stream, data[len(head) :])
        return len(head)

    def end(self) -> None:
        """Little more will be added, if anything: keep as little in memory as can be."""
        if self._waiting >= (_LATE if self.ended else 1):
            self._store()
        if self._tail is not None and not self._told_end:
            self._told_end = True
            self._pending, self._tail = [*self._pending, *self._tail.pieces()], None
            self._store()
        self.ended = True

    def pieces(self) -> Iterator[Piece]:
        """Iterate over all that was kept, in order, with notes of what was not."""
        for streams, place in self._blocks:
            yield from _cut_up(streams, self._spool.read(place))
        yield from self._pending
        if self._tail is not None:
            yield from self._tail.pieces()

    def last(self, size: int) -> bytes:
        """Return the last bytes that the job wrote, at most `size`, whatever stream they went to."""
        data = b"".join(data for stream, data in self.pieces() if stream not in _NOT_WRITTEN)
        return data[-size:]

    def _keep(self, stream: OutputStream, data: bytes) -> None:
        pending = self._pending
        if pending and pending[-1][0] is stream:
            pending[-1] = (stream, pending[-1][1] + data)
        else:
            pending.append((stream, data))

    def _store(self) -> None:
        streams = [(stream, len(data)) for stream, data in self._pending]
        place = self._spool.write(b"".join(data for _, data in self._pending))
        self._blocks.append((streams, place))
        self._pending, self._waiting = [], 0


def left_out(count: int) -> list[Piece]:
    """Return a note of so many bytes that are left out; nothing for none."""
    return [(OutputStream.NOTE, f"[{count:,} bytes are left out here]".replace(",", " ").encode())] if count else []


def _cut_up(streams: list[tuple[OutputStream, int]], data: bytes | None) -> Iterator[Piece]:
    if data is None:
        yield from left_out(sum(size for _, size in streams))
        return
    at = 0
    for stream, size in streams:
        yield stream, data[at : at + size]
        at += size

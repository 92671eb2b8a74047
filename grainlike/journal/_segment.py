"""The end of a file that is written: whole records, or nothing of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grainlike.journal._disk import Disk
from grainlike.journal._format import Buffer, Header, encode_record

__all__ = ["SegmentWriter"]

_MOST_PIECES = 1024
"""IOV_MAX of Linux: what one call takes."""


class SegmentWriter:
    """Appends to one file. What a call has written is the kernel's when it returns, and outlives this process.

    Attributes:
        path: the file's.
        file: its descriptor.
        header: what it begins with.
        end: how many bytes of it are whole records; what lies behind was written in part.
        position: how many records there are up to its end, over all segments: the number of the next.
        ragged: whether there is something behind, which could not be cut off.
    """

    __slots__ = ("_disk", "_seed", "end", "file", "header", "path", "position", "ragged")

    def __init__(self, disk: Disk, path: Path, file: int, header: Header, *, end: int, position: int) -> None:
        self._disk = disk
        self.path: Path = path
        self.file: int = file
        self.header: Header = header
        self.end: int = end
        self.position: int = position
        self.ragged: bool = False
        self._seed = header.seed

    @classmethod
    def create(cls, disk: Disk, path: Path, header: Header) -> SegmentWriter:
        """Make a file with a header; on an `OSError` there is none."""
        writer = cls(disk, path, disk.create(path), header, end=0, position=header.first)
        try:
            writer._write([header.encode()], records=0)
        except BaseException:
            disk.close(writer.file)
            with suppress(OSError):
                disk.remove(path)
            raise
        return writer

    def append(self, pieces: Sequence[Buffer], *, ends: bool = False) -> None:
        """Write one record. On an `OSError` nothing of it is left, or the file is `ragged`."""
        self._write(encode_record(pieces, self.position, self._seed, ends=ends), records=1)

    def _write(self, pieces: list[Buffer], *, records: int) -> None:
        size = sum(map(len, pieces))
        if self.ragged:
            self.cut()
        try:
            written = self._disk.write(self.file, pieces) if len(pieces) <= _MOST_PIECES else 0
            if written != size:
                self._write_rest(memoryview(b"".join(pieces))[written:])
        except BaseException:  # Ctrl-C too: what is not counted must not be there
            self.ragged = True
            with suppress(OSError):
                self.cut()
            raise
        self.end += size  # nothing may come between these two
        self.position += records

    def _write_rest(self, rest: memoryview) -> None:
        """Go on where a call took only a part, until all is written or the system says why not."""
        while rest:
            written = self._disk.write(self.file, [rest])
            if not written:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            rest = rest[written:]

    def cut(self) -> None:
        """Cut off what was written in part."""
        self._disk.truncate(self.file, self.end)
        self.ragged = False

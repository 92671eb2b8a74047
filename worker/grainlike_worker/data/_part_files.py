"""Files that are being received: their room is allocated first, and they get their name when they are whole.

The daemon makes them, and removes those of values that are dropped, at any time: none is made here, where the order to
stop may come later than that. Two that write to one file for a moment, as one of them was stopped, write the same.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from grainlike.wire import Buffer

__all__ = ["PartFile", "write_all"]


class PartFile:
    """The file of a replica of `size` bytes that is to be at `path`, of which the first `at` have come.

    A failed transfer leaves it for the next one, which goes on there: open it again with the same `at`. With another
    size it begins at 0.

    Raises `OSError` where there is no room for all of it, and then no file is left; and where there is none.

    Example::

        part = PartFile(replica_path(directory, 7, 1), size=200_064)
        part.write(data)
        part.finish()
    """

    __slots__ = ("_fd", "_path", "at", "size")

    def __init__(self, path: Path, size: int, at: int = 0) -> None:
        self._path = path
        self.size = size
        self._fd = os.open(self._begun, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        self.at = at if 0 < at <= size == os.fstat(self._fd).st_size else 0
        """Bytes that have come, without a gap."""
        if not self.at:
            self._take_room()

    def write(self, data: Buffer) -> None:
        """Add the next bytes. Raises `OSError`, of the file system."""
        view = memoryview(data)
        write_all(self._fd, view, self.at)
        self.at += view.nbytes

    def finish(self) -> None:
        """Give the whole file its name. Raises `OSError` if it was removed meanwhile."""
        self._begun.rename(self._path)
        self.close()

    def close(self) -> None:
        """Let go of the file, and leave it as it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def discard(self) -> None:
        """Remove the file."""
        self.close()
        with suppress(OSError):
            self._begun.unlink()

    @property
    def _begun(self) -> Path:
        return self._path.with_name(f"{self._path.name}.part")

    def _take_room(self) -> None:
        try:
            if os.fstat(self._fd).st_size > self.size:
                os.ftruncate(self._fd, self.size)
            if self.size:
                os.posix_fallocate(self._fd, 0, self.size)
        except OSError as error:
            self.discard()
            raise OSError(error.errno, f"there is no room for {self.size} bytes in {self._path.parent}") from error


def write_all(fd: int, data: memoryview, at: int) -> None:
    """Write all bytes at a position of a file, however many the system takes at once. Raises `OSError`."""
    while data.nbytes:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count

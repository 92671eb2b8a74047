"""Files that are being received: their room is allocated first, and they get their name when they are whole."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from grainlike.wire import Buffer

__all__ = ["PartFile", "write_all"]


class PartFile:
    """The file of a replica of `size` bytes that is to be at `path`, of which the first `at` have come.

    A failed transfer leaves it for the next one, which goes on there: open it again with the same `at`. With another
    size, or if it is not there, it begins empty.

    Raises `OSError` where there is no room for all of it; then no file is left.

    Example::

        part = PartFile(replica_path(directory, 7, 1), size=200_064)
        part.write(data)
        part.finish()
    """

    __slots__ = ("_fd", "_path", "at", "size")

    def __init__(self, path: Path, size: int, at: int = 0) -> None:
        self._path = path
        self.size = size
        fd = self._open_begun() if 0 < at <= size else None
        self.at = 0 if fd is None else at
        """Bytes that have come, without a gap."""
        self._fd = self._open_fresh() if fd is None else fd

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

    def _open_begun(self) -> int | None:
        try:
            fd = os.open(self._begun, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        if os.fstat(fd).st_size == self.size:
            return fd
        os.close(fd)
        return None

    def _open_fresh(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._begun, flags, 0o600)
        try:
            if self.size:
                os.posix_fallocate(fd, 0, self.size)
        except OSError as error:
            os.close(fd)
            with suppress(OSError):
                self._begun.unlink()
            raise OSError(error.errno, f"there is no room for {self.size} bytes in {self._path.parent}") from error
        return fd


def write_all(fd: int, data: memoryview, at: int) -> None:
    """Write all bytes at a position of a file, however many the system takes at once. Raises `OSError`."""
    while data.nbytes:
        count = os.pwrite(fd, data, at)
        data, at = data[count:], at + count

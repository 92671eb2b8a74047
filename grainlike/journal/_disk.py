"""The calls to the system that the journal makes: all of them, so that tests can let each one fail."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from grainlike.journal._format import Buffer

__all__ = ["Disk"]

_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
_MODE = 0o600


class Disk:
    """Files of this machine. Each method is one call, or few; each may raise `OSError`."""

    __slots__ = ()

    def names(self, directory: Path) -> list[str]:
        """Return the names in a directory."""
        return sorted(os.listdir(directory))  # noqa: PTH208 - names alone, as this class is about calls

    def make_directory(self, path: Path) -> None:
        """Make a directory, and those on the way to it, that only their owner may enter, unless it is there."""
        for missing in reversed([one for one in (path, *path.parents) if not one.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
            self.sync_directory(missing.parent)

    def status(self, path: Path) -> os.stat_result:
        """Owner and mode of what a path leads to."""
        return path.stat()

    def close_to_others(self, path: Path) -> None:
        """Let its owner alone into a directory."""
        path.chmod(0o700)

    def file_status(self, file: int) -> os.stat_result:
        """Size, owner and mode of an open file."""
        return os.fstat(file)

    def open_to_read(self, path: Path) -> int:
        """Open a file that is there. Without O_NONBLOCK a FIFO in its place would hold us for ever."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)

    def open_to_append(self, path: Path) -> int:
        """Open a file that is there, to write at its end."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | _FLAGS)

    def create(self, path: Path) -> int:
        """Make an empty file to append to, in place of what may be there."""
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | _FLAGS, _MODE)

    def open_lock(self, path: Path) -> int:
        """Open the file that is locked; it is made if it is missing, and never removed."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _FLAGS, _MODE)

    def lock(self, file: int) -> None:
        """Lock an open file for this process and those it forks. Raises `BlockingIOError` if another has it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def read(self, file: int, offset: int, size: int) -> bytes:
        """Return the bytes of a file; fewer only at its end."""
        data = os.pread(file, size, offset)
        while data and len(data) < size and (more := os.pread(file, size - len(data), offset + len(data))):
            data += more
        return data

    def write(self, file: int, pieces: Sequence[Buffer]) -> int:
        """Write what the system takes in one call; return how many bytes that was."""
        return os.writev(file, pieces)

    def truncate(self, file: int, size: int) -> None:
        """Cut a file to `size` bytes."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Return when the content of an open file is on the disk."""
        os.fsync(file)

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are on the disk."""
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name, in place of what may have had it."""
        path.rename(target)

    def remove(self, path: Path) -> None:
        """Remove a file; one that is not there is none."""
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        """Close a file. What the system says then comes too late: `sync` has told what matters."""
        with suppress(OSError):
            os.close(file)

"""The names in a journal's directory, and who may read and write them: one user, and one head at a time."""

from __future__ import annotations

import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grainlike.errors import JournalError
from grainlike.journal._disk import Disk
from grainlike.journal._reader import Read

__all__ = [
    "check_private_directory",
    "close_empty_directory",
    "free_damaged_name",
    "image_path",
    "is_unfinished",
    "lock_directory",
    "numbered",
    "reading",
    "refused",
    "segment_path",
    "unfinished_path",
]

_LOCK = "lock"
_NAME = re.compile(r"([0-9]{16})\.(log|image)")
_UNFINISHED = ".new"


def segment_path(directory: Path, number: int) -> Path:
    """Return the file of a segment."""
    return directory / f"{number:016}.log"


def image_path(directory: Path, number: int) -> Path:
    """Return the file of an image of the state at the beginning of a segment."""
    return directory / f"{number:016}.image"


def unfinished_path(path: Path) -> Path:
    """Return the path of a file until all of it is on the disk."""
    return path.with_name(path.name + _UNFINISHED)


def is_unfinished(name: str) -> bool:
    """Return True if a name is that of a file which is not all on the disk."""
    return name.endswith(_UNFINISHED) and _NAME.match(name) is not None


def numbered(names: list[str], kind: str) -> list[int]:
    """Return the numbers of all segments ("log") or images ("image"), in order."""
    found = [_NAME.fullmatch(name) for name in names]
    return sorted(int(one[1]) for one in found if one and one[2] == kind)


def free_damaged_name(path: Path, names: list[str]) -> Path:
    """Return a name for a file that is set aside, which nothing has yet."""
    tries = (f"{path.name}.damaged{count or ''}" for count in range(len(names) + 1))
    return path.with_name(next(name for name in tries if name not in names))


def refused(what: str, path: Path, error: OSError) -> JournalError:
    """Return the error that says which file the system refused, and why."""
    return JournalError(f"cannot {what} {path}: {error.strerror or error}", str(path))


def check_private_directory(disk: Disk, path: Path) -> None:
    """Raise `JournalError`, with the command that mends it, unless a directory is ours and closed to everybody else."""
    status = disk.status(path)
    if not stat.S_ISDIR(status.st_mode):
        raise JournalError(f"{path} is not a directory; a journal is one", str(path))
    _check_owner(path, status)
    if status.st_mode & stat.S_ISVTX:  # such as /tmp: closing it would lock everybody out
        raise JournalError(f"{path} is for all users; choose a directory of your own in it", str(path))
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise JournalError(f"{path} is open to other users; close it with: chmod 700 {path}", str(path))


def close_empty_directory(disk: Disk, path: Path) -> None:
    """Close a directory of ours to others if nothing is in it yet that they could have read, or put there."""
    status = disk.status(path)
    ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
    if ours and stat.S_IMODE(status.st_mode) & 0o077 and not disk.names(path):
        disk.close_to_others(path)


def _check_private_file(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise JournalError(f"{path} is not a regular file; a file of a journal must be one", str(path))
    _check_owner(path, status)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise JournalError(f"{path} is open to other users; close it with: chmod 600 {path}", str(path))


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise JournalError(f"{path} belongs to user id {status.st_uid}, not to us ({os.geteuid()})", str(path))


@contextmanager
def reading(disk: Disk, path: Path) -> Iterator[tuple[Read, int]]:
    """Context manager: a file that is open for reading, and its size. Refuses a file that others may write or read."""
    try:
        file = disk.open_to_read(path)
    except OSError as error:
        raise refused("read", path, error) from error
    try:
        status = disk.file_status(file)
        _check_private_file(path, status)
        yield lambda offset, size: disk.read(file, offset, size), status.st_size
    except JournalError:
        raise
    except OSError as error:
        raise refused("read", path, error) from error
    finally:
        disk.close(file)


def lock_directory(disk: Disk, directory: Path) -> int:
    """Take the lock of a journal; return the file that holds it. Raises `JournalError` if another process has it.

    The system frees it with the last process that inherited it by a fork, however that ended.
    """
    path = directory / _LOCK
    try:
        file = disk.open_lock(path)
        try:
            _take(disk, file, directory)
        except BaseException:
            disk.close(file)
            raise
    except OSError as error:
        raise error if isinstance(error, JournalError) else refused("lock", path, error) from error
    return file


def check_lock(disk: Disk, directory: Path, lock: int) -> None:
    """Raise `JournalError` unless the lock is where it was: after a move or removal another head can lock there."""
    check_is_at(disk, lock, directory / _LOCK)


def check_is_at(disk: Disk, file: int, path: Path) -> None:
    """Raise `JournalError` unless the name of an open file still is its own."""
    ours = disk.file_status(file)
    try:
        there = disk.status(path)
    except FileNotFoundError:
        raise JournalError(f"{path} was removed, or moved away", str(path)) from None
    if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
        raise JournalError(f"{path} is another file than the one that was begun here", str(path))


def _take(disk: Disk, file: int, directory: Path) -> None:
    try:
        disk.lock(file)
    except BlockingIOError:
        holder = disk.read(file, 0, 300).decode(errors="replace").partition("\n")[0]
        raise JournalError(
            f"another head, process {holder}, writes this journal: {directory}", str(directory)
        ) from None
    disk.write(file, [f"{os.getpid()} on {socket.gethostname()}\n".encode()])

"""Files of one user alone: folders and files whose owner and mode are checked on the descriptor that is used.

A check of a path does not hold for the next call, in a directory that others may write to. So a folder is opened
first, then looked at, and what lies in it is opened by that descriptor, never through a symbolic link.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["ANY_ACCESS", "WRITING", "create_in", "folder", "folder_in", "make_folder", "open_in"]

WRITING = 0o022
"""Refuse what others may write."""

ANY_ACCESS = 0o077
"""Refuse what others may read, too."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""Open flags of a file. O_NONBLOCK, since otherwise a pipe in the place of a file would block the opener."""


def make_folder(path: Path) -> None:
    """Make a directory and those that are missing on the way to it, each with mode 0700."""
    missing = []
    for one in (path, *path.parents):
        if one.exists():
            break
        missing.append(one)
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def folder(path: Path, closed: int, *, make: bool = False, follow: bool = False) -> int:
    """Open a directory of ours to which others have none of the rights `closed`; the caller closes it.

    Args:
        path: path of the folder.
        closed: `WRITING` or `ANY_ACCESS`.
        make: make it, mode 0700, where it is missing, with all folders on the way.
        follow: let its last name be a symbolic link. What it leads to is checked all the same.

    Raises:
        PermissionError: another user owns it, others have such rights, or it is a symbolic link; the message names
            the remedy.
        OSError: the folder is missing, or cannot be opened.
    """
    if make:
        make_folder(path)
    return _checked(_open(str(path), _FOLDER | (0 if follow else os.O_NOFOLLOW), path), path, closed)


def folder_in(parent: int, path: Path, closed: int, *, make: bool = False) -> int:
    """Open the directory of `path`'s last name that lies in the open directory `parent`; otherwise as `folder`."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(path.name, 0o700, dir_fd=parent)
    return _checked(_open(path.name, _FOLDER | os.O_NOFOLLOW, path, parent), path, closed)


def open_in(parent: int, path: Path, closed: int) -> int:
    """Open a regular file of ours for reading, by its last name in the open directory `parent`; see `folder`."""
    return _checked(_open(path.name, os.O_RDONLY | _FILE, path, parent), path, closed, regular=True)


def create_in(parent: int, name: str) -> int:
    """Make a file in an open directory, mode 0600, and open it for writing. `FileExistsError` if the name is taken."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=parent)


def _open(name: str, flags: int, path: Path, parent: int | None = None) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if _is_link(name, parent):
            words = f"{path} is a symbolic link, which others may have laid: name what it leads to instead"
            raise PermissionError(words) from error
        raise


def _is_link(name: str, parent: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _checked(handle: int, path: Path, closed: int, *, regular: bool = False) -> int:
    try:
        _check(path, os.fstat(handle), closed, regular=regular)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check(path: Path, status: os.stat_result, closed: int, *, regular: bool) -> None:
    if regular and not stat.S_ISREG(status.st_mode):
        raise PermissionError(f"{path} is not a regular file")
    if status.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to user id {status.st_uid}, not to us ({os.geteuid()}); choose another")
    if status.st_mode & stat.S_ISVTX and not regular:  # such as /tmp: closing it would lock everybody out
        raise PermissionError(f"{path} is for all users; choose a directory of your own in it, such as {path}/mine")
    if stat.S_IMODE(status.st_mode) & closed:
        if closed == WRITING:
            raise PermissionError(f"{path} could have been written by others")
        raise PermissionError(f"{path} is open to other users; close it with: chmod {600 if regular else 700} {path}")

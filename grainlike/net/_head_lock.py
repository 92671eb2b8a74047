"""Liveness lock of a head: other processes see that a head which has left its access files is dead, as its lock is
free.

The kernel frees a lock with its holder's last descriptor, however that ended. A lock is not visible to other machines
(not every network file system carries it), so the file names the one where it is meaningful.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["LOCK", "hold_lock", "is_left_behind"]

LOCK = "head.lock"
"""Name of the lock's file, in the folder of a cluster whose files are the head's own."""


@contextmanager
def hold_lock(folder: Path) -> Iterator[None]:
    """Hold the lock that shows that the head whose files are in `folder` lives. The file is removed at the end.

    Where the file system has no locks there is none, and the head is never taken for dead.
    """
    fresh, path = folder / f".{LOCK}.{secrets.token_hex(8)}", folder / LOCK
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(handle, socket.gethostname().encode())
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fresh.replace(path)  # locked before anybody sees it
        except OSError:
            fresh.unlink(missing_ok=True)
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def is_left_behind(folder: Path) -> bool:
    """Return True if the head whose files are in `folder` died without removing them; False where that cannot be
    seen.
    """
    with suppress(OSError):
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if os.fstat(handle).st_uid != os.geteuid() or os.read(handle, 300).decode() != socket.gethostname():
                return False
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        finally:
            os.close(handle)
        return True
    return False

"""Memory that a worker holds for values because the file system of shared memory is too small: one descriptor for each.

The daemon holds the memory, not its data server, because the values would be lost when a data server is killed. When
the daemon dies, the worker is lost anyway.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

from grainlike.payload import hold_memory, seal_held
from grainlike.system import spare_memory

__all__ = ["HeldMemory"]

_MOST = 1 << 20
"""Most descriptors of this process if the system sets no limit."""


class HeldMemory:
    """Memory that this process holds, by the paths at which other processes open it. It takes at most half of the
    descriptors that this process may have. It raises the limit of descriptors, unless the process is a user's program
    (`in_program`).

    Example::

        held = HeldMemory()
        room = held.make(replica_path(directory, 7, 1), 200_064)      # /proc/PID/fd/N
        held.release(room)
    """

    def __init__(self, *, in_program: bool = False) -> None:
        self._fds: dict[Path, int] = {}
        self._may_raise = not in_program

    def make(self, file: Path, size: int) -> Path:
        """Return the path of new, allocated memory for the replica `file`. Raises `OSError` if there is none."""
        if len(self._fds) >= self._most():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if size > spare_memory():  # without this limit, the kernel would kill a process for lack of memory
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        fd = hold_memory(file, size)
        room = Path(f"/proc/{os.getpid()}/fd/{fd}")
        self._fds[room] = fd
        return room

    def seal(self, room: Path) -> None:
        """Forbid every change to memory that is whole."""
        seal_held(self._fds[room])

    def release(self, room: Path) -> None:
        """Release memory, if it is held; processes that have mapped it keep their mapping."""
        fd = self._fds.pop(room, None)
        if fd is not None:
            os.close(fd)

    def release_all(self) -> None:
        """Release all memory."""
        for room in list(self._fds):
            self.release(room)

    def _most(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._may_raise and len(self._fds) >= soft // 2:
            self._may_raise = False
            soft = _MOST if hard == resource.RLIM_INFINITY else hard
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return soft // 2

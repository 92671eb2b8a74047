"""Memory that a worker holds for values, where the file system of shared memory is too small: a descriptor for each.

The daemon holds it, not its data server: that may be killed, and values would go with it. Who dies with the daemon is
the worker itself.
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
"""Descriptors that this process has at most, where the system sets no limit."""


class HeldMemory:
    """Memory that this process holds, by the paths at which others open it. It takes half of the descriptors that this
    process may have, whose limit it raises, unless it is a program of somebody's (`in_program`).

    Example::

        held = HeldMemory()
        room = held.make(replica_path(directory, 7, 1), 200_064)      # /proc/PID/fd/N
        held.release(room)
    """

    def __init__(self, *, in_program: bool = False) -> None:
        self._fds: dict[Path, int] = {}
        self._may_raise = not in_program

    def make(self, file: Path, size: int) -> Path:
        """Return the path of new memory for the replica `file`, allocated. `OSError` where there is none."""
        if len(self._fds) >= self._most():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if size > spare_memory():  # nothing else limits it but the end of some process
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        fd = hold_memory(file, size)
        room = Path(f"/proc/{os.getpid()}/fd/{fd}")
        self._fds[room] = fd
        return room

    def seal(self, room: Path) -> None:
        """Let nobody change what is whole."""
        seal_held(self._fds[room])

    def release(self, room: Path) -> None:
        """Let go of memory, if it is held; whoever has mapped it keeps it."""
        fd = self._fds.pop(room, None)
        if fd is not None:
            os.close(fd)

    def release_all(self) -> None:
        """Let go of all of it."""
        for room in list(self._fds):
            self.release(room)

    def _most(self) -> int:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if self._may_raise and len(self._fds) >= soft // 2:
            self._may_raise = False
            soft = _MOST if hard == resource.RLIM_INFINITY else hard
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return soft // 2

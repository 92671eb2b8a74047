"""The standard streams of a runner, mended between leases.

A job that closes descriptor 1 (`open(1, "w")` in a `with` block does) would leave it to the next job's first file, and
whatever is printed then would be written into that. One that sends it elsewhere would take the next job's output there.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

__all__ = ["StandardStreams"]

_Kept = tuple[int, tuple[int, ...]]
"""A second descriptor of the same open file, and by what to know that file again."""


class StandardStreams:
    """Descriptors 0 to 2 and `sys.stdin` to `sys.stderr` of the process, and the way back to them.

    `opened` returns the stream of a descriptor in place of one that a job has closed.
    """

    __slots__ = ("_kept", "_objects", "_opened")

    def __init__(self, opened: Callable[[int], object]) -> None:
        self._opened = opened
        self._kept: list[_Kept | None] = []
        self.keep()

    def keep(self) -> None:
        """Keep what is there now: `restore` goes back to that."""
        for old in self._kept:
            if old is not None:
                os.close(old[0])
        self._kept = [_kept(fd) for fd in range(3)]
        self._objects: list[Any] = [getattr(sys, name, None) for name in ("stdin", "stdout", "stderr")]

    def restore(self) -> None:
        """Put back what the last job closed, replaced or sent elsewhere."""
        # First: a wrapper of the job's may close what it wraps when it is dropped.
        sys.stdin, sys.stdout, sys.stderr = self._objects
        for fd, kept in enumerate(self._kept):
            if kept is not None:
                try:
                    intact = os.fstat(fd)[1:3] == kept[1] and not self._objects[fd].closed
                except Exception:  # noqa: BLE001 - closed, detached, or an object of the job's that is of no use any more
                    intact = False
                if not intact:
                    self._mend(fd, kept)

    def _mend(self, fd: int, kept: _Kept) -> None:
        if _identity(fd) != kept[1]:
            with suppress(OSError):
                os.dup2(kept[0], fd)
        if _is_closed(self._objects[fd]):
            self._objects[fd] = self._opened(fd)
            sys.stdin, sys.stdout, sys.stderr = self._objects


def _identity(fd: int) -> tuple[int, ...] | None:
    try:
        return os.fstat(fd)[1:3]  # number and device
    except OSError:
        return None


def _is_closed(stream: object) -> bool:
    try:
        return bool(getattr(stream, "closed", False))
    except Exception:  # noqa: BLE001 - detached, or an object of the job's that is of no use any more
        return True


def _kept(fd: int) -> _Kept | None:
    identity = _identity(fd)
    if identity is None:
        return None
    try:
        return os.dup(fd), identity
    except OSError:
        return None

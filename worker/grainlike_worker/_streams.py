"""The standard streams of a runner, mended between leases.

A job that closes descriptor 1 (`open(1, "w")` in a `with` block does) would leave it to the next job's first file, and
whatever is printed then would be written into that.
"""

import os
import sys
from contextlib import suppress

__all__ = ["Streams"]

_NAMES = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class Streams:
    """What the process was born with as descriptors 0 to 2, and the way back to it."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept = tuple(_kept(fd) for fd in range(3))

    def mend(self) -> None:
        """Put back what the last job closed; a stream that it replaced, or sent elsewhere, is its own affair."""
        for fd, kept in enumerate(self._kept):
            if kept is None:
                continue
            try:
                os.fstat(fd)
            except OSError:
                with suppress(OSError):
                    os.dup2(kept, fd)
            name, mode = _NAMES[fd]
            if _is_closed(getattr(sys, name, None)):
                buffering = 1 if fd else -1
                setattr(sys, name, open(fd, mode, buffering, errors="backslashreplace", closefd=False))  # noqa: SIM115


def _is_closed(stream: object) -> bool:
    try:
        return bool(getattr(stream, "closed", False))
    except Exception:  # noqa: BLE001 - detached, or an object of the job's that is of no use any more
        return True


def _kept(fd: int) -> int | None:
    try:
        return os.dup(fd)
    except OSError:
        return None

"""Who may start which job of a run-list, agreed between a daemon and a runner that is too busy to answer.

A runner that runs a plain function cannot confirm that the next job "has not started". So both look at a page of
shared memory: the runner writes `started` before it reads `barrier`, the daemon writes `barrier` before it reads
`started`. Whichever comes first, they never both believe that a job is theirs.
"""

import mmap
import os
import sys
from typing import Self

__all__ = ["IDLE", "NO_BARRIER", "Claims"]

IDLE = -1
"""`started` between two leases."""

NO_BARRIER = 2**31 - 1
"""`barrier` while every job of the run-list may start."""

_STARTED, _BARRIER = 0, 1


class Claims:
    """One page, mapped by the daemon (`create`) and by its runner (`attach`). Both close their own descriptor.

    Example::

        claims = Claims.create()
        claims.barrier = 3               # the jobs 3, 4, ... of the run-list are taken back
        first = max(3, claims.started + 1)   # but those up to `started` have begun
    """

    __slots__ = ("_page", "_words", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._page = mmap.mmap(fd, mmap.PAGESIZE)
        self._words = memoryview(self._page).cast("i")

    @classmethod
    def create(cls) -> Self:
        """Make a new page; its descriptor is not inheritable."""
        fd = _anonymous_file()
        os.ftruncate(fd, mmap.PAGESIZE)
        claims = cls(fd)
        claims.started = IDLE
        claims.barrier = NO_BARRIER
        return claims

    @classmethod
    def attach(cls, fd: int) -> Self:
        """Map the page that another process made; the descriptor belongs to the result."""
        return cls(fd)

    @property
    def started(self) -> int:
        """Index in the run-list of the job that the runner has begun last; `IDLE` between leases."""
        return self._words[_STARTED]

    @started.setter
    def started(self, index: int) -> None:
        self._words[_STARTED] = index

    @property
    def barrier(self) -> int:
        """Index of the first job of the run-list that must not start."""
        return self._words[_BARRIER]

    @barrier.setter
    def barrier(self, index: int) -> None:
        self._words[_BARRIER] = index

    def close(self) -> None:
        """Unmap the page and close the descriptor; the second time does nothing."""
        if self.fd >= 0:
            self._words.release()
            self._page.close()
            os.close(self.fd)
            self.fd = -1


def _anonymous_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("grainlike-claims")
    import tempfile

    fd, path = tempfile.mkstemp(prefix="grainlike-claims-")
    os.unlink(path)  # noqa: PTH108 - the descriptor is all that is needed
    return fd

"""Step of a shared runner: which coroutine it runs, in memory that its worker reads, without a message.

From it the worker knows who blocks the event loop that all share, and, when the process has died, whom to suspect.

Format of the pipe through which a runner that many jobs share says whose output it is.
"""

import os
import struct
import time

from grainlike_worker.ipc._page import Page, anonymous_file

__all__ = ["BLOCKED_S", "CALLED", "HEADER", "JOB", "LOADS", "PLACES", "SINCE", "TOLD", "StackFile", "StepPage"]


BLOCKED_S = 5.0
"""How long one step may take before it is told of."""

SINCE, JOB, TOLD, LOADS, CALLED = range(5)
"""What the numbers of a page are: when the step began, on the system's monotonic clock, and whose it is; the
`StopReason` once the daemon asks the runner to end, for a SIGTERM before that is a batch system's, to all processes;
the job whose function is being loaded, before any of its steps; and from `CALLED` on the places of leases, in each of
which stands how many jobs of its run-list have been called. The first one is for leases without a place."""

PLACES = 1 << 15
"""Places of leases in a page."""


class StepPage(Page[float]):
    """A page of numbers, `words`: the runner writes two around each step, and the worker reads them.

    The time is written first: who reads a job that has just been written reads no older time. A job's number is a float
    here, exact up to 2**53.

    Example::

        words[SINCE] = time.monotonic()
        words[JOB] = 17        # a step of job 17 begins
        words[JOB] = 0         # it has ended
        words[CALLED + 3] = 1  # the first job of the lease that has place 3 is called
    """

    __slots__ = ()

    typecode = "d"
    label = "grainlike-steps"
    size = 8 * (CALLED + PLACES)

    def stepping(self) -> tuple[int, float]:
        """Return the job whose step is on, 0 for none, and for how many seconds it has been."""
        job, since = int(self.words[JOB]), self.words[SINCE]
        return job, time.monotonic() - since

    def suspect(self) -> int:
        """Return the job over which the process has ended, as far as that is known; 0 if it is not."""
        return int(self.words[JOB] or self.words[LOADS])


class StackFile:
    """File into which a runner writes its Python stacks on a signal, even with its interpreter's lock held.

    The runner registers the signal (`faulthandler.register`); the worker makes the file, sends the signal and reads.
    """

    __slots__ = ("_read", "fd")

    def __init__(self) -> None:
        self.fd = anonymous_file("grainlike-stacks")
        self._read = 0

    @property
    def unread(self) -> int:
        """Bytes that were written since the last time that something was read, or skipped; 0 once it is closed."""
        return 0 if self.fd < 0 else os.fstat(self.fd).st_size - self._read

    def skip(self) -> None:
        """Leave out what was written since the last time."""
        self._read += self.unread

    def read(self) -> str:
        """Return what was written since the last time; nothing once it is closed."""
        if self.fd < 0:
            return ""
        data = os.pread(self.fd, 64 * 1024, self._read)
        self._read += len(data)
        return data.decode(errors="backslashreplace").strip()

    def close(self) -> None:
        """Let go of the file; the second time does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


HEADER = struct.Struct("<BqiI")
"""In front of each piece in the third pipe: stream, job, attempt, size."""

"""Step of a shared runner: which coroutine it runs, in memory that its worker reads, without a message.

From it the worker knows who blocks the event loop that all share, and, when the process has died, whom to suspect.

Format of the pipe through which a runner that many jobs share says whose output it is.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence

from grainlike_worker.ipc._page import Page, anonymous_file

__all__ = [
    "BLOCKED_S",
    "CALLED",
    "HEADER",
    "JOB",
    "LOADS",
    "PLACES",
    "SINCE",
    "SLOW_S",
    "TOLD",
    "CalledPlaces",
    "StackFile",
    "StepPage",
]


BLOCKED_S = 5.0
"""How long one step may take before it is told of."""

SLOW_S = 1.0
"""Most seconds of a step in a program's own event loop: all else of the program stands still meanwhile."""

SINCE, JOB, TOLD, LOADS, CALLED = range(5)
"""Numbers of a page: when the step began, on the system's monotonic clock, and whose it is; the
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


class CalledPlaces:
    """Places in the page of a shared runner, in which it notes how many jobs of each lease it has called.

    The worker gives a lease its place, and gives the place to another once all jobs of the first are answered for:
    while what the runner has said of it may still be lost with the process, what stands there is kept.

    Example::

        places = CalledPlaces()
        place = places.give(7, [21, 22, 23])    # the runner writes 1, 2, 3 there, each before it calls one
        places.called(page.words)               # {7: 0}: the first of them was called, and no other
        places.answered(7, 3, page.words)       # all have ended: the next lease may have the place
    """

    __slots__ = ("_free", "_leases", "_most")

    def __init__(self) -> None:
        self._leases: dict[int, _Given] = {}
        self._free: list[int] = []
        self._most = 0

    def give(self, lease: int, jobs: Sequence[int]) -> int:
        """Return the place of a lease with these jobs; 0, where nothing can be read, while all are taken."""
        if self._free:
            place = self._free.pop()
        elif self._most + 1 < PLACES:
            place = self._most = self._most + 1
        else:
            place = 0
        self._leases[lease] = _Given(place, jobs)
        return place

    def answered(self, lease: int, jobs: int, words: memoryview[float] | None) -> None:
        """Record that so many more jobs of a lease are answered for."""
        given = self._leases.get(lease)
        if given is None:
            return
        given.left -= jobs
        if given.left <= 0:
            del self._leases[lease]
            if given.place:
                self._free.append(given.place)
                if words is not None:
                    words[CALLED + given.place] = 0

    def called(self, words: memoryview[float]) -> dict[int, int]:
        """Return the position of the job that was called last, by lease: all may have been of one without a place."""
        counts = {
            lease: int(words[CALLED + its.place]) if its.place else len(its.jobs) for lease, its in self._leases.items()
        }
        return {lease: count - 1 for lease, count in counts.items() if count}

    def unended(self) -> list[int]:
        """Return the jobs of the leases of which not all are answered for."""
        return [job for its in self._leases.values() for job in its.jobs]


class _Given:
    __slots__ = ("jobs", "left", "place")

    def __init__(self, place: int, jobs: Sequence[int]) -> None:
        self.place = place
        self.jobs = jobs
        self.left = len(jobs)


HEADER = struct.Struct("<BqiI")
"""In front of each piece in the third pipe: stream, job, attempt, size."""

"""Usage of a job: CPU seconds with children, and the peak of resident memory."""

import os
import sys
import time
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

__all__ = ["EndedChildren", "Laps", "PeakMemory", "count_of_ended_children"]

_UNIT = 1 if sys.platform == "darwin" else 1024  # macOS counts ru_maxrss in bytes, the others in KiB

_STATUS_SIZE = 4096  # more than enough for the lines up to VmHWM


_CHILD_S = 0.0001
"""In less time than this no job starts a program and waits for its end."""


def count_of_ended_children() -> int:
    """Return a number that grows with each program or child that this process has waited for, by no fixed step."""
    return getrusage(RUSAGE_CHILDREN).ru_minflt


class EndedChildren:
    """Usage of the children that this process has waited for, as of the last `look`: CPU seconds of all of them, and
    the most resident memory of one, in bytes.
    """

    __slots__ = ("peak", "seconds")

    def __init__(self) -> None:
        self.look()

    def look(self) -> None:
        """Ask the system."""
        used = getrusage(RUSAGE_CHILDREN)
        self.seconds = used.ru_utime + used.ru_stime
        self.peak = used.ru_maxrss * _UNIT


class Laps:
    """Cuts time into laps, one per job: two readings a job, where a start and an end would take four.

    `cpu` tells the CPU seconds so far of whatever runs the jobs. Where `children` are given, theirs are a part of it;
    they are not looked at after laps in which there can have been none. `now` is when the present lap began.
    """

    __slots__ = ("_children", "_cpu", "_used", "now")

    def __init__(self, cpu: Callable[[], float], children: EndedChildren | None = None) -> None:
        self._cpu = cpu
        self._children = children
        self.restart()

    def restart(self) -> None:
        """Begin a lap; the time since the last one was no job's. That of children ends with a `look` at them."""
        self.now = time.monotonic()
        self._used = self._cpu() + (0.0 if self._children is None else self._children.seconds)

    def lap(self) -> tuple[float, float, float]:
        """End a lap and begin the next one; return begin, wall seconds and CPU seconds of the one that ended."""
        begun, before, children = self.now, self._used, self._children
        self.now = now = time.monotonic()
        wall = now - begun
        used = self._cpu()
        if children is not None:
            if wall >= _CHILD_S:
                children.look()
            used += children.seconds
        self._used = used
        return begun, wall, used - before


class PeakMemory:
    """The most resident memory at one time, in bytes: of the process's life, or since the last `restart`.

    The kernel's `ru_maxrss` has a trap: a process starts with its parent's, because the old memory is counted when
    `exec` replaces it, so a runner of a large program would seem as large. What does not rise above that floor is read
    from `/proc`, which is right but slower.
    """

    __slots__ = ("_before", "_children", "_floor", "_reset")

    def __init__(self, children: EndedChildren | None = None) -> None:
        own, honest = _own_peak(), _status_peak()
        self._floor = own if honest < own else 0
        self._children = EndedChildren() if children is None else children
        self._before = 0
        """The peak of children that ended before the last `restart`."""
        self._reset: int | None = None

    def restart(self) -> None:
        """Forget the peaks so far, where the kernel can (Linux). It resets the kernel's own count of this process."""
        self._children.look()
        self._before = self._children.peak
        if self._reset is None:
            self._reset = _open_reset()
        if self._reset >= 0:
            os.write(self._reset, b"5")

    def read(self) -> int:
        """Return the peak of this process or of its largest child, whichever is more."""
        own = _own_peak()
        if own <= self._floor:
            own = _status_peak() or own
        children = self._children
        children.look()
        return max(own, children.peak) if children.peak > self._before else own


def _open_reset() -> int:
    """Return the kernel's file to reset a peak, if it can be opened and written; else -1."""
    try:
        reset = os.open("/proc/self/clear_refs", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        os.write(reset, b"5")
    except OSError:
        os.close(reset)
        return -1
    return reset


def _own_peak() -> int:
    return getrusage(RUSAGE_SELF).ru_maxrss * _UNIT


def _status_peak() -> int:
    """`VmHWM` of this process; 0 where there is none."""
    try:
        status = os.open("/proc/self/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        _, found, rest = os.read(status, _STATUS_SIZE).partition(b"VmHWM:")
    finally:
        os.close(status)
    return int(rest.split(maxsplit=1)[0]) * 1024 if found else 0

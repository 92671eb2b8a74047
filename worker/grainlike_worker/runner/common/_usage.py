"""Usage of a job: CPU seconds with children, and the peak of resident memory."""

import os
import sys
import time
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

__all__ = ["Laps", "PeakMemory", "children_seconds", "count_of_ended_children"]

_UNIT = 1 if sys.platform == "darwin" else 1024  # macOS counts ru_maxrss in bytes, the others in KiB

_STATUS_SIZE = 4096  # more than enough for the lines up to VmHWM


_CHILD_S = 0.0001
"""In less time than this nobody starts a program and waits for its end."""


def children_seconds() -> float:
    """CPU seconds of the children that this process has waited for."""
    children = getrusage(RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def count_of_ended_children() -> int:
    """Return a number that grows with each program or child that this process has waited for, by no fixed step."""
    return getrusage(RUSAGE_CHILDREN).ru_minflt


class Laps:
    """Cuts time into laps, one per job: two readings a job, where a start and an end would take four.

    `cpu` tells the CPU seconds so far of whatever runs the jobs, and `children` those of its children, which is not
    asked after laps in which there can have been none; `now` is when the present lap began.
    """

    __slots__ = ("_children", "_cpu", "_of_children", "_used", "now")

    def __init__(self, cpu: Callable[[], float], children: Callable[[], float] | None = None) -> None:
        self._cpu = cpu
        self._children = children
        self._of_children = 0.0
        self.restart()

    def restart(self) -> None:
        """Begin a lap; the time since the last one was nobody's."""
        self.now = time.monotonic()
        if self._children is not None:
            self._of_children = self._children()
        self._used = self._cpu() + self._of_children

    def lap(self) -> tuple[float, float, float]:
        """End a lap and begin the next one; return begin, wall seconds and CPU seconds of the one that ended."""
        begun, before = self.now, self._used
        self.now = now = time.monotonic()
        wall = now - begun
        if wall >= _CHILD_S and self._children is not None:
            self._of_children = self._children()
        self._used = used = self._cpu() + self._of_children
        return begun, wall, used - before


class PeakMemory:
    """The most resident memory at one time, in bytes: of the process's life, or since the last `restart`.

    The kernel's `ru_maxrss` has a trap: a process is born with its parent's, because the old memory is counted when
    `exec` replaces it, so a runner of a large program would seem as large. What does not rise above that floor is read
    from `/proc`, which is right but slower.
    """

    __slots__ = ("_children", "_floor", "_reset")

    def __init__(self) -> None:
        own, honest = _own_peak(), _status_peak()
        self._floor = own if honest < own else 0
        self._children = 0
        self._reset: int | None = None

    def restart(self) -> None:
        """Forget the peaks so far, where the kernel can (Linux). It resets the kernel's own count of this process."""
        self._children = _children_peak()
        if self._reset is None:
            self._reset = _open_reset()
        if self._reset >= 0:
            os.write(self._reset, b"5")

    def read(self) -> int:
        """The peak of this process or of its largest child, whichever is more."""
        own = _own_peak()
        if own <= self._floor:
            own = _status_peak() or own
        children = _children_peak()
        return max(own, children) if children > self._children else own


def _open_reset() -> int:
    """The kernel's file to reset a peak, if it can be opened and written; else -1."""
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


def _children_peak() -> int:
    return getrusage(RUSAGE_CHILDREN).ru_maxrss * _UNIT


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

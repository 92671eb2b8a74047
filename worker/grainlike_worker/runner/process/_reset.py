"""Reset of a warm process between jobs: what one job leaves behind is put back, or the process is given up.

Put back is what is cheap to compare: the working directory and the environment (`ProcessState` has the rest). A process
is given up when its job left children behind (they are ended, but a library may still count on them), when its modules
or its environment were torn out, when the files that its jobs left open are nearly all that it may have, and when it
has come to hold much more memory than after its first lease.
"""

import errno
import os
import resource
import sys
import time
from contextlib import suppress

from grainlike.subprocesses import children, descendants, kill_all, reap
from grainlike_worker.runner.process._memory_limit import resident

__all__ = ["RunnerReset"]

_GROWN = 256 * 2**20
"""What a process may come to hold beyond twice of what it held after its first lease."""

_WEIGH_S = 1.0
"""How often it is weighed at most."""

_FILES = 16
"""Descriptors that must be left for another lease: one more job, and what is opened round it."""


class RunnerReset:
    """Of the process that makes it, in the state in which later jobs shall find it."""

    __slots__ = ("_data", "_directory", "_environ", "_environment", "_fd", "_first", "_modules", "_spared", "_weighed")

    def __init__(self) -> None:
        self._directory, self._fd = _here()
        self._environ = os.environ
        # The bytes behind the mapping: comparing the mapping itself would decode every value, for every lease.
        self._data: dict[bytes, bytes] = vars(os.environ)["_data"]
        self._environment = dict(self._data)
        self._modules = sys.modules
        self._first = 0
        self._weighed = 0.0
        self._spared: frozenset[int] = frozenset()

    def reset(self) -> None:
        """Put back what the last lease changed, before the next one."""
        if self._fd is not None and _directory() != self._directory:
            with suppress(OSError):
                os.fchdir(self._fd)
        if self._data != self._environment:
            self._restore()

    def settle(self) -> None:
        """Record the environment as it shall be from now on."""
        if self._data != self._environment:
            self._environment = dict(self._data)

    def exceeds_memory(self) -> bool:
        """Return True if the process has grown so much that it should not take another lease."""
        now = time.monotonic()
        if now - self._weighed < _WEIGH_S:
            return False
        self._weighed = now
        held = resident(os.getpid())
        if not self._first:
            self._first = held
        return held > 2 * self._first + _GROWN

    def weigh_anew(self) -> None:
        """Count from after the lease that begins: the first with devices loads libraries of gigabytes, to be kept."""
        self._first, self._weighed = 0, 0.0

    def needs_replacement(self) -> bool:
        """End the children that a lease left behind; return True if the process should take no other."""
        orphaned = self._end_others() if self._spared else _end_leftovers()
        torn = sys.modules is not self._modules or __name__ not in self._modules or os.environ is not self._environ
        return orphaned or torn or _descriptors_are_used_up()

    def spare_children(self) -> None:
        """Let the children that are there now stay: they are not a job's."""
        self._spared = frozenset(children(os.getpid()))

    def _end_others(self) -> bool:
        """Kill the children of jobs; whether any was alive."""
        from grainlike_worker.runner.common._leftovers import end_tracker, tracker_pid

        alive, tracker = False, tracker_pid()
        for pid in children(os.getpid()):
            with suppress(ChildProcessError):
                if pid not in self._spared and not os.waitpid(pid, os.WNOHANG)[0]:
                    alive = True
                    if pid != tracker:
                        kill_all([pid, *descendants(pid)])
                        os.waitpid(pid, 0)
        if tracker not in self._spared:
            end_tracker()
        return alive

    def _restore(self) -> None:
        for name in [name for name in self._data if name not in self._environment]:
            del os.environb[name]
        os.environb.update(self._environment)


def _end_leftovers() -> bool:
    if not reap():
        return False
    from grainlike_worker.runner.common._leftovers import end_leftovers  # few jobs leave any

    return end_leftovers()


def _descriptors_are_used_up() -> bool:
    try:
        lowest = os.dup(0)  # of those that are free
    except OSError as error:  # or the job has closed this one, which is put back
        return error.errno in (errno.EMFILE, errno.ENFILE)
    os.close(lowest)
    return lowest + _FILES > resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _here() -> tuple[str | None, int | None]:
    """Return the working directory, by name and as a descriptor: it may have been moved when we want to go back."""
    try:
        return _directory(), os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None, None


def _directory() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - compared for every lease
    except OSError:
        return None

"""Limits of this process: what its cgroups allow, and how large a message a head may receive; its import paths; and
whether it sees the kernel's files about processes.

Cgroups of both versions count, and each cgroup above: the least.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from grainlike.system._cgroup import Cgroup, own_cgroups

__all__ = [
    "cpu_limit",
    "free_in_cgroups",
    "import_paths",
    "max_message_bytes",
    "memory_limit",
    "own_memory",
    "why_no_processes",
]


_SHARE = 2
_UNKNOWN = 2**62


def max_message_bytes(proc: str = "/proc/self") -> int:
    """Return the limit in bytes of buffers: half of the machine's memory, or of the limit of this process's cgroup.

    A larger message could be received, but hardly be sent on: it is taken off the wire, and its job fails.
    """
    return (own_memory(proc) or _UNKNOWN) // _SHARE


def own_memory(proc: str = "/proc/self") -> int:
    """Return how many bytes of memory this process may use: the machine's, or what its cgroup allows; 0 if unknown."""
    known = [memory_limit(proc)]
    with suppress(ValueError, OSError):
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min((size for size in known if size is not None), default=0)


def cpu_limit(proc: str = "/proc/self") -> float | None:
    """Return the CPU limit in cores; None without a limit."""
    return min((time for group in _above(proc, "cpu") for time in _cpu(group)), default=None)


def memory_limit(proc: str = "/proc/self") -> int | None:
    """Return the memory limit in bytes; None without a limit."""
    files = ("memory.max", "memory.limit_in_bytes")
    return min((size for group in _above(proc, "memory") for size in _numbers(group, files)), default=None)


def free_in_cgroups(proc: str = "/proc/self") -> list[int]:
    """Return the bytes that each limited cgroup of this process may still use, with caches of files that would go."""
    found: list[int] = []
    for group in _above(proc, "memory"):
        limit = next(_numbers(group, ("memory.max", "memory.limit_in_bytes")), None)
        used = next(_numbers(group, ("memory.current", "memory.usage_in_bytes")), None)
        if limit is not None and used is not None:
            cached = group.numbers("memory.stat").get("inactive_file", 0)
            found.append(max(0, limit - used + cached))
    return found


def _cpu(group: Cgroup) -> Iterator[float]:
    with suppress(OSError, ValueError, ZeroDivisionError):
        allowed, period = group.read("cpu.max").split()
        yield int(allowed) / int(period)
    with suppress(OSError, ValueError, ZeroDivisionError):
        allowed, period = group.read("cpu.cfs_quota_us"), group.read("cpu.cfs_period_us")
        if int(allowed) > 0:
            yield int(allowed) / int(period)


def _numbers(group: Cgroup, files: tuple[str, ...]) -> Iterator[int]:
    """Iterate over the numbers in those files that exist; "max" is no number, and no limit."""
    for file in files:
        with suppress(OSError, ValueError):
            yield int(group.read(file))


def _above(proc: str, controller: str) -> Iterator[Cgroup]:
    """The process's own cgroup in each tree that may limit it, and all above, as far as they are shown here."""
    for own in own_cgroups(proc, controller):
        while os.access(f"{own.path}/cgroup.procs", os.F_OK):
            yield own
            own = own.above()  # noqa: PLW2901 - it walks up


def why_no_processes(proc: str = "/proc/self") -> str:
    """Return why no worker can run jobs in processes here, and what to do; empty where it can.

    By the kernel's files about processes a worker pins their threads, and finds what jobs leave behind.
    """
    if sys.platform != "linux" or os.path.isdir(f"{proc}/task"):  # noqa: PTH112 - each start of a process asks
        return ""
    words = "/proc is not mounted here, and a worker pins and finds the processes of jobs by it"
    return f"{words}; as root: mount -t proc proc /proc (for a chroot, its own proc directory, from outside)"


def import_paths() -> list[str]:
    """Return the paths that this process imports from, for processes that run its functions elsewhere.

    The empty one, of a REPL, is returned as its directory, and left out where somebody has removed that.
    """
    try:
        here = os.getcwd()  # noqa: PTH109 - a string is all that is needed
    except FileNotFoundError:
        here = ""
    return [found for path in sys.path if (found := path or here)]

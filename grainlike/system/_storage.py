"""Room on this machine: what is free of its memory, and of a file system, and whether that is memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from grainlike.system._limits import free_in_cgroups, own_memory

__all__ = ["free_bytes", "is_in_memory", "spare_memory"]

_MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}
_KEPT_FREE = 10
"""Part of the memory, a tenth, that is not spare."""


def spare_memory(proc: str = "/proc") -> int:
    """Return the bytes of memory that are free beyond a tenth of what this process may use; 0 if that is unknown."""
    whole = own_memory(f"{proc}/self")
    free = free_in_cgroups(f"{proc}/self")
    with suppress(OSError, ValueError, StopIteration), open(f"{proc}/meminfo", encoding="ascii") as lines:  # noqa: PTH123
        free.append(int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) * 1024)
    return max(0, min(free, default=0) - whole // _KEPT_FREE)


def free_bytes(path: Path) -> int:
    """Return the bytes that this user may still write to the file system of `path`; `OSError` where there is none."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def is_in_memory(path: Path, mounts: str = "/proc/self/mountinfo") -> bool:
    """Return True if the file system of `path` lies in memory; `OSError` where there is none."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with suppress(OSError), open(mounts, encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        for line in lines:
            mount, _, kind = line.partition(" - ")
            if mount.split()[2] == number:
                return kind.split()[0] in _MEMORY_FILE_SYSTEMS
    return False

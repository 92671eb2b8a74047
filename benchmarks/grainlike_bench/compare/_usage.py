"""CPU time and memory of this process and of all that it started, as Linux counts them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["cpu_seconds", "memory_bytes"]

_PROC = Path("/proc")
_PARENT, _SESSION, _USER = 1, 3, 11
"""Fields of `stat` behind the name, which may contain anything: see proc_pid_stat(5), whose numbers are three more."""

_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Return the CPU time that these processes, and their children that have ended, have used so far: user and system,
    in 10 ms steps.
    """
    return sum(sum(map(int, _stat(process)[_USER : _USER + 4])) for process in _family()) * _TICKS_S


def memory_bytes() -> int:
    """Return the memory that these processes use; pages that several share are divided between them."""
    return sum(_proportional(process) for process in _family())


def _family() -> set[int]:
    """Return this process, all processes of its session, and all descendants of those."""
    stats = {process: stat for process in _processes() if (stat := _stat(process))}
    session = str(os.getsid(0))
    found = {process for process, stat in stats.items() if stat[_SESSION] == session} | {os.getpid()}
    while more := {process for process, stat in stats.items() if int(stat[_PARENT]) in found} - found:
        found |= more
    return found


def _processes() -> Iterator[int]:
    return (int(path.name) for path in _PROC.iterdir() if path.name.isdigit())


def _stat(process: int) -> list[str]:
    """Return the fields of `stat` behind the name; none for a process that is gone."""
    with suppress(OSError):
        return (_PROC / str(process) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return []


def _proportional(process: int) -> int:
    with suppress(OSError):
        for line in (_PROC / str(process) / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0

"""CPU time and memory of this process and of all that it started, as Linux counts them."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["PARTS", "Spent", "cpu_seconds", "memory_bytes"]

PARTS = ("CPU", "caller", "daemon", "others", "wake-ups")
"""Figures of `Spent`: CPU time of all processes, of the calling one, of the worker's daemon, and of all the rest; and
how often their threads slept and were woken, which is what Linux calls voluntary context switches.
"""

_PROC = Path("/proc")
_PARENT, _SESSION, _CHILDREN = 1, 3, 13
"""Fields of `stat` behind the name, which may contain anything: see proc_pid_stat(5), whose numbers are three more."""

_TICKS_S = 1 / os.sysconf("SC_CLK_TCK")
_SLEPT = "voluntary_ctxt_switches:"


class Spent:
    """CPU time and wake-ups from when it is made until `stop`, beside the seconds of the wall.

    The calling process is read last at the beginning and first at the end, as reading takes it some milliseconds.
    """

    def __init__(self, daemon: int | None) -> None:
        self._daemon = daemon
        self._before = self._read()
        self._caller = time.process_time()
        self._begun = time.perf_counter()

    def stop(self) -> float:
        """End the measurement, and return how many seconds have passed."""
        seconds = time.perf_counter() - self._begun
        self._caller = time.process_time() - self._caller
        after = self._read()
        self._spent = [now - then for now, then in zip(after, self._before, strict=True)]
        return seconds

    def each(self, operations: int) -> dict[str, float]:
        """Return what each of so many operations took: microseconds of CPU time, and wake-ups.

        There is no figure of a daemon where the worker is in the calling process, or where there is none.
        """
        others, daemon, slept = self._spent
        found = {"CPU": self._caller + others, "caller": self._caller, "daemon": daemon, "others": others - daemon}
        if self._daemon is None:
            del found["daemon"]
        return {part: seconds / operations * 1e6 for part, seconds in found.items()} | {"wake-ups": slept / operations}

    def _read(self) -> tuple[float, float, float]:
        slept = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        others = _others()
        slept += sum(_slept(process) for process in others)
        return _cpu_of(others), 0.0 if self._daemon is None else _lived(self._daemon), slept


def cpu_seconds() -> float:
    """Return the CPU time that these processes, and their children that have ended, have used so far: user and system,
    that of children that have ended in 10 ms steps.
    """
    return time.process_time() + _cpu_of(_others())


def memory_bytes() -> int:
    """Return the memory that these processes use; pages that several share are divided between them."""
    return sum(_proportional(process) for process in _family())


def _others() -> set[int]:
    return _family() - {os.getpid()}


def _cpu_of(others: set[int]) -> float:
    """Return what other processes and all their children that have ended used, with those of this process."""
    reaped = resource.getrusage(resource.RUSAGE_CHILDREN)
    return reaped.ru_utime + reaped.ru_stime + sum(_lived(process) + _outlived(process) for process in others)


def _lived(process: int) -> float:
    """Return what the threads that a process has now have used."""
    return sum(int(_read(task / "schedstat").split()[0]) for task in _tasks(process)) / 1e9


def _outlived(process: int) -> float:
    """Return what a process's children that have ended had used."""
    return sum(map(int, _stat(process)[_CHILDREN : _CHILDREN + 2])) * _TICKS_S


def _slept(process: int) -> int:
    lines = [line for task in _tasks(process) for line in _read(task / "status").splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith(_SLEPT))


def _tasks(process: int) -> list[Path]:
    with suppress(OSError):
        return list((_PROC / str(process) / "task").iterdir())
    return []


def _read(path: Path) -> str:
    """Return what is in a file of Linux about a thread; zero for one that is gone."""
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace") or "0"
    return "0"


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

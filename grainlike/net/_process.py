"""Identity of a process, by which another one of the same machine can see whether it still runs; and its versions."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from grainlike.payload import serializer_versions
from grainlike.wire import Software

__all__ = ["is_elsewhere", "is_gone", "is_of_this_machine", "process_id", "runs_here", "software"]


def software() -> Software:
    """Return the versions that have to match between a head and its workers and clients."""
    return Software(platform.python_version(), serializer_versions())


def process_id() -> str:
    """Return machine, count of processes, number and start of this process; empty where the system does not show
    them.
    """
    return _named(os.getpid())


@cache
def _named(number: int) -> str:
    started = _started(number)
    return f"{_where()}/{number}/{started}" if started is not None and _where() else ""


def is_gone(process: str) -> bool:
    """Return True if the process of this `process_id` has ended for certain; False where that cannot be seen from
    here.
    """
    where, _, rest = process.partition("/")
    number, _, started = rest.partition("/")
    if not where or where != _where() or not number.isdecimal():
        return False
    return _started(int(number)) != started


def runs_here(process: str) -> bool:
    """Return True if the process of this `process_id` is another one of this machine, and runs for certain."""
    return is_of_this_machine(process) and process != process_id() and not is_gone(process)


def is_of_this_machine(process: str) -> bool:
    """Return True if the process of this `process_id` is of this boot of this machine for certain, and so has our
    monotonic clock.
    """
    return process.partition("/")[0] == _where() != ""


def is_elsewhere(process: str) -> bool:
    """Return True if the process of this `process_id` is of another machine, or container, for certain."""
    return process.partition("/")[0] not in ("", _where())


@cache
def _where() -> str:
    """Return this boot of this machine, and the namespace in which its processes are counted."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _started(number: int) -> str | None:
    """Return when a process started, in ticks since the boot; None for one that has ended, reaped or not."""
    try:
        status = Path(f"/proc/{number}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]

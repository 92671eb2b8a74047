"""Descendants of a process: found, ended, and waited for.

The process that uses this adopts orphans (`adopt_orphans`), so every descendant has a living parent below us or is
our own child: when the system reports that we have no child, no descendant is left, wherever it went.
"""

import os
import signal
import sys
import time
from contextlib import suppress

__all__ = ["LEFTOVER_GRACE_S", "children", "descendants", "end_children", "kill_all", "reap"]

LEFTOVER_GRACE_S = 1.0
"""Seconds from SIGTERM to SIGKILL for processes that a job left behind."""

_NAP_S = (0.001, 0.05)
"""First and longest pause between two looks at which processes are left, in seconds."""

_KILLED_S = 5.0
"""Seconds that a process may take to die of SIGKILL before it is left to the system: it waits for a device, or is not
ours to end.
"""


def children(pid: int) -> list[int]:
    """Return the living and the unreaped children of a process; empty when it has exited, or where there is no
    `/proc`.
    """
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - strings are all that is needed
    except OSError:
        return found
    for thread in threads:
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:  # noqa: PTH123 - as above
            found.extend(map(int, listed.read().split()))
    return found


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process, parents before their children. What starts meanwhile may be missing."""
    found = children(pid)
    for child in found:  # it grows while we walk
        found.extend(children(child))
    return found


def reap() -> bool:
    """Reap the children that have died; return True if any is alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def kill_all(pids: list[int], number: signal.Signals = signal.SIGKILL) -> None:
    """Signal all of them; those that have exited, or are not ours to signal, are passed over."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_children(grace_s: float, spared: int = 0) -> bool:
    """End every descendant of ours but `spared`: SIGTERM, SIGKILL after `grace_s`; return when they have exited.

    Returns whether one was alive. A descendant that survives SIGKILL for seconds is named on standard error and left.
    Other code of this process must not wait for children meanwhile: all are reaped here.
    """
    if not reap():
        return False
    here = os.getpid()
    kill_all(_others(here, spared), signal.SIGTERM)
    kill_all(_others(here, spared), signal.SIGCONT)  # a stopped process takes no SIGTERM
    if not _gone_within(grace_s, here, spared, None) and not _gone_within(_KILLED_S, here, spared, signal.SIGKILL):
        left = ", ".join(map(str, _others(here, spared)))
        print(f"grainlike: processes {left} do not die of SIGKILL", file=sys.stderr, flush=True)  # noqa: T201
    return True


def _others(here: int, spared: int) -> list[int]:
    return [pid for pid in descendants(here) if pid != spared]


def _gone_within(limit_s: float, here: int, spared: int, number: signal.Signals | None) -> bool:
    """Reap until no other child is left or the time is up, sending `number` to all that are left at each look."""
    deadline = time.monotonic() + limit_s
    nap, longest = _NAP_S
    while True:
        if number is not None:
            kill_all(_others(here, spared), number)
        if not reap() or (spared and not _others(here, spared)):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(nap)
        nap = min(2 * nap, longest)

"""Ends what jobs have left of their processes, that of multiprocessing in the order in which Python itself ends it.

A pool that is left open starts a process for each one that dies, so pools are closed first. The resource tracker
ignores SIGTERM: it ends when the last process that holds its pipe has, and then unlinks the semaphores and the shared
memory that are still there. Killed before, it would leave them on the machine for good.
"""

import os
import sys
import time
from contextlib import suppress
from threading import Thread
from typing import Any

from grainlike.subprocesses import LEFTOVER_GRACE_S, end_children, kill_all, reap

__all__ = ["end_leftovers", "end_tracker", "tracker_pid"]

_NAP_S = 0.002


def end_leftovers() -> bool:
    """End every descendant of this process, which takes no further job; return whether one was alive."""
    if not reap():
        return False
    _close_pools()
    end_children(LEFTOVER_GRACE_S, tracker_pid())
    end_tracker()
    return True


def tracker_pid() -> int:
    """Return the number of this process's resource tracker; 0 without one."""
    return getattr(_tracker(), "_pid", None) or 0


def end_tracker() -> None:
    """Let go of the resource tracker, and kill it if it goes on for long. Nothing else may hold its pipe any more."""
    tracker, pid = _tracker(), tracker_pid()
    if not pid:
        return
    fd, tracker._fd, tracker._pid = tracker._fd, None, None
    with suppress(OSError, TypeError):  # a job may have closed it, or torn the tracker apart
        os.close(fd)
    deadline = time.monotonic() + LEFTOVER_GRACE_S
    with suppress(ChildProcessError):  # reaped before
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if time.monotonic() > deadline:
                kill_all([pid])
                os.waitpid(pid, 0)
                return
            time.sleep(_NAP_S)


def _close_pools() -> None:
    """Run what multiprocessing has registered for the end of the process: it closes pools and unlinks semaphores."""
    run = getattr(sys.modules.get("multiprocessing.util"), "_run_finalizers", None)
    if run is not None:
        # In a thread, as a pool waits without limit for a process that was stopped.
        closing = Thread(target=run, args=(0,), daemon=True)
        closing.start()
        closing.join(LEFTOVER_GRACE_S)


def _tracker() -> Any:
    return getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)

"""Watch over the process that starts a worker's runners: does it answer, and what is done when it does not.

A process that was stopped (SIGSTOP), is traced, or waits in the kernel for a device keeps its sockets open, so what
waits for an answer of it would wait for ever. It is asked every few seconds. One that is late is told to go on;
after `LOST_S` it is killed, with all that it has started, and then everybody who waits for it sees its end.
"""

import logging
import os
import signal
import socket
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread

from grainlike.subprocesses import descendants, kill_all
from grainlike_worker.ipc._fork_requests import has_answered, ping
from grainlike_worker.runner.common._job_directories import keeps, remove, remove_empty

__all__ = ["answers", "end_stuck", "finish", "gone", "readable", "state_of"]

logger = logging.getLogger("grainlike.worker")

ASK_S = 5.0
"""Seconds between an answer and the next question."""

SUSPECT_S = 15.0
"""Seconds without an answer after which it is told to go on, and the worker no longer vouches for itself."""

LOST_S = 30.0
"""Seconds without an answer after which it is killed: as long as a head waits for a silent worker."""

ENDING_S = 8.0
"""Seconds between two looks at one that is to end: it gives what it kills five to die, and the head one to hang up."""

DYING_S = 2.0
"""Seconds that a killed process may take to be gone: some milliseconds, as a rule."""

_GO_ON = signal.SIGCONT

_WORDS = {"T": "stopped", "t": "stopped by a debugger", "D": "waits in the kernel, for a device or a file server"}


async def answers(control: socket.socket, within_s: float) -> bool:
    """Return whether the process at the other end of `control` answers in time. `OSError` when either end is closed."""
    with anyio.move_on_after(within_s):
        await readable(control.fileno())
    return has_answered(control)  # if this loop was blocked, it may have come long ago


async def ask(control: socket.socket, within_s: float) -> bool:
    """Ask for an answer; else as `answers`."""
    ping(control)
    return await answers(control, within_s)


def go_on(process: subprocess.Popen[bytes]) -> None:
    """Resume a process that was stopped; nothing for others."""
    process.send_signal(_GO_ON)


def state_of(pid: int) -> str:
    """Return the state of a process as one letter of `/proc/PID/stat`; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return ""


def describe_state(pid: int) -> str:
    """Return words for what a process does that does not answer."""
    return _WORDS.get(state_of(pid), "busy, or waiting")


async def end_stuck(process: subprocess.Popen[bytes], scratch: str) -> None:
    """Kill a process that does not answer, with all that it has started, and remove what its jobs left in `scratch`.

    Returns when they are gone, or after `DYING_S`: what waits in the kernel dies when that lets it go.
    """
    with anyio.move_on_after(DYING_S):
        # Orphans fall to it while it lives: only then are all of them found.
        while living := [pid for pid in descendants(process.pid) if state_of(pid) not in ("Z", "X", "")]:
            kill_all(living)
            await anyio.sleep(0.005)
    process.kill()
    with anyio.move_on_after(DYING_S):
        await gone(process)
    await anyio.to_thread.run_sync(remove_empty if keeps() else remove, scratch)


async def finish(process: subprocess.Popen[bytes], scratch: str) -> None:
    """Wait for the end of a process that was told to end; kill it if it cannot."""
    go_on(process)
    waited = 0
    while process.poll() is None:
        with anyio.move_on_after(ENDING_S):
            await gone(process)
            return
        state, waited = state_of(process.pid), waited + 1
        if state in ("T", "t") or (state == "D" and waited > 2):
            words = "process %d, which started the runners, does not end (%s), and is killed"
            logger.warning(words, process.pid, describe_state(process.pid))
            await end_stuck(process, scratch)
            return


async def gone(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process without holding up the loop."""
    if process.poll() is None:
        watch = os.pidfd_open(process.pid)
        try:
            await readable(watch)
        finally:
            os.close(watch)
        process.wait()


async def readable(fd: int) -> None:
    """Wait on a descriptor of our own: of one descriptor a loop lets only one task wait."""
    own = os.dup(fd)
    try:
        await anyio.wait_readable(own)
    finally:
        os.close(own)

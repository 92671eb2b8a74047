"""Inherited state of a process on which it must not depend: closed descriptors, and masks of signals.

A program may be started without descriptors 0, 1 and 2 (`program >&-`, some supervisors). Whatever is opened next gets
the lowest free number: a pipe or a socket of ours could become the standard output of every process that is started
after that, which would write into it.

Supervisors, MPI launchers and users of `signalfd` block signals, and so does every process that they start. Keepers and
runners wait for SIGCHLD, SIGTERM and SIGUSR1, and jobs start programs that do.
"""

import os
import signal

__all__ = ["is_standard_for_children", "reserve_standard_descriptors", "reset_signals"]

_HIGHEST = 2
_AWAITED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1)


def reserve_standard_descriptors() -> None:
    """Open the null device as each of 0, 1 and 2 that is closed. To be called before anything else is opened.

    `sys.stdin`, `sys.stdout` and `sys.stderr` stay None where Python found their descriptors closed.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= _HIGHEST:
        os.set_inheritable(fd, True)
    os.close(fd)


def is_standard_for_children(fd: int) -> bool:
    """Return True where a child inherits `fd` as it is; False where it is closed, or no child is meant to have it.

    An event loop that was made while the descriptor was free keeps something of its own there.
    """
    try:
        return os.get_inheritable(fd)
    except OSError:
        return False


def reset_signals() -> None:
    """Let all signals through, and let none be ignored that is waited for. To be called first in a process of ours."""
    for number in _AWAITED:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())

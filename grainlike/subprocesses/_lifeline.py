"""A process that ends with its parent, and a process group that ends with a process which need not be its parent.

The latter by a pipe, to which that one could write. When the last writer of a pipe is gone, however it exited, the
kernel signals the owner of the other end. No process has to be alive, awake or willing for that; but a process of the
group must hold the end to read. In the same way a stopped process is resumed when another ends.
"""

import fcntl
import os
import signal
import sys

__all__ = ["die_with_parent", "end_with_pipe", "go_on_with_pipe", "prctl"]

_PR_SET_PDEATHSIG = 1


def end_with_pipe(fd: int, group: int) -> None:
    """Have the kernel kill the process group `group` when the pipe whose end to read is `fd` has lost its last writer.

    Linux only. It holds for this very group, also after its number has been given to another.
    """
    _signal_with_pipe(fd, -group, signal.SIGKILL)


def go_on_with_pipe(fd: int) -> None:
    """Have the kernel resume this process, should it be stopped, when the pipe `fd` has lost its last writer.

    Linux only. A stopped process would else not take the SIGTERM that its parent's death sends to it (see
    `die_with_parent`).
    """
    _signal_with_pipe(fd, os.getpid(), signal.SIGCONT)


def _signal_with_pipe(fd: int, owner: int, number: signal.Signals) -> None:
    fcntl.fcntl(fd, fcntl.F_SETOWN, owner)
    fcntl.fcntl(fd, fcntl.F_SETSIG, number)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)


def die_with_parent(parent: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Have this process signalled when the thread that started it ends; exit now if `parent` is already gone.

    Linux only. Elsewhere the end of the link is the only sign, which a runner sees between two jobs.
    """
    if sys.platform == "linux":
        prctl(_PR_SET_PDEATHSIG, int(number))
    # The parent may have died before the call above; then the kernel has nothing left to tell us.
    if os.getppid() != parent:
        os._exit(1)


def prctl(option: int, argument: int) -> None:
    """Ask the kernel of this process; see prctl(2). Raises `OSError`. Linux only."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, argument, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")

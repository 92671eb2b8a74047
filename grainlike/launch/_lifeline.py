"""A process group that ends with a process which need not be its parent: by a pipe, to which that one could write.

When the last writer of a pipe is gone, however it ended, the kernel signals the owner of the other end. No process has
to be alive, awake or willing for that; but somebody of the group must hold the end to read.
"""

import fcntl
import os
import signal

__all__ = ["end_with_pipe"]


def end_with_pipe(fd: int, group: int) -> None:
    """Have the kernel kill the process group `group` when the pipe whose end to read is `fd` has lost its last writer.

    Linux only. It holds for this very group, also after its number has been given to another.
    """
    fcntl.fcntl(fd, fcntl.F_SETOWN, -group)
    fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)

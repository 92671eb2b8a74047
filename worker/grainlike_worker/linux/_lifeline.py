"""A runner never outlives its worker, nor do the programs that its jobs started: the kernel sees to both.

The runner itself dies by the death signal of its parent. Its children have another parent, so for them there is a pipe:
the worker holds the end to write to, and never writes; when the worker dies, in whatever way, the kernel closes that
end and signals "I/O" to the owner of the other, which is the runner's whole process group, and the signal is SIGKILL.
No process has to be alive, awake or willing for that, but the runner, which holds the other end: so the keeper has such
a pipe as well. When it is killed, its end is closed before the runner is signalled, while that of a worker that was
killed at the same moment may still be open. A job's child that made a group of its own escapes it: such ones
fall to the runner, and when that is dead to the keeper (`keeper`), which are told to adopt orphans, and end them.
"""

import os
import signal
import sys

from grainlike.subprocesses import die_with_parent, end_with_pipe, prctl

__all__ = ["adopt_orphans", "die_with_parent", "die_with_pipe", "end_within"]

_PR_SET_CHILD_SUBREAPER = 36


def die_with_pipe(fd: int) -> None:
    """Have this process's group killed when the last writer of the pipe `fd` is gone. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        end_with_pipe(fd, os.getpgrp())


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, daemons too. Linux only; elsewhere nothing."""
    if sys.platform == "linux":
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_within(seconds: int) -> None:
    """Have the kernel end this process after so long, whatever it does: others wait for its slots."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)

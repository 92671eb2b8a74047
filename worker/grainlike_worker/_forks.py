"""Telling a child that a job forked from the process that runs the job.

Such a child has copies of everything, an event loop too. If it comes back out of the job instead of ending, it must go
no further: it would answer for jobs, and take messages away from the process that it is a copy of.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

__all__ = ["DESCENT", "end_if_forked_here"]

DESCENT = [0]
"""Its one number is how many forks lie between this process and the one that imported this module.

Who reads it and finds it grown is in a process that was forked meanwhile, and ends that at once, with nothing run:
`if DESCENT[0] != before: os._exit(0)`. Every step of every coroutine does, which is why it is no function.
"""


def end_if_forked_here(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """From now on, end each child that is forked in this thread and comes back to `loop`, which runs here.

    That is one forked in a task or callback of a job's, which nobody drives step by step. In such a child `fd`, the
    runner's socket, leads nowhere at once: what waits there is for the process that it is a copy of.
    """
    thread = threading.get_ident()

    def after_fork() -> None:
        if threading.get_ident() == thread and not loop.is_closed():
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, fd, inheritable=False)
            os.close(nowhere)
            loop.call_soon(os._exit, 0)

    os.register_at_fork(after_in_child=after_fork)


def _count() -> None:
    DESCENT[0] += 1


os.register_at_fork(after_in_child=_count)

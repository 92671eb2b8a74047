"""Telling a child that a job forked from the process that runs the job, and keeping the process's signals from it.

Such a child has copies of everything, an event loop too. If it comes back out of the job instead of ending, it must go
no further: it would answer for jobs, and take messages away from the process that it is a copy of.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

__all__ = ["FORK_DEPTH", "end_if_forked_here", "keep_signals"]

Handler = Any  # what `signal.getsignal` gives and `signal.signal` takes

FORK_DEPTH = [0]
"""Its one number is how many forks lie between this process and the one that imported this module.

Who reads it and finds it grown is in a process that was forked meanwhile, and ends that at once, with nothing run:
`if FORK_DEPTH[0] != before: os._exit(0)`. Every step of every coroutine does, which is why it is no function.
"""


def end_if_forked_here(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    """End each child that is forked in this thread from now on and comes back to `loop`, which runs here.

    That is one forked in a task or callback of a job's, which is not driven step by step. In such a child `fd`, the
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


def keep_signals(handlers: Mapping[int, tuple[Handler, Handler]]) -> None:
    """Let a forked child take each of these signals by the second handler if it would by the first.

    They are blocked around a fork, and come after it. The interpreter drops what arrives in a child before its first
    instruction, and what a handler raises in a callback of the fork goes nowhere: a child that was told to end would
    stay.
    """
    masks = threading.local()

    def before() -> None:
        masks.blocked = set()
        masks.blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # may raise what a handler raises; so may the next
        signal.pthread_sigmask(signal.SIG_BLOCK, handlers)

    def after_in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(handlers) - masks.blocked)

    def after_in_child() -> None:
        for number, (ours, theirs) in handlers.items():
            if signal.getsignal(number) == ours:
                signal.signal(number, theirs)
        after_in_parent()

    os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)


def _count() -> None:
    FORK_DEPTH[0] += 1


os.register_at_fork(after_in_child=_count)

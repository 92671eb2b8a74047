"""A signal that all threads of a process have blocked, and no child of it shall: masks are inherited."""

import os
import signal
import subprocess
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

__all__ = ["unblock_in_children"]


def unblock_in_children(number: int, disarm: Callable[[], object]) -> None:
    """From now on, children that this process forks or starts have not blocked this signal.

    A forked one calls `disarm` first: it has the handler, too. A program is given the mask of the thread that starts
    it, which therefore lets the signal through for that moment.
    """

    def after_in_child() -> None:
        disarm()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})

    def unblocked(start: Callable[..., int]) -> Callable[..., int]:
        @wraps(start)
        def started(*args: Any, **kwargs: Any) -> int:
            before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
            try:
                return start(*args, **kwargs)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

        return started

    os.register_at_fork(after_in_child=after_in_child)
    # What all of the library's ways to start a program come down to; libuv clears the mask itself.
    rooms: list[tuple[Any, str]] = [(import_module("_posixsubprocess"), "fork_exec"), (subprocess, "_fork_exec")]
    for room, name in [*rooms, (os, "posix_spawn"), (os, "posix_spawnp")]:
        setattr(room, name, unblocked(getattr(room, name)))

"""Signals that wake an idle event loop of a notebook's kernel.

A kernel takes Ctrl-C, and the button of a notebook, by a Python handler that schedules the cancellation of the cell. An
idle loop of asyncio does not look at what was scheduled until something else wakes it: a second later, or an hour.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from grainlike.eventloop import EventLoopId

__all__ = ["woken_by_signals"]


@contextmanager
def woken_by_signals(loop_id: EventLoopId) -> Iterator[None]:
    """Context manager: each signal with a Python handler has the loop take a turn, unless something sees to it already.

    No-op on trio, which does so itself, and outside the main thread, which signals do not concern.
    """
    if loop_id.backend != "asyncio" or threading.current_thread() is not threading.main_thread():
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            yield
            return
        loop: Any = loop_id.loop
        loop.add_reader(ours, _drain, ours)
        try:
            yield
        finally:
            loop.remove_reader(ours)
            now = signal.set_wakeup_fd(-1)
            if now not in (-1, theirs.fileno()):
                signal.set_wakeup_fd(now)  # somebody else's by now


def _drain(ours: socket.socket) -> None:
    with suppress(BlockingIOError):
        ours.recv(4096)

"""Ctrl-C in programs that a person types into, whose event loop is theirs: the cell that awaits is cancelled, at once.

A kernel takes Ctrl-C, and the button of a notebook, by a Python handler that schedules the cancellation of the cell. An
idle loop of asyncio does not look at what was scheduled until something else wakes it: a second later, or an hour.

At a prompt, Python raises `KeyboardInterrupt` wherever the main thread is. In the middle of a loop's turn that breaks
the task whose turn it is, an executor's own as well; and IPython in a terminal then leaves the cell's task in its loop,
which goes on with the next cell, and shows there the value that no cell waits for any more.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import FrameType
from typing import Any
from weakref import WeakSet

from grainlike.eventloop import EventLoopId
from grainlike.executor._interactive import is_notebook, is_prompt

__all__ = ["interruptible", "woken_by_signals"]

_CELLS = ("run_cell_async", "<module>")
"""Names of the coroutines that run what was typed: IPython's, and that of `python -m asyncio`."""


def interruptible(loop_id: EventLoopId) -> AbstractContextManager[object]:
    """Return the context manager in which Ctrl-C cancels the cell that awaits, in a notebook and at a prompt."""
    if loop_id.backend != "asyncio" or threading.current_thread() is not threading.main_thread():
        return nullcontext()
    if is_notebook():
        return woken_by_signals(loop_id)
    # A handler of somebody else's has its reasons: `asyncio.run` has one, and does the same.
    if is_prompt() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return _cells_cancelled(loop_id)
    return nullcontext()


@contextmanager
def _cells_cancelled(loop_id: EventLoopId) -> Iterator[None]:
    """Context manager: Ctrl-C during a turn of the loop waits for the end of the turn, unless it is the cell's own.

    Pressed twice, it does not wait.
    """
    loop: Any = loop_id.loop
    asked: WeakSet[asyncio.Task[Any]] = WeakSet()

    def handle(number: int, frame: FrameType | None) -> None:
        cell = _cell_of(loop) if asyncio._get_running_loop() is loop else None
        if cell is None or cell in asked or cell is asyncio.current_task(loop):
            signal.default_int_handler(number, frame)
        asked.add(cell)
        if _name_of(cell) == "<module>":
            loop.call_soon_threadsafe(signal.default_int_handler, number, None)  # `asyncio` cancels it, and says so
        else:
            loop.call_soon_threadsafe(cell.cancel)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _cell_of(loop: Any) -> asyncio.Task[Any] | None:
    """Return the task that runs what was typed last; None if none does."""
    return next((task for task in asyncio.all_tasks(loop) if _name_of(task) in _CELLS), None)


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__name__", "")


@contextmanager
def woken_by_signals(loop_id: EventLoopId) -> Iterator[None]:
    """Context manager: each signal with a Python handler has the loop take a turn, unless something sees to it already.

    For asyncio, in the main thread.
    """
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

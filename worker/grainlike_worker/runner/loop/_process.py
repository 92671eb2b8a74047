"""The shared runner as a process: an event loop of its own, uvloop's where there is one.

An event loop that many jobs share: what would end it for all is refused to the one that tries.

A signal that all threads of a process have blocked, and no child of it shall: masks are inherited.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import anyio

import grainlike._error_texts  # noqa: F401 - for the first failure: a job may leave a process that can import nothing
from grainlike.context import GVAR
from grainlike.net import adopt
from grainlike_worker.ipc._signals import FLUSH_SIGNAL, NOTICES, TERMINATED, in_batch_job
from grainlike_worker.ipc._steps import TOLD, StepPage
from grainlike_worker.linux._forks import end_if_forked_here, keep_signals
from grainlike_worker.runner.common._edited_modules import EditedModules
from grainlike_worker.runner.common._job_records import JobRecords
from grainlike_worker.runner.loop._batch_notice import BatchNotice
from grainlike_worker.runner.loop._output import PipeOutput, hooked_streams
from grainlike_worker.runner.loop._programs import programs_placed
from grainlike_worker.runner.loop._runner import serve_shared

__all__ = ["serve_process", "shared_loop", "unblock_in_children"]


def serve_process(
    fd: int,
    scratch: str | None = None,
    *,
    told: int | None = None,
    steps: int | None = None,
    stacks: int | None = None,
    records: int | None = None,
) -> int:
    """Serve the link that came as descriptor `fd`; return the exit code. SIGTERM cancels the jobs and ends it.

    What a job prints is written to the pipe `told`, with its number; which one is being stepped, to the page `steps`.
    A signal makes the process write its Python stacks to `stacks`, whatever it does. What a job logs goes to `records`.
    """
    if stacks is not None:
        _show_stacks(stacks)
    page = None if steps is None else StepPage.attach(steps)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        output = None if told is None else PipeOutput(told)
        logged = None if records is None else JobRecords(records)
        return runner.run(_serve(fd, scratch, output, None if page is None else page.words, logged))


async def _serve(
    fd: int,
    scratch: str | None,
    output: PipeOutput | None,
    words: memoryview[float] | None,
    records: JobRecords | None = None,
) -> int:
    notice = BatchNotice() if in_batch_job() else None
    edits = EditedModules()
    with programs_placed(), anyio.CancelScope() as scope:
        _take_sigterm(scope.cancel, words, notice)
        _keep_signals()
        end_if_forked_here(asyncio.get_running_loop(), fd)
        link = await adopt(socket.socket(fileno=fd), "worker")
        # The other end is the process that started this one.
        link.trust()
        if output is None:
            await serve_shared(link, scratch, words=words, notice=notice, records=records, edits=edits)
        else:
            _print_in_lines()
            with hooked_streams():
                await serve_shared(link, scratch, output, words, notice=notice, records=records, edits=edits)
    return TERMINATED if scope.cancel_called else 0


def _take_sigterm(cancel: Callable[[], object], words: memoryview[float] | None, notice: BatchNotice | None) -> None:
    """Cancel at SIGTERM; in a batch job only once the daemon has said so, for it is sent to every process there."""
    loop = asyncio.get_running_loop()
    if words is None or notice is None:
        loop.add_signal_handler(signal.SIGTERM, cancel)
        return

    def cancel_if_told() -> None:
        if words[TOLD]:
            cancel()
        else:
            notice.came()

    loop.add_signal_handler(signal.SIGTERM, cancel_if_told)
    for number in NOTICES:
        loop.add_signal_handler(number, notice.came)


def _keep_signals() -> None:
    """Children that jobs fork die of signals as any process does: a loop's handlers would ring this loop instead."""
    defaults = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    defaults |= dict.fromkeys(NOTICES if in_batch_job() else (), signal.SIG_DFL)
    keep_signals({number: (signal.getsignal(number), default) for number, default in defaults.items()})


def _show_stacks(fd: int) -> None:
    """Let a signal write what all threads do, by a handler that needs no lock of the interpreter's.

    A thread takes the signal that does nothing else: the system calls of users' code must not be cut short by it.
    """
    faulthandler.register(FLUSH_SIGNAL, file=fd, all_threads=True)
    threading.Thread(target=_take_signals, name="grainlike stacks", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {FLUSH_SIGNAL})
    unblock_in_children(FLUSH_SIGNAL, lambda: faulthandler.unregister(FLUSH_SIGNAL))


def _take_signals() -> None:
    while True:
        signal.pause()


def _print_in_lines() -> None:
    """New streams: a pipe is no terminal, and Python would keep back what is printed until there is more of it."""
    for name, fd in (("stdout", 1), ("stderr", 2)):
        setattr(sys, name, open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False))  # noqa: SIM115


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's loop, else asyncio's own, made safe for many jobs."""
    try:
        import uvloop
    except ImportError:
        return shared_loop(asyncio.SelectorEventLoop)
    return shared_loop(uvloop.Loop)


def shared_loop(kind: Any) -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes event loops of the class `kind` that no job can stop.

    `loop.stop()` in a job, or in a task or callback of one, raises `RuntimeError` there, and no other job is affected.

    Example::

        with asyncio.Runner(loop_factory=shared_loop(uvloop.Loop)) as runner:
            runner.run(serve())
    """

    class SharedLoop(kind):  # type: ignore[misc]
        def stop(self) -> None:
            job = GVAR.job
            if job is not None:
                raise RuntimeError(
                    f"{job.name} (job {job.id}) would stop the event loop of all coroutines of this worker; "
                    "one that has a loop to itself is had with isolate=True"
                )
            super().stop()

    return SharedLoop


def unblock_in_children(number: int, disarm: Callable[[], object]) -> None:
    """Let children that this process forks or starts from now on have this signal unblocked.

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

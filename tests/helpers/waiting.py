"""Waits of tests for what happens elsewhere: by an event where there is one, else by looking again.

| what happens | wait |
|---|---|
| a line is logged in this process | `logged` |
| a file is made, written, moved or removed, by any process | `until_files` |
| a process ends, whose child it may be | `until_ended` |
| a function of this process is called, in any thread | `until_called` |
| what tells nobody: records of the kernel, /proc, another head's answers | `until` |

Each returns when its condition holds, and fails a test that has waited for `LIMIT_S`. Those named `..._blocking` are
for tests without an event loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing, suppress
from functools import wraps
from pathlib import Path
from typing import TypeVar

import anyio
import psutil
import pytest
from limits import LIMIT_S

__all__ = [
    "logged",
    "still_running",
    "until",
    "until_blocking",
    "until_called",
    "until_ended",
    "until_ended_blocking",
    "until_files",
    "until_files_blocking",
]

T = TypeVar("T")

LINUX = sys.platform == "linux"
LOOK_S = 0.005
"""Seconds between two looks at what tells nobody."""


async def until(condition: Callable[[], T | Awaitable[T]]) -> T:
    """Return the first true value of `condition()`, which nothing tells of: it is looked at again and again.

    A condition that is a coroutine function is awaited.
    """
    with anyio.fail_after(LIMIT_S):
        while True:
            found = condition()
            if found := await found if inspect.isawaitable(found) else found:
                return found
            await anyio.sleep(LOOK_S)


def until_blocking(condition: Callable[[], T]) -> T:
    """Return as `until` does, in a test without an event loop."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(LOOK_S)
    return found


# --- files -----------------------------------------------------------------------------------------------------------


async def until_files(folder: Path, condition: Callable[[], T]) -> T:
    """Return the first true value of `condition()`, which is about files below `folder`, there already or not."""
    if not LINUX:
        return await until(condition)
    with anyio.fail_after(LIMIT_S), closing(_Changes(folder)) as changes:
        while not (found := changes.look(condition)):
            await anyio.wait_readable(changes.fd)
    return found


def until_files_blocking(folder: Path, condition: Callable[[], T]) -> T:
    """Return as `until_files` does, in a test without an event loop."""
    if not LINUX:
        return until_blocking(condition)
    deadline = time.monotonic() + LIMIT_S
    with closing(_Changes(folder)) as changes:
        while not (found := changes.look(condition)):
            if not _readable(changes.fd, deadline):
                raise TimeoutError
    return found


class _Changes:
    """Changes below a folder, as Linux tells of them (inotify): `fd` is readable when there were some."""

    _MASK = 0x2 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400  # modified, closed, moved from and to, made, removed, self

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def look(self, condition: Callable[[], T]) -> T:
        """Return `condition()`; whatever changes after it was asked makes `fd` readable."""
        with suppress(BlockingIOError):
            os.read(self.fd, 65536)
        self._watch()
        return condition()

    def _watch(self) -> None:
        """Watch all folders below this one; while it is not there, the nearest above it that is."""
        watched = None
        while not self._folder.is_dir():
            nearest = next(parent for parent in self._folder.parents if parent.is_dir())
            if nearest == watched:
                return
            self._add(nearest)
            watched = nearest
        folders = [self._folder]
        for folder in folders:
            self._add(folder)  # before it is listed: of a folder that is made in it meanwhile we are told
            with suppress(OSError), os.scandir(folder) as entries:
                folders += [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]

    def _add(self, folder: Path) -> None:
        self._libc.inotify_add_watch(self.fd, os.fsencode(folder), self._MASK)

    def close(self) -> None:
        os.close(self.fd)


# --- processes -------------------------------------------------------------------------------------------------------


async def until_ended(*pids: int) -> None:
    """Return when all these processes have ended, anybody's children; those too whom nobody has waited for yet."""
    if not LINUX:
        await until(lambda: not any(map(_runs, pids)))
        return
    with anyio.fail_after(LIMIT_S), ExitStack() as stack:
        watches = [watch for watch in map(_watch, pids) if watch is not None]
        for watch in watches:
            stack.callback(os.close, watch)
        for watch in watches:
            await anyio.wait_readable(watch)


def until_ended_blocking(*pids: int) -> None:
    """Return as `until_ended` does, in a test without an event loop."""
    if left := still_running(pids):
        raise TimeoutError(f"processes {left} go on")


def still_running(pids: list[int] | tuple[int, ...], within: float = LIMIT_S) -> list[int]:
    """Return those of `pids` that still run after at most `within` seconds, blocking the thread."""
    deadline = time.monotonic() + within
    if not LINUX:
        while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return left
    with ExitStack() as stack:
        watches = {}
        for pid in pids:  # of all of them first: an id may be given to somebody new
            if (watch := _watch(pid)) is not None:
                stack.callback(os.close, watch)
                watches[pid] = watch
        return [pid for pid, watch in watches.items() if not _readable(watch, deadline)]


def _readable(watch: int, deadline: float) -> bool:
    poll = select.poll()  # descriptors beyond 1024, too
    poll.register(watch, select.POLLIN)
    return bool(poll.poll(1000 * max(0.0, deadline - time.monotonic())))


def _watch(pid: int) -> int | None:
    """Return a descriptor that is readable when the process has ended; None when it has gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


# --- this process ----------------------------------------------------------------------------------------------------


async def until_called(owner: object, name: str, condition: Callable[[], T]) -> T:
    """Return the first true value of `condition()`, looked at now and after each end of a call of `owner.name`.

    For asyncio. `owner` is a class, for all its objects, or one object whose attribute can be set.
    """
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    function = getattr(owner, name)

    @wraps(function)
    def calls(*args: object, **kwargs: object) -> object:
        try:
            return function(*args, **kwargs)
        finally:
            with suppress(RuntimeError):  # another thread's call may end when the test has, and its loop is closed
                loop.call_soon_threadsafe(called.set)

    @wraps(function)
    async def awaits(*args: object, **kwargs: object) -> object:
        try:
            return await function(*args, **kwargs)
        finally:
            called.set()

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(owner, name, awaits if inspect.iscoroutinefunction(function) else calls)
        async with asyncio.timeout(LIMIT_S):
            while not (found := condition()):
                await called.wait()
                called.clear()
    return found


async def logged(caplog: pytest.LogCaptureFixture, text: str, count: int = 1) -> list[str]:
    """Return the messages with `text` in them, once there are `count`. For asyncio."""

    def found() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if text in record.getMessage()]
        return messages if len(messages) >= count else []

    return await until_called(caplog.handler, "emit", found)

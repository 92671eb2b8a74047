"""Where an executor lives: one event loop, one thread, one process. And the few things that need to know which loop."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

__all__ = ["Home", "here", "soon", "spawn_detached"]


class Home(NamedTuple):
    """A place in which waiting is possible; two are the same place if they are equal."""

    backend: str
    loop: object
    thread: int
    pid: int

    def __str__(self) -> str:
        thread = "the main thread" if self.thread == threading.main_thread().ident else f"thread {self.thread}"
        return f"{self.backend} loop {id(self.loop):#x} of {thread} in process {self.pid}"


def here() -> Home | None:
    """The home of the running task, or None outside any event loop."""
    trio = sys.modules.get("trio")
    if trio is not None:
        try:
            return _home("trio", trio.lowlevel.current_trio_token())
        except RuntimeError:
            pass
    try:
        return _home("asyncio", asyncio.get_running_loop())
    except RuntimeError:
        return None


def _home(backend: str, loop: object) -> Home:
    return Home(backend, loop, threading.get_ident(), os.getpid())


def spawn_detached(home: Home, name: str, run: Callable[[], Awaitable[None]]) -> object:
    """Run `run` in a task that belongs to no scope of the caller; it must not raise. Keep what is returned.

    A task of its own is what lets an executor be opened in one task and closed in another, as fixtures do.
    """
    if home.backend == "trio":
        import trio

        return trio.lowlevel.spawn_system_task(run, name=name)
    return asyncio.get_running_loop().create_task(_coroutine(run), name=name)


async def _coroutine(run: Callable[[], Awaitable[None]]) -> None:
    await run()


def soon(home: Home, call: Callable[[], Any]) -> None:
    """Call `call` in a later turn of the home's event loop. From the home's own thread only."""
    loop: Any = home.loop
    if home.backend == "trio":
        loop.run_sync_soon(call)
    else:
        loop.call_soon(call)

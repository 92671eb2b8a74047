"""Identity of an executor's event loop: one loop, one thread, one process. And the few functions that depend on the
loop.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple

__all__ = [
    "EventLoopId",
    "forget_the_loop",
    "here",
    "is_here",
    "name_the_loop",
    "soon",
    "soon_from_anywhere",
    "spawn_detached",
]


class EventLoopId(NamedTuple):
    """A place in which waiting is possible; two are the same place if they are equal."""

    backend: str
    loop: object
    thread: int
    pid: int

    def __str__(self) -> str:
        thread = "the main thread" if self.thread == threading.main_thread().ident else f"thread {self.thread}"
        return f"{self.backend} loop {id(self.loop):#x} of {thread} in process {self.pid}"


def here() -> EventLoopId | None:
    """Return the event loop of the running task, or None outside any."""
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


def is_here(loop_id: EventLoopId | None) -> bool:
    """Return True if `here()` is this one: the same in fewer steps, as each await asks."""
    if loop_id is not None and loop_id.backend == "asyncio" and "trio" not in sys.modules:
        # A forked process has no running loop, so its number need not be asked for.
        return asyncio._get_running_loop() is loop_id.loop and threading.get_ident() == loop_id.thread
    return here() == loop_id


def _home(backend: str, loop: object) -> EventLoopId:
    return EventLoopId(backend, loop, threading.get_ident(), os.getpid())


def spawn_detached(loop_id: EventLoopId, name: str, run: Callable[[], Awaitable[None]]) -> object:
    """Run `run` in a task that belongs to no scope of the caller; it must not raise. Keep what is returned.

    A task of its own is what lets an executor be opened in one task and closed in another, as fixtures do.
    """
    if loop_id.backend == "trio":
        import trio

        return trio.lowlevel.spawn_system_task(run, name=name)
    return asyncio.get_running_loop().create_task(_coroutine(loop_id, run), name=name)


async def _coroutine(loop_id: EventLoopId, run: Callable[[], Awaitable[None]]) -> None:
    name_the_loop(loop_id)
    await run()


def name_the_loop(loop_id: EventLoopId) -> None:
    """Set in this context which event loop library runs.

    Where sniffio is installed, anyio queries it, and it detects asyncio only by the running task; but frames arrive
    in callbacks of transports, where none runs. They inherit this context.
    """
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None and loop_id.backend == "asyncio":
        sniffio.current_async_library_cvar.set("asyncio")


def forget_the_loop() -> None:
    """Set in this context that no event loop runs: it is that of a call in a thread."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)


def soon(loop_id: EventLoopId, call: Callable[[], Any]) -> None:
    """Call `call` in a later turn of the event loop. From the loop's own thread only."""
    loop: Any = loop_id.loop
    if loop_id.backend == "trio":
        loop.run_sync_soon(call)
    else:
        loop.call_soon(call, context=_context_of(loop_id))


def soon_from_anywhere(loop_id: EventLoopId, call: Callable[[], Any]) -> None:
    """Call `call` in a later turn from any thread, in a destructor too. RuntimeError when the loop is closed."""
    loop: Any = loop_id.loop
    if loop_id.backend == "trio":
        loop.run_sync_soon(call)
    else:
        loop.call_soon_threadsafe(call, context=_context_of(loop_id))


def _context_of(loop_id: EventLoopId) -> Context:
    context = copy_context()
    context.run(name_the_loop, loop_id)
    return context

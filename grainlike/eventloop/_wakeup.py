"""Wake-up event for one waiter, at a third of the calls of anyio's: one is awaited with every message."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import anyio

from grainlike.eventloop._loop import on_asyncio

__all__ = ["Bell", "bells"]


class Bell(Protocol):
    """Wake-up event for a single waiter; to set it again, or without a waiter, is no error."""

    def set(self) -> object:
        """Wake the waiter."""

    def wait(self) -> Awaitable[object]:
        """Wait; if it is set already, that may take no turn of the loop."""
        ...


def bells() -> Callable[[], Bell]:
    """Return the factory of one-shot events for the running loop.

    Example::

        bell = bells()()
        node.waiters = [bell]
        await bell.wait()
    """
    return _Future if on_asyncio() else anyio.Event


class _Future:
    """Wake-up event on asyncio: a bare future."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        # An event of anyio's takes some 25 Python calls to make, set and wait for; this takes a third, and a job on the
        # embedded worker needs four.
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        if not self._future.done():  # one that was cancelled is done, too
            self._future.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        return self._future

"""Advance of asynchronous generators ahead of their readers, with turns of the event loop where a step may be long."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import anyio
import anyio.lowlevel

__all__ = ["advance"]

_LONG_S = 0.001
"""Seconds beyond which a step is long: a generator that computes gives the event loop no turn in it."""

_QUICK_STEPS = 16
"""Number of quick steps in a row after which the next one is taken to be quick: turns would slow down quick streams."""

_TURNS = 8
"""Turns of the event loop within which an item has left this process, or has reached its reader, if that is here."""


async def advance(
    generator: AsyncGenerator[Any, Any],
    has_room: Callable[[], Awaitable[bool]],
    give: Callable[[Any], object],
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Give what `generator` yields until it ends or raises; it is closed when this returns, its `finally` done.

    All its steps are taken in this task, so it may hold task groups and cancel scopes open across a `yield`: what a
    scope of its own raises between two steps is raised there. `has_room` waits until another item may be made; False
    if none shall be. Where a step may be long, the event loop has some turns before it: so no item waits here while
    the generator computes the next one, and one that never waits is cancelled at its next `yield`. If it `is_stopped`,
    that ends it, whatever it catches.

    Example::

        await advance(numbers(), window.has_room, items.append)
    """
    try:
        quick = 0
        while True:
            thrown: BaseException | None = None
            try:
                for _ in range(_TURNS if quick < _QUICK_STEPS else 0):
                    await anyio.lowlevel.checkpoint()
                if not await has_room():
                    return
            except BaseException as error:
                # Scopes that the generator has open round its `yield` are of this task: theirs to catch.
                if is_stopped() or isinstance(error, GeneratorExit):
                    raise
                thrown = error
            since = time.monotonic()
            try:
                item = await (anext(generator) if thrown is None else generator.athrow(thrown))
            except StopAsyncIteration:
                return
            give(item)
            del item  # it may be large, and the generator may take its time for the next one
            quick = quick + 1 if time.monotonic() - since <= _LONG_S else 0
    finally:
        # On trio, and in any scope of anyio's, each `await` of its `finally` would be cancelled again.
        with anyio.CancelScope(shield=True):
            await generator.aclose()

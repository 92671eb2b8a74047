"""Edge-triggered cancellation, as asyncio has it, inside the executor's cancel scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar, cast

import anyio

from grainlike.eventloop import RepeatedCancellation, on_asyncio

__all__ = ["cancel_once"]

T = TypeVar("T")


async def cancel_once(body: Coroutine[Any, Any, T], name: str) -> T:
    """Await `body`. On asyncio a cancellation from outside reaches it once, so that its `finally` may await.

    In a cancel scope, each further `await` would be cancelled again: programs written for trio expect that, and on trio
    it stays so. What has not ended after a grace is cancelled again, and the log calls it `name`. Whatever happens,
    `body` has ended when this returns.
    """
    if not on_asyncio():
        return await body
    task = asyncio.get_running_loop().create_task(_settled(body))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        cancellation = RepeatedCancellation(task, name)
        with anyio.CancelScope(shield=True):
            while not task.done():
                with suppress(asyncio.CancelledError):  # a task's own cancellation is stopped by no shield
                    await asyncio.wait([task])
        cancellation.settled()
        raise
    value, error = task.result()
    if error is not None:
        raise error
    return cast("T", value)


async def _settled(body: Coroutine[Any, Any, T]) -> tuple[T | None, BaseException | None]:
    """Carry every error out by hand: on its way through the loop, SystemExit would stop the loop instead."""
    try:
        return await body, None
    except BaseException as error:  # noqa: BLE001 - raised again by who awaits it
        return None, error

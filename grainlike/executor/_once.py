"""Cancellation as asyncio's users know it, inside the executor's cancel scopes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import anyio

from grainlike.net import on_asyncio

__all__ = ["cancelled_once"]


async def cancelled_once(body: Coroutine[Any, Any, None]) -> None:
    """Await `body`. On asyncio a cancellation from outside reaches it once, so that its `finally` may await.

    In a cancel scope, each further `await` would be cancelled again: programs written for trio expect that, and on trio
    it stays so. Whatever happens, `body` has ended when this returns.
    """
    if not on_asyncio():
        await body
        return
    task = asyncio.get_running_loop().create_task(_settled(body))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
    error = task.result()
    if error is not None:
        raise error


async def _settled(body: Coroutine[Any, Any, None]) -> BaseException | None:
    """Carry every error out by hand: on its way through the loop, SystemExit would stop the loop instead."""
    try:
        await body
    except BaseException as error:  # noqa: BLE001 - raised again by who awaits it
        return error
    return None

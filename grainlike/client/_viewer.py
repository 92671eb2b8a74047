"""Viewer's connection to a head: a new one each time that the head returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio

from grainlike.client._connection import LOOK_S, HeadClient, call
from grainlike.errors import GrainlikeError, HeadLostError

__all__ = ["view"]

R = TypeVar("R")


async def view(
    head: str | Path | None,
    use: Callable[[HeadClient], Awaitable[R]],
    *,
    insecure: bool = False,
    lost: Callable[[str], object],
) -> R:
    """Call `use` with a connection to a head, and again with a new one whenever that was lost, until it returns.

    `head` is found again each time, as `call` does: another head that has taken the place is as good. `lost` is told
    why there is none, after each attempt.

    Raises:
        HeadLostError, AuthenticationError, VersionMismatchError, ValueError: as `call`, of the first attempt alone.
        Exception: what `use` raises, other than a `HeadLostError`.

    Example::

        async def use(client):
            return (await client.ask(AskHead(0), HeadIs)).pid

        print(await view(None, use, lost=print))
    """
    was_there = False
    while True:
        is_there = False
        try:
            async with call(head, insecure=insecure) as client:
                was_there = is_there = True
                return await use(client)
        except (GrainlikeError, OSError, ValueError) as error:
            if not was_there or (is_there and not isinstance(error, HeadLostError)):
                raise
            lost(str(error))
        await anyio.sleep(LOOK_S)

"""Waiting for memory links: on asyncio they pass on what comes without a task, so tasks that all wait say nothing."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel

from grainlike.net import Link

__all__ = ["all_wait"]


async def all_wait(link: Link) -> None:
    """Wait until all tasks wait, and neither end of a memory link has anything to pass on.

    Example::

        near, far = memory_pair()
        near.post(message)
        await all_wait(near)    # the far end has taken it, and what it answered has come
    """
    ends: list[Any] = [link, vars(link)["_far"]]
    await anyio.wait_all_tasks_blocked()
    while any(end._scheduled for end in ends):
        await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()

"""Interface to the pools of workers of a head, and the wait for the end of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import anyio

from grainlike.errors import LaunchError
from grainlike.eventloop import Changes
from grainlike.wire import BlockRow, PoolRow

if TYPE_CHECKING:
    from grainlike.launch import WorkerPool

__all__ = ["Fleet", "until_gone"]


DOWN_S = 60.0
"""Seconds for which `down` waits until nothing is left of a pool in its batch system."""


class Fleet(Protocol):
    """Pools of the head on which an executor's jobs run."""

    async def up(self, name: str, pool: WorkerPool) -> None:
        """Set a pool; return when its first submission was taken, or none is needed."""

    async def scale(self, name: str, least: int, most: int) -> None:
        """Change how many workers a pool has."""

    async def down(self, name: str, *, now: bool) -> None:
        """Take a pool down, and return when nothing is left of it."""

    def pools(self) -> list[PoolRow]:
        """Return the pools."""
        ...

    def blocks(self) -> list[BlockRow]:
        """Return the blocks that live."""
        ...


async def until_gone(name: str, changes: Changes, blocks: Callable[[], Sequence[BlockRow]]) -> None:
    """Return when a pool has no block any more.

    Raises:
        LaunchError: it has some after `DOWN_S`; the error names them.
    """

    def left() -> list[BlockRow]:
        return [row for row in blocks() if row.pool == name]

    with anyio.move_on_after(DOWN_S):
        await changes.until(lambda: not left())
    if left():
        what = "; ".join(f"{row.label} ({row.native or 'no id yet'}): {row.reason}" for row in left())
        raise LaunchError(f"after {DOWN_S:g} s there is left of pool {name}: {what}")

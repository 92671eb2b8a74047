"""Pools of workers of a head elsewhere."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import anyio

from grainlike.client._connection import HeadClient
from grainlike.eventloop import Changes
from grainlike.jobs import until_gone
from grainlike.wire import AskDown, AskFleet, AskScale, AskUp, BlockRow, Done, FleetIs, Matched, PoolRow, UpIs

if TYPE_CHECKING:
    from grainlike.launch import WorkerPool

__all__ = ["RemoteFleet"]

logger = logging.getLogger("grainlike")


class RemoteFleet:
    """Pools of a head elsewhere, which sends them when they have changed."""

    def __init__(self, client: HeadClient, changes: Changes) -> None:
        self._client = client
        self._changes = changes
        self._told = FleetIs(0, [], [])

    def take(self, told: FleetIs) -> None:
        """Take the pools that the head has sent."""
        self._told = told
        self._changes.notify()

    async def refresh(self) -> None:
        """Ask the head for its pools."""
        await self._client.ask(AskFleet(0, ended=False), FleetIs, self.take)

    async def up(self, name: str, pool: WorkerPool) -> None:
        """Set up a pool. Raises the exceptions of `Executor.up`."""
        await self.refresh()
        was_up = any(row.pool == name for row in self.pools())
        try:
            answer = await self._client.ask(AskUp(0, name, json.dumps(pool.settings())), UpIs)
        except anyio.get_cancelled_exc_class():
            if not was_up:
                self._client.link.post(AskDown(0, [name], at_once=True))
            raise
        if answer.silent:
            logger.warning("pool %s is set, but %s", name, answer.silent)
        await self.refresh()

    async def scale(self, name: str, least: int, most: int) -> None:
        """Change how many workers a pool has. Raises the exceptions of `LaunchedPool.scale`."""
        await self._client.ask(AskScale(0, name, least, most), Done)
        await self.refresh()

    async def down(self, name: str, *, now: bool) -> None:
        """Take a pool down. Raises the exceptions of `LaunchedPool.down`."""
        await self.refresh()
        if any(row.pool == name for row in self.pools()):
            await self._client.ask(AskDown(0, [name], at_once=now), Matched)
            await self.refresh()
        await until_gone(name, self._changes, self.blocks)

    def pools(self) -> list[PoolRow]:
        """Return the pools, as of their last change."""
        return list(self._told.pools)

    def blocks(self) -> list[BlockRow]:
        """Return the live blocks, as of their last change."""
        return list(self._told.blocks)

"""Answers, and what a head sends unasked: a program takes them in the order in which they come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import anyio
import pytest
from limits import LIMIT_S

from grainlike.client._connection import HeadClient
from grainlike.client._remote_fleet import RemoteFleet
from grainlike.eventloop import Changes
from grainlike.net import ClosedLink, OnFrames
from grainlike.wire import Buffer, FleetIs, Frame, Message, PoolRow, Question, Welcome

pytestmark = pytest.mark.anyio


class Scripted(ClosedLink):
    """Brings, once it was asked something, all these in one read: who asked has its turn when all were taken."""

    def __init__(self, *read: Message) -> None:
        super().__init__("head", "here")
        self._read = [Frame(message) for message in read]
        self._asked = anyio.Event()

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        if isinstance(message, get_args(Question)):
            self._asked.set()

    async def run(self, on_frames: OnFrames) -> None:
        on_frames([Frame(Welcome("c1", 1.0, [], "program"))])
        await self._asked.wait()
        on_frames(self._read)
        await anyio.sleep_forever()


async def refreshed(*read: Message) -> RemoteFleet:
    """Return the pools that a program has of a head that sends all these when it is asked for them."""
    with anyio.fail_after(LIMIT_S):
        async with anyio.create_task_group() as tasks:
            client = HeadClient(Scripted(*read), lambda frame: fleet.take(frame.message))
            fleet = RemoteFleet(client, Changes())
            tasks.start_soon(client.run)
            await client.welcomed()
            try:
                await fleet.refresh()
            finally:
                tasks.cancel_scope.cancel()
    return fleet


def pools(*names: str, ask: int = 0) -> FleetIs:
    return FleetIs(ask, [PoolRow(name, "local", "cores=1", 0, 1, 0, 0, 0, "", 0.0) for name in names], [])


async def test_pools_that_a_head_sends_behind_its_answer_are_newer_than_that() -> None:
    fleet = await refreshed(pools("old", ask=1), pools("old", "new"))
    assert [row.pool for row in fleet.pools()] == ["old", "new"]


async def test_an_answer_is_newer_than_the_pools_that_a_head_has_sent_before_it() -> None:
    fleet = await refreshed(pools("old", "gone"), pools("old", ask=1), pools())
    assert fleet.pools() == []

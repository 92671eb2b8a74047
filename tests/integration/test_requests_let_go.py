"""Requests that no job uses any more are dropped wherever they are: at the head and at its workers."""

import asyncio
import gc

import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, Memory, delayed, gather
from grainlike.head._peers import WorkerConnection
from grainlike.scheduler import _catalogue
from grainlike_worker.daemon._daemon import _Daemon

pytestmark = pytest.mark.asyncio

MOST = 3 * 2 * _catalogue.KEPT_EMPTY
MIB = 1 << 20


@delayed
async def seen(i):
    return i


def _own(kind, others):
    """The one of a class that belongs to the test."""
    [found] = [found for found in gc.get_objects() if type(found) is kind and all(found is not one for one in others)]
    return found


async def test_a_program_that_asks_for_something_else_each_time_does_not_grow():
    gc.collect()
    # Held until the end: one that went meanwhile would give its place in memory, its id, to one of this test.
    others = [found for found in gc.get_objects() if type(found) in (_Daemon, WorkerConnection)]
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2) & Memory("8Gi")) as executor:
        for start in range(0, 1_000, 50):
            calls = [(seen @ Memory(MIB + i, grow=2))(i) for i in range(start, start + 50)]
            assert await gather(calls) == list(range(start, start + 50))
        scheduler = executor._service.head.state.scheduler
        assert scheduler._catalogue._last_shape >= 1_000
        assert max(len(scheduler.shapes), len(scheduler.classes)) <= MOST
        assert len(_own(WorkerConnection, others)._classes) <= MOST
        assert len(_own(_Daemon, others)._scheduler._classes) <= MOST

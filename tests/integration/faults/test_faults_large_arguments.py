"""A program's large arguments for which no worker has room ever: they travel with the calls, and nothing waits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging

import numpy as np
import pytest
from argument_calls import made, totals
from far import far_workers, far_workers_of_client, head_of, records
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, Resource, connect, delayed_value, gather, info, start
from grainlike.payload import memory_id

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")]

SIZE = 4_000_000
SMALL = ("--store", str(SIZE // 2), "--scratch-limit", "0")
WIDE = ("--store", str(20 * SIZE), "--scratch-limit", "0")
ELSEWHERE = "import grainlike.payload as p\np.memory_id = lambda: {name!r}"


@pytest.fixture(params=[far_workers, far_workers_of_client], ids=["embedded", "client"])
def far(request):
    """Far workers of a program that has a head, or uses one elsewhere."""
    return request.param


def large():
    """Large arguments of several calls: an array, and a ready value."""
    return np.ones(SIZE // 8), delayed_value(np.ones(SIZE // 8))


def at(name: str):
    return Cores(1) & Resource(name, 1)


def own(executor) -> list[int]:
    """The values of programs' own that the head knows."""
    return [value.id for value in records(executor).values() if value.fn is None]


async def test_what_no_store_could_hold_travels_with_the_calls(far, start_worker, caplog):
    with caplog.at_level(logging.WARNING, "grainlike"):
        async with far(start_worker, "n1", resources="cores=1", more=SMALL) as (executor, _):
            found = await gather((totals @ Cores(1))(given) for given in large() for _ in range(2))
            assert found == [("n1", SIZE / 8)] * 4
            assert own(executor) == []
            assert executor.report().sent > 4 * SIZE
    assert "larger store" not in caplog.text


async def test_it_travels_to_a_worker_with_too_small_a_store_and_stays_at_others(far, start_worker):
    given = large()
    async with far(start_worker, "n1", resources="cores=1 {name}=1", more=WIDE) as (executor, _):
        start_worker(
            executor.address, name="n2", resources="cores=1 n2=1", first=ELSEWHERE.format(name="n2"), more=SMALL
        )
        await executor.wait_for_workers(2)
        beside_ = start((made @ at("n2"))())
        await until(lambda: info(beside_).where == ("n2",))  # noqa: F821 - deleted later
        names = ("n1", "n2", "n1", "n2")
        calls = gather((totals @ at(name))(one, beside_) for one in given for name in names)
        assert await calls == [(name, SIZE / 8 + 40_000) for name in (*names, *names)]
        assert [head_of(executor).state.workers_with(value) for value in own(executor)] == [["n1"], ["n1"]]
        assert executor.report().sent > 6 * SIZE
        del beside_, calls, given
        gc.collect()
        await until(lambda: not records(executor))


async def test_it_travels_where_the_first_worker_comes_later_and_has_no_room(start_worker):
    given = large()
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as head, connect(head.address) as client:
        calls = gather((totals @ Cores(1))(one) for one in given for _ in range(2))
        start(calls)
        await until(lambda: len(head_of(head).state.jobs) == 4)
        assert len(own(head)) == 2
        start_worker(head.address, name="n1", resources="cores=1", first=ELSEWHERE.format(name="n1"), more=SMALL)
        assert await calls == [("n1", SIZE / 8)] * 4
        assert client.report().sent > 4 * SIZE
        assert client.report().succeeded == 4
        del calls, given
        gc.collect()
        await until(lambda: not records(head))


async def test_a_call_that_cannot_travel_so_fails_alone(start_worker, monkeypatch):
    async with far_workers_of_client(start_worker, "n1", resources="cores=1 {name}=1", more=WIDE) as (client, _):
        start_worker(client.address, name="n2", resources="cores=1 n2=1", first=ELSEWHERE.format(name="n2"), more=SMALL)
        await client.wait_for_workers(2)
        monkeypatch.setattr(client._service._values, "payloads", _broken)
        given, _ = large()
        there, nowhere = await gather([(totals @ at(name))(given) for name in ("n1", "n2")], return_exceptions=True)
        assert there == ("n1", SIZE / 8)
        assert "no memory" in str(nowhere)


def _broken(_):
    raise MemoryError("no memory")


@contextlib.asynccontextmanager
async def embedded():
    """An executor with a worker of its own, which has room for little."""
    here = Executor(local=at("here"), listen="tcp://127.0.0.1:0", store=SIZE // 2, scratch_limit=0)
    async with asyncio.timeout(LIMIT_S), here as executor:
        yield executor, executor


@contextlib.asynccontextmanager
async def connected():
    """A client of such an executor on the same machine."""
    async with embedded() as (head, _), connect(head.address) as client:
        yield client, head


@pytest.mark.parametrize("opened", [embedded, connected])
async def test_the_worker_of_the_program_has_it_in_shared_memory(opened, start_worker):
    async with opened() as (executor, head):
        given = large()
        assert await gather((totals @ at("here"))(one) for one in given for _ in range(2)) == [("local", SIZE / 8)] * 4
        assert not own(head)
        start_worker(executor.address, name="n1", resources="cores=1", first=ELSEWHERE.format(name="n1"), more=WIDE)
        await executor.wait_for_workers(2)
        given = large()  # may be values from now on, and fit into a store where these jobs cannot run
        assert await gather((totals @ at("here"))(one) for one in given for _ in range(2)) == [("local", SIZE / 8)] * 4
        assert len(own(head)) == 2
        del given
        gc.collect()
        await until(lambda: not records(head))
        store = head_of(head).object_store.directory
        await until(lambda: not list(store.glob("[aev][0-9]*")))

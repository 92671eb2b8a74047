"""Streams and `amap` over a worker of their own, and what becomes of them when processes and links die."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from pathlib import Path

import pytest
from fault_calls import noted
from fifos import Fifo
from limits import LIMIT_S
from stream_calls import pairs
from waiting import until_files

from grainlike import Cores, Executor, JobCancelledError, WorkerLostError, amap, delayed, info
from grainlike.wire import WINDOW_ITEMS

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_stream_of_a_worker_keeps_its_window_and_its_finally_runs(start_worker, tmp_path, isolate):
    log = tmp_path / "log"
    fn = delayed(noted.__wrapped__, isolate=isolate) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        assert [item async for item in fn(str(tmp_path / "all"), 300)] == list(range(300))
        stream = fn(str(log), 10**9)
        async for item in stream:
            if item == 0:
                await until_files(tmp_path, lambda: len(lines(log)) > WINDOW_ITEMS)
                # Another one is read meanwhile, on the same worker: nobody waits, and the first makes no step.
                assert len([x async for x in fn(str(tmp_path / "other"), 100)]) == 100
                assert lines(log) == ["begun", *map(str, range(WINDOW_ITEMS))]
            if item == 50:
                break
        await until_files(tmp_path, lambda: lines(log)[-1] == "closed")
        assert int(lines(log)[-2]) <= 50 + WINDOW_ITEMS
        assert info(stream).state == "cancelled"


async def test_no_item_waits_for_the_step_after_it(start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        with Fifo(tmp_path / "fifo") as fifo:
            async for item in (delayed(pairs) @ Cores(1))(str(fifo.path), 8, LIMIT_S):
                if item % 2:
                    fifo.write()


async def test_many_streams_at_once_each_in_its_own_order(start_worker, tmp_path):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources="cores=100")

        async def read(number):
            return [item async for item in (noted @ Cores(1))(str(tmp_path / f"log{number}"), 60)]

        assert await asyncio.gather(*map(read, range(60))) == [list(range(60))] * 60


async def test_a_worker_that_dies_after_items_loses_the_stream_and_before_them_only_the_attempt(start_worker, tmp_path):
    log, early = tmp_path / "log", tmp_path / "early"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        first = start_worker(executor.address, name="first")
        await executor.wait_for_workers(1)
        begun, fresh = aiter((noted @ Cores(1))(str(log), 10, 3)), (noted @ Cores(1))(str(early), 10, 0)
        assert await anext(begun) == 0
        waiting = asyncio.ensure_future(_all(fresh))
        await until_files(tmp_path, lambda: lines(early) == ["begun"] and lines(log)[-1] == "2")
        early.unlink()
        assert await anext(begun) == 1
        os.kill(first.pid, signal.SIGKILL)
        assert await anext(begun) == 2
        with pytest.raises(WorkerLostError, match="noted had given items when it was lost"):
            await anext(begun)
        start_worker(executor.address, name="second")
        # The orphaned process may have written its end before.
        await until_files(tmp_path, lambda: "begun" in lines(early))
        assert lines(log).count("begun") == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def _all(stream):
    return [item async for item in stream]


async def test_a_worker_that_is_told_to_stop_ends_its_streams(start_worker, tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address)
        reader = aiter((noted @ Cores(1))(str(log), 10, 3))
        assert await anext(reader) == 0
        await until_files(tmp_path, lambda: lines(log)[-1] == "2")
        os.kill(worker.pid, signal.SIGTERM)
        assert [await anext(reader), await anext(reader)] == [1, 2]
        with pytest.raises(WorkerLostError, match="noted"):
            await anext(reader)
        assert lines(log)[-1] == "closed"
        code, _ = await worker.exit()
        assert code == 0


async def test_a_head_that_goes_away_ends_the_generators(start_worker, tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S):
        async with Executor(listen=LISTEN) as executor:
            worker = start_worker(executor.address)
            reader = aiter((noted @ Cores(1))(str(log), 10**9))
            assert await anext(reader) == 0
        assert lines(log)[-1] == "closed"
        with pytest.raises(JobCancelledError):
            await anext(reader)
        await worker.exit()


async def test_amap_over_a_worker_that_dies_gives_every_value_once(start_worker, gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        def square(x):
            if x == 300:
                visit(x)
            return x * x

        start_worker(executor.address, name="first")
        values = amap(square @ Cores(1), itertools.count())
        task = asyncio.ensure_future(_first(values, 1000))
        held = await gate.arrival()
        gate.release_all()
        os.kill(held.pid, signal.SIGKILL)
        assert await task == [x * x for x in range(1000)]
        await values.aclose()


async def _first(values, n):
    return [await anext(values) for _ in range(n)]

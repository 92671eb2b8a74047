"""Streams of a program that is connected to a head: back-pressure over the head, and what breaks on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest
from fault_calls import noted
from limits import LIMIT_S
from waiting import until, until_files
from weather import Weather, port, way_through

from grainlike import Cores, Executor, JobCancelledError, UnsatisfiableError, WorkerLostError, connect, delayed, info
from grainlike.errors import HeadLostError
from grainlike.head.durable import HeadDaemon, _store
from grainlike.wire import WINDOW_ITEMS

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


async def read(stream):
    return [item async for item in stream]


async def collect(reader, found):
    async for item in reader:
        found.append(item)


async def until_closed(log):
    await until_files(log.parent, lambda: lines(log)[-1:] == ["closed"])


async def until_come(reader, count):
    """Wait until so many items that nobody has taken are here: who gives one writes it down before it sets off."""
    await until(lambda: len(reader._buffer._items) == count)


@contextlib.asynccontextmanager
async def headed(cores=2, **options):
    """A head with an embedded worker, and a program that is connected to it."""
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=LISTEN, local=Cores(cores)) as head,
        connect(**options) as client,
    ):
        yield head, client


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_stream_of_a_client_keeps_its_window_and_ends_with_its_reader(start_worker, tmp_path, isolate):
    log = tmp_path / "log"
    fn = delayed(noted.__wrapped__, isolate=isolate) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as head, connect():
        start_worker(head.address, resources="cores=2")
        assert await read(fn(str(tmp_path / "all"), 300)) == list(range(300))
        stream = fn(str(log), 10**9)
        async for item in stream:
            if item == 0:
                await until_files(tmp_path, lambda: len(lines(log)) > WINDOW_ITEMS)
                assert len(await read(fn(str(tmp_path / "other"), 100))) == 100
                assert lines(log) == ["begun", *map(str, range(WINDOW_ITEMS))]
            if item == 50:
                break
        await until_closed(log)
        assert int(lines(log)[-2]) <= 50 + WINDOW_ITEMS
        assert info(stream).state == "cancelled"


async def test_large_items_count_by_their_bytes(tmp_path):
    log = tmp_path / "log"
    async with headed():
        items = await read((noted @ Cores(1))(str(log), 30, size=1 << 20))
        assert [(item[0], len(item)) for item in items] == [(i, 1 << 20) for i in range(30)]


async def test_the_error_of_a_client_s_stream_comes_after_its_items(tmp_path):
    async with headed():
        reader, found = aiter((noted @ Cores(1))(str(tmp_path / "log"), 50, fail_at=40)), []
        with pytest.raises(ArithmeticError, match="40"):
            await collect(reader, found)
        assert found == list(range(40))


async def test_streams_of_two_programs_at_once_each_in_its_own_order(script, tmp_path):
    async with headed(5):
        program = script(TWIN, tmp_path / "twin")
        ours = await asyncio.gather(*(read((noted @ Cores(1))(str(tmp_path / f"log{n}"), 200 + n)) for n in range(4)))
        assert ours == [list(range(200 + n)) for n in range(4)]
        assert await asyncio.to_thread(program.wait, LIMIT_S) == 0
        assert lines(tmp_path / "twin") == list(map(str, range(200)))


TWIN = """
import sys
from grainlike import connect, Cores, delayed, run

@delayed
async def numbers(n):
    for i in range(n):
        yield i

async def main():
    async with connect():
        with open(sys.argv[1], "w") as file:
            async for number in (numbers @ Cores(1))(200):
                print(number, file=file)

run(main, local=None)
"""

READER = """
import sys, time
from grainlike import connect, Cores, delayed, run

@delayed
async def numbers(path):
    def note(what):
        with open(path, "a") as file:
            print(what, file=file)
    number = 0
    try:
        while True:
            note(number)
            yield number
            number += 1
    finally:
        note("closed")

async def main():
    async with connect(session=sys.argv[2] or None):
        async for number in (numbers @ Cores(1))(sys.argv[1]):
            pass

run(main, local=None)
"""


async def test_a_program_that_is_killed_ends_its_streams(script, tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=Cores(1)):
        program = script(READER, log, "")
        await until_files(tmp_path, lambda: len(lines(log)) > 5 * WINDOW_ITEMS)
        program.kill()
        await until_closed(log)


async def test_a_session_s_streams_end_with_the_program_that_reads_them(tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=Cores(2)) as head:
        async with connect(session="sweep"):
            reader = aiter((noted @ Cores(1))(str(log), 10**9))
            assert await anext(reader) == 0
        await until_closed(log)
        with pytest.raises(JobCancelledError):
            await anext(reader)
        await until(lambda: head._service.head.view.unended == 0)


async def test_the_next_program_of_a_session_ends_the_streams_of_one_that_was_killed(script, tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN, local=Cores(1)):
        program = script(READER, log, "sweep")
        await until_files(tmp_path, lambda: len(lines(log)) > 5 * WINDOW_ITEMS)
        program.kill()
        program.wait()
        async with connect(session="sweep"):
            assert await read((noted @ Cores(1))(str(tmp_path / "next"), 40)) == list(range(40))
        assert lines(log)[-1] == "closed"


@pytest.mark.parametrize("how", ["reset", "cut"])
async def test_links_that_break_lose_no_item_and_repeat_none(how, tmp_path):
    async with (
        asyncio.timeout(LIMIT_S),
        Executor(listen=LISTEN, local=Cores(1)) as head,
        Weather(port(head)) as weather,
        connect(way_through(weather, head, tmp_path, "client")),
    ):
        found, log = [], tmp_path / "log"
        async for item in (noted @ Cores(1))(str(log), 400):
            found.append(item)
            if item % 80 == 40:
                getattr(weather, how)()
        assert found == list(range(400))
        assert lines(log) == ["begun", *map(str, range(400)), "closed"]


async def test_a_worker_that_dies_after_items_loses_a_client_s_stream_and_before_them_only_the_attempt(
    start_worker, tmp_path
):
    log, early = tmp_path / "log", tmp_path / "early"
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as head, connect() as client:
        first = start_worker(head.address, name="first", resources="cores=2")
        await client.wait_for_workers(1)
        begun, fresh = aiter((noted @ Cores(1))(str(log), 10, 3)), (noted @ Cores(1))(str(early), 10, 0)
        assert await anext(begun) == 0
        waiting = asyncio.ensure_future(read(fresh))
        await until_files(tmp_path, lambda: lines(early) == ["begun"])
        await until_come(begun, 2)
        early.unlink()
        assert await anext(begun) == 1
        os.kill(first.pid, signal.SIGKILL)
        assert await anext(begun) == 2
        with pytest.raises(WorkerLostError, match="noted had given items when it was lost"):
            await anext(begun)
        start_worker(head.address, name="second")
        await until_files(tmp_path, lambda: "begun" in lines(early))
        assert lines(log).count("begun") == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_head_that_ends_fails_a_client_s_stream_after_its_items(tmp_path):
    log = tmp_path / "log"
    async with asyncio.timeout(LIMIT_S), contextlib.AsyncExitStack() as connected:
        async with Executor(listen=LISTEN, local=Cores(1)) as head:
            await connected.enter_async_context(connect(head.address))
            reader = aiter((noted @ Cores(1))(str(log), 10, 3))
            assert await anext(reader) == 0
            await until_come(reader, 2)
        assert lines(log)[-1] == "closed"
        found = []
        with pytest.raises(HeadLostError):
            await collect(reader, found)
        assert found == [1, 2]


async def test_a_stream_inside_a_job_is_refused_with_words(tmp_path):
    @delayed
    async def outer(path):
        return [item async for item in (noted @ Cores(1))(path, 3)]

    async with headed():
        with pytest.raises(UnsatisfiableError, match="inside a job"):
            await (outer @ Cores(1))(str(tmp_path / "log"))


@pytest.mark.parametrize("images", [(64 << 20, 4, 3600.0), (64 << 10, 1, 0.05)], ids=["replayed", "from an image"])
async def test_a_stream_outlives_its_head_where_that_keeps_a_journal(images, start_worker, tmp_path, monkeypatch):
    for name, value in zip(("IMAGE_BYTES", "IMAGE_TIMES", "LOOK_S"), images, strict=True):
        monkeypatch.setattr(_store, name, value)
    log, opened, close = tmp_path / "log", asyncio.Queue(), asyncio.Event()

    async def heads(count):
        for number in range(count):
            close.clear()
            async with HeadDaemon(LISTEN, journal=tmp_path / "journal") as daemon:
                opened.put_nowait(daemon.address)
                await close.wait()
                daemon.leaves = number + 1 < count

    async with asyncio.timeout(LIMIT_S):
        running = asyncio.create_task(heads(5))
        start_worker(await opened.get(), resources="cores=2")
        async with connect() as client:
            await client.wait_for_workers(1)
            found = []
            async for item in (noted @ Cores(1))(str(log), 400):
                found.append(item)
                if item % 100 == 50:
                    close.set()
                    await opened.get()
            assert found == list(range(400))
            assert lines(log) == ["begun", *map(str, range(400)), "closed"]
        close.set()
        await running

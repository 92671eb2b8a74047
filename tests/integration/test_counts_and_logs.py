"""What a service asks its executor, with a head of its own or not: how many calls wait, and what they print."""

import asyncio
import os
from contextlib import asynccontextmanager

import pytest
from limits import LIMIT_S
from waiting import until

from grainlike import Cores, Executor, GraphError, cancel, connect, delayed, info, start

pytestmark = pytest.mark.asyncio


@delayed
def opened(path, value=None):
    """Wait until somebody reads and writes this pipe."""
    path.open("w").close()
    path.open().close()
    print("opened", value)
    return value


@delayed
async def near():
    return 1


@pytest.fixture(params=["embedded", "connected"])
def executors(request, tmp_path, monkeypatch):
    """An executor over one core: `async with executors() as executor`."""

    @asynccontextmanager
    async def embedded():
        async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
            yield executor

    @asynccontextmanager
    async def connected():
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        async with (
            asyncio.timeout(LIMIT_S),
            Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as head,
            connect(head.address) as executor,
        ):
            yield executor

    return {"embedded": embedded, "connected": connected}[request.param]


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def let_go(pipe):
    pipe.open().close()
    pipe.open("w").close()


async def test_calls_that_wait_and_run_are_counted(executors, pipe):
    async with executors() as executor:
        assert executor.counts() == (0, 0)
        lazy_ = (opened @ Cores(1))(pipe)
        first_ = start((opened @ Cores(1))(pipe, 1))
        await until(lambda: info(first_).state == "running")
        assert executor.counts() == (0, 1)
        others_ = [start((opened @ Cores(1))(pipe, n)) for n in range(3)]
        needs_ = start((opened @ Cores(1))(pipe, first_))
        here_ = start(near() + 1)
        counts = executor.counts()
        assert (counts.waiting, counts.running) == (4, 1)
        cancel(others_.pop())
        assert executor.counts() == (3, 1)
        for _ in range(4):
            await asyncio.to_thread(let_go, pipe)
        assert [await r_ for r_ in (first_, needs_, here_, *others_)] == [1, 1, 2, 0, 1]
        assert executor.counts() == (0, 0)
        cancel(lazy_)


async def test_they_are_counted_while_it_is_open_in_its_own_loop(executors):
    async with executors() as executor:
        with pytest.raises(RuntimeError, match="lives in"):
            await asyncio.to_thread(executor.counts)
    with pytest.raises(RuntimeError, match="not open"):
        executor.counts()


async def test_the_lines_of_a_call_that_a_new_task_awaits_are_followed(executors, pipe):
    async with executors() as executor:
        r_ = (opened @ Cores(1))(pipe, 7)
        needs_ = (opened @ Cores(1))(pipe, r_)
        tasks = [asyncio.ensure_future(r_), asyncio.ensure_future(needs_)]
        found = [executor.logs(r_), executor.logs(needs_)]
        for lines in found:
            release = asyncio.create_task(asyncio.to_thread(let_go, pipe))
            assert [str(line) async for line in lines] == ["opened 7"]
            await release
        assert await asyncio.gather(*tasks) == [7, 7]


async def test_a_call_that_nobody_starts_has_no_lines(executors, pipe):
    async with executors() as executor:
        lazy_ = (opened @ Cores(1))(pipe)
        with pytest.raises(GraphError, match=r"opened has not been started: `start` it, or let a task await it first"):
            await anext(executor.logs(lazy_))
        cancel(lazy_)

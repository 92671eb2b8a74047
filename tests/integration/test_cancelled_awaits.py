"""Whatever a coroutine awaits on asyncio, its cancellation ends it, frees its slot, and cuts no brief clean-up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from endless_awaits import BODIES, STUBBORN, awaits, nothing, swallows_one
from limits import LIMIT_S
from waiting import logged

from grainlike import Cores, Executor, cancel, delayed, start
from grainlike.engine import _local_calls
from grainlike.eventloop import _cancellation
from grainlike.head.server import _service

pytestmark = pytest.mark.asyncio

CLEANS = {"cleans_up": b"asyncio", "cleans_up_in_a_shield": b"anyio"}


@pytest.fixture
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cancellation, "GRACE_S", 0.2)
    monkeypatch.setattr(_cancellation, "EVERY_S", 0.05)


class Hearing:
    """What one job says: that it has begun, and, when it has ended, which clean-ups it finished."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.port = 0

    async def hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.begun.set()
        self.said.set_result(await reader.read())
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def hearing() -> AsyncIterator[Hearing]:
    one = Hearing()
    async with await asyncio.start_server(one.hear, "127.0.0.1", 0) as server:
        one.port = server.sockets[0].getsockname()[1]
        yield one


# With graces this short a second cancellation may come while asyncio still waits for a program that it has just killed:
# it drops its `Popen` then.
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.usefixtures("short_graces")
@pytest.mark.parametrize("name", [body.__name__ for body in BODIES])
@pytest.mark.parametrize("kind", ["embedded", "call"])
async def test_a_cancelled_await_ends_and_frees_its_slot(name: str, kind: str) -> None:
    wait, free = delayed(awaits), delayed(nothing) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), hearing() as job, Executor(local=Cores(1)):
        r_ = (wait @ Cores(1) if kind == "embedded" else wait)(name, job.port)
        start(r_)
        await job.begun.wait()
        cancel(r_)
        assert await job.said == CLEANS.get(name, b"")
        assert await free() is None


@pytest.mark.parametrize("name", [body.__name__ for body in STUBBORN])
async def test_so_does_one_in_a_process_of_its_own(name: str) -> None:
    wait, free = delayed(awaits, isolate=True) @ Cores(1), delayed(nothing, isolate=True) @ Cores(1)
    async with asyncio.timeout(LIMIT_S), hearing() as job, Executor(local=Cores(1)):
        r_ = wait(name, job.port)
        start(r_)
        await job.begun.wait()
        cancel(r_)
        assert await job.said == CLEANS.get(name, b"")
        assert await free() is None


@pytest.mark.parametrize("kind", ["embedded", "call"])
async def test_leaving_the_block_ends_what_swallows_and_says_where_it_is(
    kind: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cancellation, "GRACE_S", LIMIT_S)
    monkeypatch.setattr(_service, "QUIET_S", 0.05)
    monkeypatch.setattr(_local_calls, "QUIET_S", 0.05)

    async def cancel_again() -> None:
        """Once the block has spoken: two timers would come together on a machine that has stopped for longer."""
        await logged(caplog, "endless_awaits.py")
        for pending in list(_cancellation._pending):
            assert isinstance(pending, _cancellation.RepeatedCancellation)
            pending._repeat(True)

    wait = delayed(awaits)
    with caplog.at_level(logging.WARNING, "grainlike"):
        async with asyncio.timeout(LIMIT_S), hearing() as job, asyncio.TaskGroup() as tasks:
            async with Executor(local=Cores(1)):
                tasks.create_task(cancel_again())
                start((wait @ Cores(1) if kind == "embedded" else wait)(swallows_one.__name__, job.port))
                await job.begun.wait()
            await job.said
    places = [text for text in caplog.messages if "endless_awaits.py" in text]
    block, again = places
    assert "embedded one goes on cancelling" in block or "closing waits for calls" in block
    assert again.startswith("awaits")
    assert "has not ended" in again

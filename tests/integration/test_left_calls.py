"""Calls that a program started and forgot end with the block of their executor, and the log says so."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    amap,
    as_completed,
    cancel,
    connect,
    delayed,
    gather,
    info,
    start,
)

pytestmark = pytest.mark.anyio

ADVICE = "before it ends"


@delayed
async def save(x: object) -> object:
    await anyio.sleep_forever()
    return x


@delayed
async def other(x: int) -> int:
    await anyio.sleep_forever()
    return x


@delayed
async def ready(x: int) -> int:
    return x


@delayed
async def endless() -> AsyncIterator[int]:
    while True:
        yield 1


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING, logger="grainlike")
    return lambda: [record.getMessage() for record in caplog.records if ADVICE in record.getMessage()]


async def test_calls_that_were_started_and_forgotten_are_told_of_once(told) -> None:
    async with Executor(local=Cores(1)) as ex:
        for x in range(3):
            start((save @ Cores(1))(x))
        forgotten = ex.submit(Cores(1), other, 3)
        start(save(5))
    assert told() == ["5 started calls were cancelled as the block ended (save, other): await them before it ends"]
    assert info(forgotten).state == "cancelled"


async def test_one_call_and_those_that_it_needs(told) -> None:
    async with Executor(local=Cores(1)):
        start((save @ Cores(1))((other @ Cores(1))(1)))
    assert told() == ["1 started call was cancelled as the block ended (save): await it before it ends"]


@asynccontextmanager
async def connected():
    async with Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as head, connect(head.address) as ex:
        yield ex


async def test_a_connected_program_is_told_too(told) -> None:
    async with connected():
        start((save @ Cores(1))(1))
    assert told() == ["1 started call was cancelled as the block ended (save): await it before it ends"]


async def forgets_none() -> None:
    await gather((ready @ Cores(1))(x) for x in range(3))


async def awaits_what_it_started() -> None:
    await start((ready @ Cores(1))(1))


async def cancels_it() -> None:
    cancel(start((save @ Cores(1))(1)))


async def gives_up_waiting() -> None:
    r_ = start((save @ Cores(1))(1))
    with anyio.move_on_after(0):
        await r_


async def leaves_a_map() -> None:
    async for _ in amap(ready @ Cores(1), iter(int, 1)):
        break


async def leaves_a_stream() -> None:
    async for _ in (endless @ Cores(1))():
        break


async def starts_a_stream() -> None:
    start((endless @ Cores(1))())


async def leaves_the_first_of_many() -> None:
    async for _ in as_completed([(ready @ Cores(1))(1), (save @ Cores(1))(2)]):
        break


@pytest.mark.parametrize(
    "use",
    [
        forgets_none,
        awaits_what_it_started,
        cancels_it,
        gives_up_waiting,
        leaves_a_map,
        leaves_a_stream,
        starts_a_stream,
        leaves_the_first_of_many,
    ],
    ids=lambda use: use.__name__,
)
async def test_nothing_is_said_of_what_is_not_forgotten(use, told) -> None:
    async with Executor(local=Cores(2)):
        await use()
    assert told() == []


async def test_what_another_task_awaits_is_not_forgotten(told) -> None:
    async with anyio.create_task_group() as tasks, Executor(local=Cores(1)):
        r_ = start((save @ Cores(1))((other @ Cores(1))(1)))
        waits = anyio.Event()

        async def wait() -> None:
            waits.set()
            with pytest.raises(JobCancelledError, match="was cancelled"):
                await r_

        tasks.start_soon(wait)
        await waits.wait()
    assert told() == []


async def test_nothing_is_said_at_an_exception(told) -> None:
    async def leaves_by_an_error() -> None:
        async with Executor(local=Cores(1)):
            start((save @ Cores(1))(1))
            raise KeyError

    with pytest.raises(KeyError):
        await leaves_by_an_error()
    assert told() == []

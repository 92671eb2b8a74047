"""Values that are too large for a head: each is its job's error, and nobody else's."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
import pytest
from limits import LIMIT_S
from sized_calls import ask, length, make, make_bytes, measure

from grainlike import Cores, Executor, ResourceError, SerializationError, connect, gather, info
from grainlike.system import _limits
from grainlike.wire import _payloads

pytestmark = pytest.mark.asyncio

ELSEWHERE = "import grainlike.payload as p\np.memory_id = lambda: 'elsewhere'"
LISTEN = "tcp://127.0.0.1:0"
MOST = 5_000_000
TOO_LARGE = 6_000_000


@pytest.fixture(autouse=True)
def small_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that takes only some megabytes; what counts as large for a message is as small beside that as always."""
    monkeypatch.setattr(_payloads, "_WEIGHS_A_BYTE", 4)
    monkeypatch.setattr(_limits, "_SHARE", 2 * _limits.max_message_bytes() // MOST)
    assert MOST <= _limits.max_message_bytes() < TOO_LARGE


@pytest.fixture
def warnings(caplog):
    """What links and the door complained of."""
    caplog.set_level(logging.WARNING)
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("grainlike")]


@pytest.mark.parametrize("made", [make, pytest.param(make_bytes, id="in the stream")])
async def test_a_result_that_is_too_large_is_refused_and_stays_at_its_worker(made, start_worker, warnings):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources="cores=1", first=ELSEWHERE)
        await executor.wait_for_workers(1)  # else a warning says after a while that there is none
        job = made @ Cores(1)
        large_ = job(TOO_LARGE)
        with pytest.raises(ResourceError, match=r"^6,000,\d+ bytes .* is 5,000,\d+:"):
            await large_
        assert info(large_).where == ("n1",)
        assert await (length @ Cores(1))(large_) == TOO_LARGE
        assert len(await job(MOST // 2)) == MOST // 2
    assert warnings() == []


async def test_many_that_are_too_large_only_together_come_one_by_one(start_worker, warnings):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources="cores=2", first=ELSEWHERE)
        await executor.wait_for_workers(1)  # else a warning says after a while that there is none
        calls = [(make @ Cores(1))(MOST // 2 + number) for number in range(8)]
        with pytest.raises(ResourceError, match="as_completed"):
            await gather(calls)
        arrays = [await r_ for r_ in calls]
        assert [array.nbytes for array in arrays] == [MOST // 2 + number for number in range(8)]
    assert warnings() == []


async def test_an_argument_of_a_client_that_is_too_large_goes_to_its_worker(start_worker, warnings):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as head, connect(head.address) as client:
        start_worker(head.address, resources="cores=1", first=ELSEWHERE)
        await client.wait_for_workers(1)
        assert (await (measure @ Cores(1))(np.ones(TOO_LARGE, np.uint8)))[0] == TOO_LARGE
    assert warnings() == []


async def test_arguments_of_a_client_that_travel_and_are_too_large_are_an_error_of_its_job(start_worker, warnings):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as head, connect(head.address) as client:
        more = ("--store", "1000000", "--scratch-limit", "0")
        start_worker(head.address, resources="cores=1", first=ELSEWHERE, more=more)
        await client.wait_for_workers(1)  # else a warning says after a while that there is none
        job = measure @ Cores(1)
        good = [job(np.ones(MOST // 2 + number, np.uint8)) for number in range(6)]
        bad = job(np.ones(TOO_LARGE, np.uint8))
        outcomes = await asyncio.gather(*[gather([one]) for one in [*good[:3], bad, *good[3:]]], return_exceptions=True)
        error = outcomes.pop(3)
        assert isinstance(error, SerializationError)
        assert error.args[0].startswith("the arguments")
        assert [size for [(size, _)] in outcomes] == [MOST // 2 + number for number in range(6)]
        assert (await (make @ Cores(1))(100)).nbytes == 100
    assert warnings() == []


async def test_what_a_job_gives_to_a_job_is_refused_there(start_worker, warnings):
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address, resources="cores=2", first=ELSEWHERE)
        await executor.wait_for_workers(1)  # else a warning says after a while that there is none
        assert (await (ask @ Cores(1))(MOST // 2))[0] == MOST // 2
        assert f"a part of it has {TOO_LARGE} bytes" in await (ask @ Cores(1))(TOO_LARGE)
        assert (await (measure @ Cores(1))(np.ones(10, np.uint8)))[0] == 10
    assert warnings() == []

"""The zoo: whatever a job is given, gives or raises, there is an outcome, and worker and head live on."""

import asyncio

import pytest
from limits import LIMIT_S
from zoo import ERRORS, VALUES, fail, fail_later, give, give_later, one, take, take_later

from grainlike import Cores, Executor, delayed

pytestmark = [pytest.mark.asyncio, pytest.mark.filterwarnings("ignore")]

"""Far more than any of them takes; a hang is what is looked for."""


async def outcome(r_):
    """What became of a job: its value, or its error, which is an `Exception` whatever the job raised."""
    try:
        return await asyncio.wait_for(_awaited(r_), LIMIT_S)
    except TimeoutError:
        pytest.fail("no outcome")
    except Exception as error:  # noqa: BLE001 - which one is not the question here
        return error


async def _awaited(r_):
    return await r_


async def lives(executor, worker):
    assert await asyncio.wait_for(_awaited((delayed(one) @ Cores(1))()), LIMIT_S) == 1
    assert executor.workers()[0].pid == worker.pid


def test_the_zoo_is_large():
    assert len(VALUES) + len(ERRORS) >= 90


@pytest.mark.parametrize("function", [give, give_later])
async def test_whatever_a_job_gives_there_is_an_outcome(function, monkeypatch):
    job = delayed(function) @ Cores(1)
    async with Executor(local=Cores(1)) as executor:
        (worker,) = executor.workers()
        for name in VALUES:
            await outcome(job(name))
            await lives(executor, worker)


@pytest.mark.parametrize("function", [take, take_later])
async def test_whatever_a_job_is_given_there_is_an_outcome(function):
    job = delayed(function) @ Cores(1)
    async with Executor(local=Cores(1)) as executor:
        (worker,) = executor.workers()
        for name in VALUES:
            await outcome(job(VALUES[name]()))
            await lives(executor, worker)


@pytest.mark.parametrize("function", [fail, fail_later])
async def test_whatever_a_job_raises_its_awaiter_gets_an_exception(function):
    job = delayed(function) @ Cores(1)
    async with Executor(local=Cores(1)) as executor:
        (worker,) = executor.workers()
        for name in ERRORS:
            assert isinstance(await outcome(job(name)), Exception), name
            await lives(executor, worker)


async def test_a_worker_of_its_own_outlives_the_whole_zoo(start_worker):
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        (worker,) = executor.workers()
        for name in VALUES:
            await outcome((delayed(give) @ Cores(1))(name))
        for name in ERRORS:
            assert isinstance(await outcome((delayed(fail) @ Cores(1))(name)), Exception), name
        await lives(executor, worker)

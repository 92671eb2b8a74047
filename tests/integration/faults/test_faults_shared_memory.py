"""Large arguments and results stay in shared memory on their way, and nothing of them stays there afterwards."""

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from limits import LIMIT_S
from shared_memory_calls import double, double_later, mapped_by, where

from grainlike import Cores, Executor, JobCancelledError, WorkerLostError, cancel, delayed, gather, start
from grainlike.payload import memory_id

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(not memory_id(), reason="no shared memory in the file system")]

LARGE = np.arange(100_000, dtype=np.float64)


def directory(executor):
    (found,) = [Path(executor._service.head.object_store._store.directory)]
    return found


def kept(executor):
    return sorted(path.name for path in directory(executor).iterdir() if path.name != "owner.lock")


@pytest.mark.parametrize("function", [double, double_later])
@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0"])
async def test_arrays_come_and_go_whole_and_leave_nothing(function, listen, start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(local=None if listen else Cores(1), listen=listen) as executor:
        if listen:
            start_worker(executor.address)
        job = function @ Cores(1)
        values = await gather([job(LARGE), job(job(LARGE))])
        assert (values[0] == LARGE * 2).all()
        assert (values[1] == LARGE * 4).all()
        assert LARGE[3] == 3.0
        assert kept(executor) == []
        home = directory(executor)
        assert home.is_dir()
    assert not home.exists()


async def test_the_job_maps_what_its_caller_wrote():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        assert await (mapped_by @ Cores(1))(LARGE)
        assert await (where @ Cores(1))() == []


async def test_arguments_stay_for_another_attempt(tmp_path):
    flag = tmp_path / "tried"

    @delayed(retries=1)
    def second_time(a):
        if not flag.exists():
            flag.touch()
            a *= 0
            raise OSError("the first time")
        return float(a.sum())

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        assert await (second_time @ Cores(1))(LARGE) == LARGE.sum()
        assert kept(executor) == []


async def test_a_job_that_kills_its_process_leaves_nothing():
    @delayed
    def die(a):
        os.kill(os.getpid(), signal.SIGKILL)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)) as executor:
        with pytest.raises(WorkerLostError):
            await (die @ Cores(1))(LARGE)
        assert kept(executor) == []


async def test_a_cancelled_job_leaves_nothing(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)) as executor:
        visit = gate.visit

        @delayed
        def wait(a):
            visit("here")
            return a

        running, queued = start((wait @ Cores(1))(LARGE)), start((wait @ Cores(1))(LARGE))
        await gate.arrival()
        assert len(kept(executor)) == 2
        cancel(queued)
        cancel(running)
        with pytest.raises(JobCancelledError):
            await running
        gate.release_all()
        await (where @ Cores(1))()
        assert kept(executor) == []


async def test_what_a_job_awaits_comes_to_it_whole():
    @delayed
    async def outer(a):
        return await (double @ Cores(1))(a) + await (double_later @ Cores(1))(a)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        assert (await (outer @ Cores(1))(LARGE) == LARGE * 4).all()
        assert kept(executor) == []


async def test_a_worker_that_cannot_map_it_gets_it_by_its_link(start_worker):
    first = "import grainlike.payload as p\np.memory_id = lambda: 'elsewhere'"
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as executor:
        assert await (double @ Cores(1))(LARGE) is not None  # there is a store
        start_worker(executor.address, resources="cores=1 far=1", first=first)
        from grainlike import Resource

        far = Cores(1) & Resource("far", 1)
        assert (await (double @ far)(LARGE) == LARGE * 2).all()
        assert await (mapped_by @ far)(LARGE) == []
        assert kept(executor) == []

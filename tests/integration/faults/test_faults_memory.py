"""Jobs that take more memory than they asked for: ended within a second, alone, with an error that says how much."""

import asyncio
import os
import sys
import time

import pytest
from fault_calls import one
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, JobMemoryError, Memory, Resource, delayed, gather, info, start

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of memory")]

MB = 1_000_000
KEPT = ("cgroup", "watchdog")
BESIDE = Resource("beside", 1)
"""Room for a job beside those on cores."""


@delayed
def take(size, visit=None, *, enough=0):
    """Take memory as native code would, touch it, and hold it at a gate; for good with less than `enough`."""
    held = b"\1" * size
    if visit is not None:
        visit("holds")
    if GVAR.res.memory < enough:
        time.sleep(3600)
    return len(held)


async def test_a_job_over_its_memory_is_ended_and_its_neighbour_lives(gates, start_worker):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen="tcp://127.0.0.1:0") as executor:
        visit = gate.visit

        @delayed
        def neighbour():
            visit("here")
            return "lives"

        start_worker(executor.address, resources="cores=2 memory=8Gi")
        beside = start((neighbour @ (Cores(1) & Memory("200M")))())
        await gate.arrival()
        r_ = (take @ (Cores(1) & Memory("200M")))(1000 * MB, enough=4000 * MB)
        with pytest.raises(JobMemoryError) as caught:
            await r_
        assert caught.value.asked == 200 * MB
        assert 200 * MB <= caught.value.peak < 1100 * MB
        assert "had asked for 200M" in str(caught.value)
        assert info(r_).worker in str(caught.value)
        gate.release_all()
        assert await beside == "lives"
        assert info(beside).receipt.memory_tier in KEPT
        assert await (one @ Cores(2))() == 1


async def all_are_looked_at():
    """Return when somebody beside the others was ended over its memory: whoever looks has seen them, too."""
    with pytest.raises(JobMemoryError):
        await (take @ (BESIDE & Memory("200M")))(600 * MB, enough=4000 * MB)


async def test_memory_is_that_of_the_whole_tree_and_what_forks_share_counts_once(gates):
    @delayed
    def spread(count, size):
        children = []
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                held = b"\1" * size
                time.sleep(3600)
                os._exit(len(held) > 0)
            children.append(pid)
        time.sleep(3600)

    @delayed
    def shared(count, size, visit):
        held = b"\1" * size
        for _ in range(count):
            if os.fork() == 0:
                time.sleep(3600)
                os._exit(0)
        visit("holds")
        return len(held)

    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1) & Memory("4G") & BESIDE):
        with pytest.raises(JobMemoryError):
            await (spread @ (Cores(1) & Memory("200M")))(4, 80 * MB)
        shared_ = start((shared @ (Cores(1) & Memory("200M")))(4, 100 * MB, gate.visit))
        await gate.arrival()
        await all_are_looked_at()
        gate.release_all()
        assert await shared_ == 100 * MB


async def test_a_job_over_its_memory_runs_again_with_more():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1) & Memory("4G")):
        r_ = (take @ (Cores(1) & Memory("100M", grow=2, max="1G")))(300 * MB, enough=400 * MB)
        assert await r_ == 300 * MB
        assert info(r_).attempt == 3
        assert info(r_).allocation.memory == 400 * MB


async def test_only_who_asks_is_limited_and_what_the_process_held_before_does_not_count(gates):
    @delayed
    def keep(size):
        import builtins

        builtins.kept = b"\1" * size
        return os.getpid()

    @delayed
    def small(visit):
        visit("holds")
        return os.getpid()

    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1) & Memory("4G") & BESIDE):

        async def while_all_are_looked_at(job):
            start(job)
            visitor = await gate.arrival()
            await all_are_looked_at()
            visitor.release()
            return await job

        unlimited = (take @ Cores(1))(300 * MB, gate.visit)
        assert await while_all_are_looked_at(unlimited) == 300 * MB
        assert info(unlimited).receipt.memory_tier == "none"
        runner = await (keep @ Cores(1))(300 * MB)
        limited = (small @ (Cores(1) & Memory("50M")))(gate.visit)
        assert await while_all_are_looked_at(limited) == runner
        assert info(limited).receipt.memory_tier in KEPT
        assert await while_all_are_looked_at((take @ Cores(1))(300 * MB, gate.visit)) == 300 * MB


async def test_a_coroutine_that_shares_its_process_has_no_tier():
    @delayed
    async def coroutine():
        return 1

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1) & Memory("4G")):
        r_ = (coroutine @ (Cores(1) & Memory("50M")))()
        assert await r_ == 1
        assert info(r_).receipt.memory_tier == "none"


async def test_jobs_that_stood_behind_the_culprit_in_its_run_list_run_all_the_same():
    @delayed
    def tiny(number, size=1):
        held = b"\1" * size
        if size > 1:
            time.sleep(3600)
        return len(held) and number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2) & Memory("4G")) as executor:
        job = tiny @ (Cores(1) & Memory("100M"))
        assert await gather(job(number) for number in range(300)) == list(range(300))
        jobs = [start(job(number)) for number in range(100)]
        culprit = start(job(0, 500 * MB))
        jobs += [start(job(number)) for number in range(100, 200)]
        assert await gather(jobs) == list(range(200))
        with pytest.raises(JobMemoryError):
            await culprit
        assert await (one @ Cores(2))() == 1
        assert [worker.name for worker in executor.workers()] == ["local"]


async def test_less_memory_than_an_interpreter_comes_and_goes_by_is_counted_and_not_enforced():
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1) & Memory(16_000)):
        r_ = (take @ (Cores(1) & Memory(4_000)))(50 * MB)
        assert await r_ == 50 * MB
        assert info(r_).receipt.memory_tier == "none"

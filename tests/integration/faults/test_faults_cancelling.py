"""Jobs and calls that are cancelled at the worst moment: one clear answer, and slots free again."""

import asyncio
import logging
import threading
import time

import anyio
import anyio.lowlevel
import pytest
from fault_calls import wait_at
from free_slots import slots_are_free
from limits import LIMIT_S
from waiting import logged

from grainlike import Cores, Executor, JobCancelledError, cancel, delayed, gather, info, start

pytestmark = pytest.mark.asyncio


async def test_cancelling_at_the_moment_of_completion_is_one_or_the_other():
    @delayed
    async def quick(number):
        await asyncio.sleep(0)
        return number

    @delayed
    def plain(number):
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        for turns in range(40):
            for fn in (quick, plain):
                r_ = start((fn @ Cores(1))(turns))
                for _ in range(turns):
                    await asyncio.sleep(0)
                cancel(r_)
                try:
                    assert await r_ == turns
                except JobCancelledError:
                    assert info(r_).state == "cancelled"
        await slots_are_free(executor)


async def test_cancelling_queued_leased_and_spawning_jobs(gates):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(2)) as executor:
        visit = gate.visit

        @delayed
        def job(number):
            visit(number)
            return number

        jobs = [start((job @ Cores(1))(number)) for number in range(6)]
        cancel(jobs[0])  # its process is being started
        cancel(jobs[5])  # queued
        held = [await gate.arrival() for _ in range(2)]
        cancel(jobs[int(held[0].name)])
        third = await gate.arrival()
        assert third.name not in {"0", "5", held[0].name, held[1].name}
        gate.release_all()
        outcomes = []
        for r_ in jobs:
            try:
                outcomes.append(await r_)
            except JobCancelledError:
                outcomes.append(None)
        assert [number for number, value in enumerate(outcomes) if value is None] == sorted([0, 5, int(held[0].name)])
        await slots_are_free(executor)


async def test_cancelling_a_member_of_a_run_list_leaves_the_others(gates):
    """Quick jobs ride together; one of them, at random moments, is cancelled, and all others give their values."""

    @delayed
    def tiny(number):
        return number

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(2)) as executor:
        await gather((tiny @ Cores(1))(number) for number in range(200))
        for round_ in range(10):
            jobs = [(tiny @ Cores(1))(number) for number in range(300)]
            all_ = start(gather(jobs[:150] + jobs[151:]))
            start(jobs[150])
            for _ in range(round_ * 3):
                await asyncio.sleep(0)
            cancel(jobs[150])
            assert await all_ == [*range(150), *range(151, 300)]
        await slots_are_free(executor)


@pytest.mark.parametrize("way", ["asyncio", "anyio", "task"])
@pytest.mark.parametrize("kind", ["plain", "coroutine", "local"])
async def test_an_awaiter_that_is_cancelled_takes_the_work_along(way, kind, gates, tmp_path):
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(local=Cores(2)) as executor:
        visit, leave = gate.visit, farewell.visit
        gate.open = farewell.open = True

        def plain():
            try:
                visit("begun")
                time.sleep(1000)
            finally:
                leave("ended")

        async def local():
            try:
                await asyncio.to_thread(visit, "begun")
                await asyncio.sleep(1000)
            finally:
                told.set()

        async def coroutine():
            try:
                await asyncio.to_thread(visit, "begun")
                await asyncio.sleep(1000)
            finally:
                await asyncio.to_thread(leave, "ended")

        told = asyncio.Event()
        fn = delayed({"plain": plain, "local": local}.get(kind, coroutine))
        r_ = (fn if kind == "local" else fn @ Cores(1))()
        if way == "task":
            task = asyncio.create_task(_value(r_))
            await gate.arrival()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            with pytest.raises(TimeoutError):
                await _value_until_it_has_begun(r_, gate, way)
        await (told.wait() if kind == "local" else farewell.arrival())
        assert info(r_).state == "cancelled"
        await slots_are_free(executor)


async def _value(r_):
    return await r_


async def _value_until_it_has_begun(r_, gate, way):
    """Await it, with a limit that runs out as soon as it is at work."""
    if way == "asyncio":
        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as tasks:
            tasks.create_task(_after_arrival(gate, lambda: limit.reschedule(asyncio.get_running_loop().time())))
            await r_
    else:
        with anyio.fail_after(None) as scope:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_after_arrival(gate, lambda: setattr(scope, "deadline", anyio.current_time())))
                await r_


async def _after_arrival(gate, call):
    await gate.arrival()
    call()


async def test_a_local_call_that_is_cancelled_before_it_began_never_runs():
    ran = []

    @delayed
    async def coroutine(mark="default"):
        ran.append(mark)

    @delayed
    def plain(mark="default"):
        ran.append(mark)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        for fn in (coroutine, plain):
            r_ = start(fn("given"))
            cancel(r_)
            with pytest.raises(JobCancelledError):
                await r_
            await fn("later")
    assert ran == ["later", "later"]


async def test_a_plain_local_call_that_waits_for_a_thread_can_be_cancelled():
    go = threading.Event()
    ran = []

    @delayed
    def hold():
        go.wait(LIMIT_S)

    @delayed
    def after(mark="default"):
        ran.append(mark)

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(1)):
        holders = start(gather(hold() for _ in range(40)))
        r_ = start(after("given"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        cancel(r_)
        go.set()
        await holders
    assert ran == []


async def test_the_end_of_a_process_of_a_cancelled_job_is_logged_with_its_reason(gates, caplog):
    caplog.set_level(logging.INFO, "grainlike")
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)):
        r_ = start((delayed(wait_at) @ Cores(1))(gate.visit, "job"))
        await gate.arrival()
        cancel(r_)
        [told] = await logged(caplog, "own runner 1 ended")
    assert told == "own runner 1 ended: exit code 143, as it was told to end: its job was cancelled, or out of time"

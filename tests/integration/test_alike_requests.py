"""Jobs that ask for a memory each share leases, and each of them sees, tells and is held to its own."""

import os
import sys
import time

import pytest

from grainlike import GVAR, Cores, Executor, JobMemoryError, Memory, connect, delayed, gather, info

pytestmark = pytest.mark.asyncio

MIB = 1 << 20
JOBS = 60


def asks(i):
    return Cores(1) & Memory(100 * MIB + i)


@delayed
def seen():
    return GVAR.res.memory, int(os.environ["GRAINLIKE_MEMORY"])


@delayed
async def seen_in_loop():
    return GVAR.res.memory, GVAR.res.memory


async def check(function):
    for _ in range(2):  # the second time the function is known to be quick, so that jobs share leases
        calls = [(function @ asks(i))() for i in range(JOBS)]
        assert await gather(calls) == [(100 * MIB + i, 100 * MIB + i) for i in range(JOBS)]
        given = [info(r_).allocation for r_ in calls]
        assert [slots.memory for slots in given if slots is not None] == [100 * MIB + i for i in range(JOBS)]


@pytest.mark.parametrize("function", [seen, seen_in_loop])
async def test_each_job_sees_the_memory_that_it_asked_for(function):
    async with Executor(local=Cores(2) & Memory("1Gi")) as executor:
        events = executor.events()
        await check(function)
    # On a busy machine the rest of a list is handed back, and begins a second time: with the same slots.
    told = {(event.job, event.allocation) async for event in events if event.kind == "job_started"}
    assert sorted(slots.memory for _, slots in told if slots is not None) == sorted(
        2 * [100 * MIB + i for i in range(JOBS)]
    )


@pytest.mark.parametrize("function", [seen, seen_in_loop])
async def test_as_a_client_of_a_head(function):
    async with Executor(local=Cores(2) & Memory("1Gi"), listen="tcp://127.0.0.1:0") as head, connect(head.address):
        await check(function)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of memory")
async def test_a_job_is_held_to_its_own_memory_and_those_that_share_its_lease_run_on():
    @delayed
    def takes(size):
        held = b"\1" * size
        if size > 1:
            time.sleep(3600)  # until whoever looks has seen it
        return len(held)

    async with Executor(local=Cores(1) & Memory("1Gi")):
        await gather([(takes @ asks(i))(1) for i in range(JOBS)])
        sizes = [400 * MIB if i == JOBS // 2 else 1 for i in range(JOBS)]
        calls = [(takes @ asks(i))(size) for i, size in enumerate(sizes)]
        outcomes = await gather(calls, return_exceptions=True)
    failed = [(i, error) for i, error in enumerate(outcomes) if isinstance(error, JobMemoryError)]
    assert [i for i, _ in failed] == [JOBS // 2]
    assert failed[0][1].asked == 100 * MIB + JOBS // 2
    assert [value for value in outcomes if value == 1] == [1] * (JOBS - 1)

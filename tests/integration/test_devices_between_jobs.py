"""What a job on a device finds of those before it: which process, whose memory is gone, and no failure of the device's.

There need be no device: any library by the name of CUDA's counts as one that looks once and keeps memory.
"""

import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from device_calls import fail, fail_without_library, fill, hold, share
from limits import LIMIT_S

from grainlike import Cores, Delayed, Executor, GPUs, delayed, start

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="libraries are looked up in /proc")]


@pytest.fixture
def device(tmp_path: Path) -> str:
    """A folder with a library that looks like CUDA's."""
    import _ctypes

    shutil.copy(_ctypes.__file__, tmp_path / "libcudart.so.13")
    return str(tmp_path)


@asynccontextmanager
async def open_pipes(folder: str, *names: str) -> AsyncIterator[list[str]]:
    """Make named pipes for jobs that read them until their end: it comes with that of the block."""
    pipes = [f"{folder}/{name}" for name in names]
    for pipe in pipes:
        os.mkfifo(pipe)
    ends: list[int] = []
    try:
        yield pipes
        for pipe in pipes:  # each waits for its reader
            ends.append(await anyio.to_thread.run_sync(os.open, pipe, os.O_WRONLY))  # noqa: PERF401
    finally:
        for end in ends:
            os.close(end)


async def failed_in(call: Delayed[None]) -> int:
    """Return the process in which a job failed."""
    with pytest.raises(RuntimeError) as caught:
        await call
    return int(str(caught.value))


async def test_a_job_has_the_process_of_the_last_on_its_device_whatever_came_free_later(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(2) & GPUs(1)):
            async with open_pipes(device, "other") as (pipe,):
                other = start((hold @ Cores(1))(pipe))
                first = await (fill @ GPUs(1))(device)
            assert await other != first
            assert await (fill @ GPUs(1))(device) == first


async def test_a_job_without_a_device_leaves_that_process_alone(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1) & GPUs(1)):
            first = await (fill @ GPUs(1))(device)
            assert await failed_in((fail_without_library @ Cores(1))()) != first
            assert await (fill @ (Cores(1) & GPUs(1)))(device) == first


async def test_a_job_with_the_whole_device_begins_when_all_that_shared_it_are_gone(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=GPUs(1)):
            async with open_pipes(device, "one", "two", "three") as pipes:
                jobs = [start((share @ GPUs("300m"))(device, pipe)) for pipe in pipes]
            shared = {await job for job in jobs}
            assert len(shared) == 3
            whole = await (fill @ GPUs(1))(device)
            assert whole not in shared
            async with open_pipes(device, "four") as (pipe,):
                half = start((share @ GPUs("500m"))(device, pipe))
            assert await half != whole


async def test_jobs_that_share_the_device_begin_when_the_one_that_had_it_whole_is_gone(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1) & GPUs(1)):
            async with open_pipes(device, "other") as (pipe,):
                other = start((hold @ Cores(1))(pipe))
                whole = await (fill @ GPUs(1))(device)
            await other  # its process is up, and waits for a job
            jobs = [start((share @ GPUs("500m"))(device, os.devnull)) for _ in range(2)]
            assert whole not in [await job for job in jobs]


async def test_a_process_that_had_other_devices_too_is_replaced(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=GPUs(2)):
            both = await (fill @ GPUs(2))(device)
            assert await (fill @ GPUs(1))(device) != both


async def test_what_the_first_job_on_a_device_loads_is_no_reason_to_replace_its_process() -> None:
    """A process that has come to hold much more memory than at first is replaced else."""

    @delayed
    def load(size: int) -> int:
        import builtins

        from grainlike_worker.runner.process import _reset

        _reset._WEIGH_S = 0.0  # before each lease, here, and not once a second
        builtins.loaded = b"\1" * size  # type: ignore[attr-defined]
        return os.getpid()

    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1) & GPUs(1)):
            small = {await (load @ Cores(1))(10_000_000) for _ in range(2)}
            assert {await (load @ GPUs(1))(400_000_000) for _ in range(2)} == small
            assert await (load @ GPUs(1))(1_300_000_000) in small
            assert await (load @ GPUs(1))(10_000_000) not in small


async def test_a_process_whose_job_failed_on_a_device_gets_no_other(device: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1) & GPUs(1)):
            first = await failed_in((fail @ GPUs(1))(device))
            second = await failed_in((fail @ GPUs(1))(device))
            assert second != first
            assert await (fill @ GPUs(1))(device) not in (first, second)


async def test_a_process_whose_job_failed_and_has_seen_no_device_gets_the_next(device: str) -> None:
    """No library of devices is loaded there, or the job had none: its failure says nothing about a device."""
    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores(1) & GPUs(1)):
            for request in (GPUs(1), Cores(1)):
                first = await failed_in((fail_without_library @ request)())
                assert await failed_in((fail_without_library @ request)()) == first
            warm = await failed_in((fail @ Cores(1))(device))
            assert await failed_in((fail_without_library @ Cores(1))()) == warm

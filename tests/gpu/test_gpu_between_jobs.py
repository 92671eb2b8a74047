"""Memory and failures that earlier jobs on a device have left, as the next job finds them."""

import asyncio
from pathlib import Path

import pytest
from gpu_calls import (
    break_device,
    fill,
    fill_anew,
    fill_beside,
    hold,
    loop,
    loop_in_time,
    multiply,
    overfill,
    product,
    seen,
    spin,
)
from gpu_device import LIMIT_S, StartProgram, given_back, used
from waiting import until, until_ended, until_files

from grainlike import Cores, Executor, GPUs, JobTimeoutError, cancel, gather, info, start

pytestmark = pytest.mark.anyio

MUCH = 0.7
"""Share of the device's memory that two jobs cannot have together."""

CONTEXT_MIB = 100
"""Least MiB that a process with a context of CUDA takes."""


async def check_works() -> int:
    """Return the process of a job that uses the device, and gets what is right."""
    import torch

    assert torch.equal(await (multiply @ GPUs(1))(64), product(64, "cpu"))
    return (await (seen @ GPUs(1))()).pid


async def until_written(path: Path) -> int:
    """Return the process that has written its id."""
    await until_files(path.parent, path.exists)
    return int(path.read_text())  # noqa: ASYNC240 - it is small, and there


# --- memory ----------------------------------------------------------------------------------------------------------


async def test_a_job_has_the_memory_that_one_before_it_filled() -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        first = await (fill @ GPUs(1))(MUCH)
        assert await (fill_anew @ GPUs(1))(MUCH) == first


async def test_a_job_has_the_memory_that_one_filled_in_a_process_which_is_not_the_last_that_came_free(
    tmp_path: Path,
) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        held = start((hold @ Cores(1))(str(tmp_path)))
        await until_files(tmp_path, (tmp_path / "here").exists)
        first = await (fill @ GPUs(1))(MUCH)
        (tmp_path / "go").touch()
        assert await held != first
        await (fill_anew @ GPUs(1))(MUCH)


async def test_a_job_without_a_device_leaves_the_process_of_one_that_had_it() -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        first = await (fill @ GPUs(1))(MUCH)
        assert not (await (seen @ Cores(1))()).available
        assert await (fill_anew @ GPUs(1))(MUCH) == first


async def test_a_job_has_the_memory_that_several_before_it_filled_and_several_that_of_one(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        for turn in range(2):
            folder = tmp_path / str(turn)
            folder.mkdir()
            await gather((fill_beside @ GPUs(0.5))(str(folder), number, 0.4) for number in range(2))
            await (fill @ GPUs(1))(0.9)


async def test_out_of_memory_is_an_error_of_the_job_alone() -> None:
    import torch

    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        with pytest.raises(torch.OutOfMemoryError, match="out of memory"):
            await (overfill @ GPUs(1))()
        await (fill @ GPUs(1))(MUCH)


# --- failures --------------------------------------------------------------------------------------------------------


async def test_a_failure_of_the_device_is_of_its_job_alone() -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        await check_works()
        with pytest.raises(RuntimeError, match="device-side assert"):
            await (break_device @ GPUs(1))()
        await check_works()


# --- what does not end -----------------------------------------------------------------------------------------------


async def test_a_cancelled_job_whose_kernel_does_not_end_is_gone_with_its_memory(tmp_path: Path) -> None:
    before = used()
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        endless = start((spin @ GPUs(1))(str(tmp_path / "pid")))
        pid = await until_written(tmp_path / "pid")
        assert used() > before + CONTEXT_MIB
        cancel(endless)
        await until_ended(pid)
        await given_back(before)
        assert info(endless).state == "cancelled"
        assert await check_works() != pid


async def test_the_device_of_a_cancelled_job_goes_to_the_next_that_waits(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        endless = start((loop @ GPUs(1))(str(tmp_path / "pid")))
        waits = start((seen @ GPUs(1))())
        pid = await until_written(tmp_path / "pid")
        assert info(waits).state == "pending"
        cancel(endless)
        assert (await waits).pid != pid


async def test_a_job_out_of_time_is_gone_with_its_memory(tmp_path: Path) -> None:
    before = used()
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        warm = (await (seen @ GPUs(1))()).pid  # else it loads PyTorch in its time
        endless = start((loop_in_time @ GPUs(1))(str(tmp_path / "pid")))
        assert await until_written(tmp_path / "pid") == warm
        with pytest.raises(JobTimeoutError):
            await endless
        await until_ended(warm)
        await given_back(before)
        assert await check_works() != warm


async def test_a_killed_program_leaves_no_process_on_the_device(tmp_path: Path, program: StartProgram) -> None:
    before = used()
    async with asyncio.timeout(LIMIT_S):
        endless = program("endless", tmp_path / "pid")
        pid = await until_written(tmp_path / "pid")
        assert used() > before + CONTEXT_MIB
        endless.kill()
        await until_ended(pid)
        await given_back(before)


async def test_a_closed_executor_leaves_no_process_on_the_device() -> None:
    before = used()
    async with asyncio.timeout(LIMIT_S):
        async with Executor(local=Cores(4) & GPUs(1)):
            pid = await (fill @ GPUs(1))(MUCH)
            await until(lambda: used() > before + CONTEXT_MIB)
        await until_ended(pid)
        await given_back(before)

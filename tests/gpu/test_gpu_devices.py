"""Which devices a job sees, as CUDA itself tells in the job's process."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_calls import Seen, meet, seen
from gpu_device import LIMIT_S, Program, StartProgram, uuids
from waiting import until_files

from grainlike import Cores, Executor, GPUs, gather, info, start

pytestmark = pytest.mark.anyio


async def test_a_job_sees_its_device_alone_and_one_without_sees_none(note_cost: Callable[[str], None]) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        cold_, warm_ = (seen @ GPUs(1))(), (seen @ GPUs(1))()
        begun = time.perf_counter()
        cold = await cold_
        between = time.perf_counter()
        warm = await warm_
        ended = time.perf_counter()
        for found in (cold, warm):
            assert (found.gpus, found.mask, found.available, found.uuids) == ((0,), "0", True, [uuids()[0]])
        assert info(cold_).receipt.devices == info(warm_).receipt.devices == (0,)
        without_ = (seen @ Cores(1))()
        without = await without_
        assert (without.gpus, without.mask, without.available, without.uuids) == ((), "", False, [])
        assert info(without_).receipt.devices == ()
    note_cost(f"a job on the device takes {between - begun:.2f} s in a new process, with the imports of PyTorch")
    note_cost(f"and {(ended - between) * 1e3:.1f} ms in a warm one")


async def test_jobs_with_one_device_one_after_another_share_a_process_whatever_runs_between() -> None:
    """What they have loaded, and the context of CUDA, take seconds to make."""
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        first = await (seen @ GPUs(1))()
        without = await (seen @ Cores(1))()
        assert without.pid != first.pid
        assert {found.pid for found in await gather((seen @ GPUs(1))() for _ in range(20))} == {first.pid}
        assert (await (seen @ (Cores(2) & GPUs(1)))()).pid == first.pid


async def test_two_halves_of_a_device_are_there_at_one_time_and_a_third_waits(tmp_path: Path) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(local=Cores(4) & GPUs(1)):
        jobs = [start((meet @ GPUs(0.5))(str(tmp_path), number)) for number in range(3)]
        await until_files(tmp_path, lambda: len(list(tmp_path.glob("here-*"))) == 2)
        states = [info(job).state for job in jobs]
        assert sorted(states) == ["pending", "running", "running"]
        (tmp_path / "go").touch()
        found = await gather(jobs)
    assert [seen_ for seen_, _ in found] == [[uuids()[0]]] * 3
    third = states.index("pending")
    assert found[third][1], "it began when another had ended"
    assert [ended for number, (_, ended) in enumerate(found) if number != third] == [[], []]


async def said(program: Program) -> dict[str, object]:
    """Return what a program says, without blocking the loop."""
    return await asyncio.to_thread(program.said)


async def test_the_device_of_a_mask_is_shown_by_its_name(program: StartProgram) -> None:
    (name, *_) = uuids()
    found = await said(program("show", CUDA_VISIBLE_DEVICES=name))
    with_one, without = (Seen(**found[key]) for key in ("with", "without"))  # type: ignore[arg-type]
    assert (with_one.gpus, with_one.mask, with_one.uuids) == ([0], name, [name])
    assert (without.mask, without.available, without.uuids) == ("", False, [])


async def test_a_program_that_uses_cuda_itself_has_jobs_that_do(program: StartProgram) -> None:
    assert await said(program("initialised")) == {"own": 3.0, "same": True}


async def test_the_machine_tells_what_it_is(note_cost: Callable[[str], None]) -> None:
    """For who reads the report; and that the names are what CUDA takes for a mask."""
    assert all(name.startswith("GPU-") for name in uuids())
    note_cost(json.dumps({"devices": uuids(), "cores": len(os.sched_getaffinity(0))}))

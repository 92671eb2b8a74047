"""GPUs that a real Slurm grants: to a worker that is started by hand, and to blocks of pools.

The device is no GPU, but a character device that Slurm gives out as one: what is tried is who is granted it.
"""

import asyncio
import os
import sys

import pytest
from slurm_pools import opened, slurm_pool, until_counted

from grainlike import GVAR, Cores, GPUs, cancel, delayed, start

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]


@delayed
def granted():
    """Return the Slurm job, the GPUs of the job, and those that its programs see."""
    return os.environ["SLURM_JOB_ID"], list(GVAR.res.gpus), os.environ.get("CUDA_VISIBLE_DEVICES")


@pytest.fixture
def by_hand(tmp_path):
    """Script with which a person starts a worker."""
    script = tmp_path / "by-hand.sh"
    script.write_text(
        f"#!/bin/sh\nexport XDG_STATE_HOME={tmp_path}/state\nexec {sys.executable} -m grainlike worker start\n"
    )
    return script


@pytest.mark.parametrize(("asked", "gpus"), [(["--gres=gpu:1"], 1), (["-w", "n1"], 0)])
async def test_a_worker_started_by_hand_offers_the_gpus_that_its_job_was_granted(
    slurm, submitted, by_hand, asked, gpus
):
    async with opened() as executor:
        words = ("-c1", "--mem=500", "-t", "5", "-o", by_hand.with_suffix(".log"), *asked)
        number = slurm.say("sbatch", "--parsable", *words, by_hand)
        await executor.wait_for_workers(1)
        (worker,) = executor.workers()
        assert len(worker.resources.cores) == 1
        assert 0 < worker.resources.memory <= 500 * 2**20
        assert len(worker.resources.gpus) == gpus
        assert 0 < worker.resources.walltime <= 300
        if gpus:
            assert await (granted @ GPUs(1))() == (number, [0], "0")
        slurm.say("scancel", number)
        await asyncio.to_thread(slurm.end_of, number)


async def test_jobs_with_gpus_start_gpu_blocks_and_jobs_without_start_others(slurm, submitted):
    pools = [slurm_pool("cores=1"), slurm_pool("cores=1 gpus=1")]
    async with opened(pools) as executor:
        native, gpus, visible = await (granted @ (Cores(1) & GPUs(1)))()
        assert ([row.pool for row in executor.blocks()], gpus, visible) == (["slurm2"], [0], "0")
        assert "gpu" in slurm.say("squeue", "-h", "-j", native, "-o", "%b")
    async with opened(pools) as executor:
        native, gpus, visible = await (granted @ Cores(1))()
        assert ([row.pool for row in executor.blocks()], gpus) == (["slurm"], [])
        assert "gpu" not in slurm.say("squeue", "-h", "-j", native, "-o", "%b")
    assert len(submitted.all()) == 2


async def test_a_job_for_either_of_two_pools_starts_one_block(slurm, submitted):
    pools = [slurm_pool("cores=1 gpus=1"), slurm_pool("cores=1")]
    async with opened(pools) as executor:
        either = GPUs(1) | Cores(1)
        assert (await (granted @ either)())[1] == [0]
        await until_counted()
        assert [row.pool for row in executor.blocks()] == ["slurm"]
    assert len(submitted.all()) == 1


async def test_a_job_that_wants_more_gpus_than_any_node_has_submits_nothing(slurm, submitted):
    async with opened(slurm_pool("cores=1 gpus=1")) as executor:
        r_ = start((granted @ GPUs(2))())
        await until_counted()
        assert "short of gpus (asked 2, offers 1)" in str(await executor.explain(r_))
        assert submitted.all() == []
        cancel(r_)

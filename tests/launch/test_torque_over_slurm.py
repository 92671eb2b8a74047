"""What is said to Torque, said to the `qsub` and `qdel` of Debian's `slurm-wlm-torque` over a real Slurm: a smoke test.

They are Perl programs that ask Slurm, and take less than Torque. `qsub` reads no script from standard input, so
`up pbs` is not for them. What holds is tried: a block's script as a file, with its `#PBS` directives, which Slurm
reads itself, the worker that comes of it, and its end.
"""

import os
import sys

import pytest
from fakes_here import opened
from waiting import until

from grainlike import Cores, delayed
from grainlike.dialects import PBSDialect
from grainlike.launch import PBS
from grainlike.launch._native import run_native

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def private_state(tmp_path, monkeypatch):
    """Access files of a test are its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@delayed
def slurm_job():
    """Return the id of the job that it runs in."""
    return os.environ["SLURM_JOB_ID"]


async def test_a_blocks_script_is_taken_with_its_directives_and_its_worker_joins(slurm, tmp_path):
    folder = tmp_path / "gl1a2b3c4d-1"
    folder.mkdir(mode=0o700)
    pool = PBS("cores=2", walltime="0:05:00", torque=True, queue="work", python=sys.executable)
    async with opened() as executor:
        block = pool.block(
            name=folder.name,
            label="cpu-1",
            directory=str(folder),
            access=str(tmp_path / "state" / "grainlike" / "current" / "worker.json"),
            environment={},
        )
        (file,) = PBSDialect(torque=True).files(block)
        (folder / "script").write_text(file.text)
        native = slurm.say("qsub", "-V", "-j", "oe", "-o", folder / "log.pbs", folder / "script")
        await until(executor.workers)
        (worker,) = executor.workers()
        assert (worker.name, len(worker.resources.cores)) == ("cpu-1.0", 2)
        assert await (slurm_job @ Cores(2))() == native
        shown = slurm.say("scontrol", "-o", "show", "job", native)
        assert "TimeLimit=00:05:00" in shown
        assert "Partition=work" in shown
        assert f"JobName={folder.name}" in shown
        slurm.say("qdel", native)
        await until(lambda: executor.workers() == [])


async def test_a_script_on_standard_input_is_beyond_these_programs(slurm):
    block = PBS("cores=1", walltime="0:05:00", torque=True)
    said = await run_native(
        block.dialect().check(
            block.block(name="gl1a2b3c4d-2", label="cpu-2", directory="/tmp", access="/tmp/none", environment={})
        ),
        slurm.environment,
    )
    assert said.code == 2
    assert block.dialect().checked(said).verdict == "refused"

"""Secrets of a head on a real Slurm: none in what others may read, none of its environment in its workers."""

import asyncio
import json
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from slurm_pools import opened, slurm_pool, until_up

from grainlike import Cores, delayed

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]

SECRET = "a-secret-of-the-head"


@delayed
def environment():
    """Return the environment of the job."""
    return dict(os.environ)


def state(tmp_path):
    """Return the directory of access files and blocks."""
    return tmp_path / "state" / "grainlike"


def secrets_of(tmp_path):
    """Return what only the access files may say: lines of keys and certificates, and all that is as long."""
    found = set()
    for path in state(tmp_path).glob("*/*.json"):
        for text in _texts(json.loads(path.read_text())):
            found.update(line for line in text.splitlines() if len(line) >= 32 and not line.startswith("tcp://"))
    return found


def _texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def processes_below(pids):
    """Return arguments and environment of processes, and of all that they have started and that still runs."""
    said = []
    for pid in pids:
        for process in [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]:
            folder = Path(f"/proc/{process.pid}")
            with suppress(FileNotFoundError, ProcessLookupError):
                said += [(folder / name).read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
    return said


@pytest.mark.parametrize("nodes", [1, 2])
async def test_no_secret_leaves_the_access_files(slurm, submitted, tmp_path, monkeypatch, nodes):
    monkeypatch.setenv("GRAINLIKE_TEST_TOKEN", SECRET)
    async with opened() as executor:
        await executor.up(slurm_pool(nodes=nodes, min=nodes, max=nodes), name="cpu")
        (row,) = await until_up(executor, nodes)
        said = [repr(await (environment @ Cores(1))())]
        said += [slurm.say("scontrol", "show", "-d", "job", row.native)]
        said += [slurm.say("scontrol", "write", "batch_script", row.native, "-")]
        said += processes_below([worker.pid for worker in executor.workers()])
        folder = Path(row.log).parent
        said += [path.read_text() for path in folder.rglob("*") if path.is_file() and path.name != "worker.json"]
        said += [path.read_text() for path in slurm.folder.glob("slurm*.log")]
        assert f"SLURM_JOB_ID={row.native}" in "\n".join(said), "the environment of a worker is among it"
        assert "#SBATCH" in "\n".join(said), "the script is, too"
        hidden = {*secrets_of(tmp_path), "-----BEGIN", SECRET}
        assert len(hidden) > 10
        for text in said:
            assert [secret for secret in hidden if secret in text] == []
        for path in [state(tmp_path), *state(tmp_path).rglob("*")]:
            if not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                assert mode == (0o700 if path.is_dir() else 0o600), f"{path} {mode:o}"


async def test_a_head_inside_a_batch_job_submits_blocks_of_two_nodes(slurm, submitted, tmp_path):
    """The variables of its own job, as SLURM_MEM_PER_CPU, would make Slurm refuse what a block starts."""
    program = tmp_path / "program.py"
    program.write_text(
        """\
import asyncio, json, os, sys
from grainlike import Cores, Executor, Nodes, delayed, run_process
from grainlike.launch import Slurm

@delayed
async def over_all():
    done = await run_process(["srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME"])
    return os.environ["SLURM_JOB_ID"], sorted(done.stdout.decode().split())

async def main():
    pool = Slurm("cores=1 memory=200Mi", walltime="0:05:00", nodes=2, min=2, max=2)
    async with Executor(launch=pool, local=None, listen="tcp://127.0.0.1:0") as executor:
        native, nodes = await (over_all @ Nodes(2, each=Cores(1)))()
        while not all(row.native for row in executor.blocks()):  # a worker may join before `sbatch` has answered
            await asyncio.sleep(0.01)
        own = {name: value for name, value in os.environ.items() if name.startswith("SLURM_")}
        print(json.dumps([own, native, [row.native for row in executor.blocks()], nodes]), flush=True)

asyncio.run(main())
"""
    )
    script = tmp_path / "head.sh"
    script.write_text(
        f"#!/bin/sh\nexport XDG_STATE_HOME={tmp_path}/state SLURM_CONF={slurm.environment['SLURM_CONF']}\n"
        f"exec {sys.executable} {program}\n"
    )
    words = ("-c1", "--mem-per-cpu=200", "-t", "5", "-o", tmp_path / "out", script)
    number = slurm.say("sbatch", "--parsable", *words)
    end = await asyncio.to_thread(slurm.end_of, number)
    said = (tmp_path / "out").read_text()
    assert end == "COMPLETED 0:0", said
    own, native, blocks, nodes = json.loads(said.splitlines()[-1])
    assert (own["SLURM_JOB_ID"], own["SLURM_MEM_PER_CPU"]) == (number, "200")
    assert [native] == blocks != [number]
    assert len(set(nodes)) == 2
    assert {job for job, _ in submitted.all()} == {number, native}

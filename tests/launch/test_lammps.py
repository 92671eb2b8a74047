"""MPI programs in blocks of two nodes of a real Slurm: the tutorial with LAMMPS, and where ranks run.

The nodes are this machine twice, each with the same two processors, so that workers know which cores are theirs, as
they do on nodes of their own.
"""

import ast
import asyncio
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from limits import LIMIT_S
from slurm_here import missing, temporary_slurm

from grainlike import GVAR, Cores, Executor, delayed, gather, run_process
from grainlike.launch import Slurm

TUTORIAL = Path(__file__).parents[2] / "tutorials" / "16_lammps_on_slurm.py"
PROGRAMS = ("lmp", "mpirun.openmpi", "taskset")
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",  # others use this machine, too
}
CLOSE = 0.15
"""How far figures of physics may be from those that are shown: machines round otherwise, and fluids are chaotic."""


@pytest.fixture(scope="module")
def two_nodes():
    """A Slurm of two nodes with the same two processors."""
    lacking = [*missing(), *(name for name in PROGRAMS if shutil.which(name) is None)]
    if lacking:
        pytest.fail(f"{', '.join(lacking)} not installed: apt-get install lammps openmpi-bin", pytrace=False)
    processors = sorted(os.sched_getaffinity(0))[:2]
    with temporary_slurm(nodes=2, cpus=2, processors=processors) as started:
        yield started


@pytest.fixture
def environment(two_nodes, tmp_path, monkeypatch):
    """What finds that Slurm, with a state directory of the test's own, set in this process."""
    said = {"SLURM_CONF": two_nodes.environment["SLURM_CONF"], "XDG_STATE_HOME": str(tmp_path), **MPI}
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    return {**os.environ}


def is_close(shown: str, found: str) -> bool:
    """Return True for the same word, or for numbers with a fraction that are close."""
    if shown == found or "." not in shown:
        return shown == found
    return abs(float(found) - float(shown)) <= CLOSE * abs(float(shown))


def test_the_tutorial_prints_its_table_from_one_block_of_two_nodes(two_nodes, environment):
    docstring = ast.get_docstring(ast.parse(TUTORIAL.read_text())) or ""
    shown = textwrap.dedent(docstring.partition("It prints::\n")[2]).strip().splitlines()
    before = len(two_nodes.jobs())
    limit = 4 * LIMIT_S  # it computes most of the time
    done = subprocess.run([sys.executable, TUTORIAL], capture_output=True, text=True, env=environment, timeout=limit)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == len(shown) == 10, done.stdout
    for line, expected in zip(printed, shown, strict=True):
        words = zip(expected.split(), line.split(), strict=True)
        assert all(is_close(one, other) for one, other in words), f"{line}\nis not\n{expected}"
    assert len(two_nodes.jobs()) == before + 1
    assert two_nodes.say("squeue", "-h") == ""


@delayed
async def ranks(count):
    """Return the node and the cores of this job, and where each of its ranks ran."""
    where = 'echo "$SLURMD_NODENAME $(grep Cpus_allowed_list /proc/self/status)"'
    # Two that begin at once on one machine take each other's common directory away.
    with TemporaryDirectory() as own:
        mpirun = ["mpirun.openmpi", "--mca", "orte_tmpdir_base", own, "-n", str(count)]
        done = await run_process([*mpirun, "sh", "-c", where])
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    return os.environ["SLURMD_NODENAME"], GVAR.res.cores, [(node, cores) for node, _, cores in lines]


@pytest.mark.asyncio
async def test_the_ranks_of_a_job_are_on_its_node_and_its_cores_wherever_the_block_has_others(environment):
    pool = Slurm("cores=2", walltime="0:05:00", nodes=2, min=2, env=list(MPI))
    async with asyncio.timeout(LIMIT_S), Executor(launch=pool, listen="tcp://127.0.0.1:0") as executor:
        await executor.wait_for_workers(2)
        for count in (1, 2):
            told = await gather((ranks @ Cores(1))(count) for _ in range(2))
            assert {node for node, _, _ in told} <= {"n1", "n2"}
            for node, cores, places in told:
                assert places == [(node, str(cores[0]))] * count

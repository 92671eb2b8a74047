"""MPI programs by plain `mpirun -n N`, Open MPI's and MPICH's: each rank stays on the job's cores."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, Nodes, delayed, gather, run_process

pytestmark = [
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the ranks are told apart by two cores"),
]

WORKER = [sys.executable, "-m", "grainlike_worker", "--log-level", "error"]
MPIRUNS = ("mpirun.openmpi", "mpirun.mpich")
# Rank 0 reads its input to the end: Hydra, which passes that on, may die of a broken pipe where nobody does.
_READ = 'test "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-0}}" = 0 && cat >/dev/null'
RANK = ["sh", "-c", f"{_READ}; grep Cpus_allowed_list /proc/self/status; echo $GRAINLIKE_CORES/$GRAINLIKE_JOB"]


@pytest.fixture(autouse=True)
def as_any_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open MPI refuses to run as root unless two variables say that this is meant."""
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT", "1")
    monkeypatch.setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")


def ids(text: str) -> set[int]:
    """The processors of a list as the kernel writes it: `0-1,3`."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def ranks(output: str) -> tuple[list[set[int]], set[str]]:
    """Where each rank was, and what they found in their environment."""
    lines = output.split("\n")
    places = [ids(line.split()[1]) for line in lines if line.startswith("Cpus_allowed_list")]
    return places, {line for line in lines if "/" in line}


def own_folder() -> dict[str, str]:
    """Return the environment of a run of MPI with files of its own: of two runs of Open MPI side by side, one that ends
    removes the common directory which the other has just found there.
    """
    return {**os.environ, "TMPDIR": GVAR.job.scratch}


@delayed
def plain(command: list[str]) -> tuple[int, tuple[int, ...], str]:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S, env=own_folder())
    return GVAR.job.id, GVAR.res.cores, done.stdout


@delayed
async def awaited(command: list[str]) -> tuple[int, tuple[int, ...], str]:
    done = await run_process(command, env=own_folder())
    return GVAR.job.id, GVAR.res.cores, done.stdout.decode()


@pytest.mark.asyncio
@pytest.mark.parametrize("mpirun", MPIRUNS)
@pytest.mark.parametrize("job", [plain, awaited])
async def test_the_rank_of_each_job_is_on_its_core(mpirun: str, job) -> None:
    assert shutil.which(mpirun)
    async with Executor(local=Cores(sorted(os.sched_getaffinity(0))[:2])):
        for number, cores, output in await gather((job @ Cores(1))([mpirun, "-n", "1", *RANK]) for _ in range(3)):
            assert ranks(output) == ([set(cores)], {f"{cores[0]}/{number}"})


@pytest.mark.asyncio
@pytest.mark.parametrize("mpirun", MPIRUNS)
async def test_both_cores_have_their_jobs_rank_at_the_same_time(mpirun: str, tmp_path) -> None:
    """Each rank waits for the other, so that neither job can have the other's core."""

    @delayed
    def meet(mine: str, other: str) -> tuple[tuple[int, ...], str]:
        script = f"echo > {mine}; while [ ! -e {other} ]; do sleep 0.01; done; {shlex.join(RANK)}"
        command = [mpirun, "-n", "1", "sh", "-c", script]
        done = subprocess.run(command, check=True, capture_output=True, timeout=LIMIT_S, env=own_folder())
        return GVAR.res.cores, done.stdout.decode()

    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    async with Executor(local=Cores(sorted(os.sched_getaffinity(0))[:2])):
        (one, first), (two, second) = await gather((meet @ Cores(1))(a, b), (meet @ Cores(1))(b, a))
    assert {one, two} == {(core,) for core in sorted(os.sched_getaffinity(0))[:2]}
    assert [ranks(first)[0], ranks(second)[0]] == [[set(one)], [set(two)]]


@pytest.mark.asyncio
async def test_as_many_ranks_as_cores_use_them_all() -> None:
    async with Executor(local=Cores(sorted(os.sched_getaffinity(0))[:2])):
        for mpirun in MPIRUNS:
            _, cores, output = await (plain @ Cores(2))([mpirun, "-n", "2", *RANK])
            places, _ = ranks(output)
            assert len(places) == 2
            assert set().union(*places) == set(cores)


def test_the_tutorial_runs_its_ranks(tmp_path) -> None:
    tutorial = Path(__file__).parents[2] / "tutorials" / "03_external_programs.py"
    assert shutil.which("mpirun")
    done = subprocess.run([sys.executable, tutorial], capture_output=True, text=True, timeout=LIMIT_S, cwd=tmp_path)
    assert "a rank of mpirun is on the job's core: True\n" in done.stdout, done.stderr


def test_the_tutorial_of_workers_runs_a_rank_on_each_node(tmp_path) -> None:
    tutorial = Path(__file__).parents[2] / "tutorials" / "04_workers.py"
    watched = tmp_path / "mpirun"
    watched.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nexec {shutil.which("mpirun.openmpi")} "$@"\n')
    watched.chmod(0o700)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_STATE_HOME": str(tmp_path)}
    command = [sys.executable, tutorial]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, cwd=tmp_path, env=environment)
    assert "ranks of an MPI program there: 2\n" in done.stdout, done.stderr
    assert "-n 2 echo a rank\n" in (tmp_path / "said").read_text()


@pytest.mark.asyncio
async def test_a_rank_file_puts_each_rank_of_a_gang_on_a_core(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cores = sorted(os.sched_getaffinity(0))[:2]

    @delayed
    def solve() -> tuple[str, str, str]:
        files = [Path(os.environ[name]).read_text() for name in ("GRAINLIKE_HOSTFILE", "GRAINLIKE_RANKFILE")]
        command = ["mpirun.openmpi", "--hostfile", os.environ["GRAINLIKE_HOSTFILE"]]
        command += ["--rankfile", os.environ["GRAINLIKE_RANKFILE"], "-n", "2", *RANK]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return files[0], files[1], done.stdout

    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        workers = [
            subprocess.Popen(  # noqa: ASYNC220
                [*WORKER, "--head", executor.address, "--name", f"n{core}", "--resources", f"cores=[{core}]"]
            )
            for core in cores
        ]
        try:
            await executor.wait_for_workers(2)
            hosts, places, output = await (solve @ Nodes(2, each=Cores(1)))()
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait(LIMIT_S)
    assert hosts == "localhost slots=2\n"
    assert sorted(line.split("=")[-1] for line in places.splitlines()) == [str(core) for core in cores]
    assert sorted(map(sorted, ranks(output)[0])) == [[core] for core in cores]

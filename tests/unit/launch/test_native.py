"""Native commands: what they say comes back, and nothing of them is left."""

import os
import subprocess
import sys

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S
from waiting import still_running, until_files

from grainlike import LaunchError
from grainlike.dialects import NativeCommand
from grainlike.launch import LSF, PBS, Local, Slurm
from grainlike.launch._native import run_native

pytestmark = pytest.mark.anyio

PATH = {"PATH": os.environ["PATH"]}


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Make programs of a name and a shell script, the only ones that can be found beside the system's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def make(name, script):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o700)

    return make


async def test_what_a_command_says_comes_back():
    said = await run_native(NativeCommand(("sh", "-c", "cat; echo wrong >&2; exit 3"), "in\n"), PATH)
    assert (said.code, said.stdout, said.stderr) == (3, "in\n", "wrong\n")


async def test_a_command_has_the_given_environment_alone():
    said = await run_native(NativeCommand(("env",)), {**PATH, "A": "1"})
    assert set(said.stdout.splitlines()) >= {"A=1"}
    assert not any(line.startswith("HOME=") for line in said.stdout.splitlines())


async def test_more_than_a_pipe_holds_comes_through():
    text = "x" * 2**20
    said = await run_native(NativeCommand(("sh", "-c", "cat; cat /dev/null"), text), PATH)
    assert said.stdout == text


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no-such-program",), 127, "no-such-program: command not found in PATH=/"),
        (("/etc",), 126, "/etc: Permission denied"),
    ],
)
async def test_a_program_that_cannot_be_run_is_an_answer(argv, code, words):
    said = await run_native(NativeCommand(argv), PATH)
    assert said.code == code
    assert said.stderr.startswith(words)


async def test_a_command_that_takes_too_long_ends_with_all_that_it_started(tmp_path):
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; echo begun; wait"
    command = NativeCommand(("sh", "-c", script))
    with anyio.fail_after(LIMIT_S):
        while not (said := await run_native(command, PATH, timeout=0.5)).stdout:
            pass  # on a busy machine the time was over before it had begun
    assert (said.code, said.stdout) == (None, "begun\n")
    assert said.stderr == "sh gave no answer within 0.5 s"
    assert still_running([int((tmp_path / "pid").read_text())]) == []


async def test_a_command_whose_caller_is_cancelled_ends(tmp_path):
    script = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; sleep 1000"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_native, NativeCommand(("sh", "-c", script)), PATH)
        await until_files(tmp_path, (tmp_path / "pid").exists)
        tasks.cancel_scope.cancel()
    assert still_running([int((tmp_path / "pid").read_text())]) == []


@pytest.mark.parametrize("turns", range(8))
async def test_a_command_whose_caller_is_cancelled_as_it_begins_is_waited_for(turns, monkeypatch):
    begun = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            begun.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run_native, NativeCommand(("sleep", "1000")), PATH)
        for _ in range(turns):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert [process.pid for process in begun if process.returncode is None] == []


async def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path):
    script = f"sleep 1000 & echo $! > {tmp_path}/pid; echo done"
    said = await run_native(NativeCommand(("sh", "-c", script)), PATH)
    assert (said.code, said.stdout) == (0, "done\n")
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, 15)
    assert still_running([pid]) == []


async def test_a_check_returns_the_words_of_the_batch_system(programs):
    programs("sbatch", 'test "$1" = --test-only && grep -q "#SBATCH --time=0:01:00" && echo "starts at noon" >&2')
    assert await Slurm("cores=1", walltime=60).check() == "starts at noon"


async def test_a_check_that_fails_has_words_command_and_script(programs):
    programs("sbatch", 'echo "sbatch: error: invalid partition specified: x" >&2; exit 1')
    with pytest.raises(LaunchError, match=r"^sbatch: error: invalid partition specified: x$") as caught:
        await Slurm("cores=1", walltime=60, queue="x").check()
    assert caught.value.words == "sbatch: error: invalid partition specified: x"
    assert caught.value.command == ("sbatch", "--test-only")
    assert "#SBATCH --partition=x\n" in caught.value.script


async def test_a_check_without_the_program_says_so(programs):
    with pytest.raises(LaunchError, match="bsub: command not found in PATH="):
        await LSF("cores=1", walltime=60).check()


async def test_a_check_that_submits_on_hold_takes_the_job_out_again(programs, tmp_path):
    programs("qsub", "echo 17.server")
    programs("qdel", f'echo "$@" > {tmp_path}/deleted')
    assert await PBS("cores=1", walltime=60).check()
    assert (tmp_path / "deleted").read_text() == "17.server\n"


async def test_secrets_of_this_program_do_not_reach_the_batch_system(programs, monkeypatch, tmp_path):
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    monkeypatch.setenv("SLURM_MEM_PER_CPU", "7")
    monkeypatch.setenv("HF_HOME", "/models")
    programs("sbatch", f"env > {tmp_path}/env; cat > {tmp_path}/script; echo fine >&2")
    await Slurm("cores=1", walltime=60, env=["HF_HOME"]).check()
    seen = (tmp_path / "env").read_text()
    assert "hunter2" not in seen + (tmp_path / "script").read_text()
    assert "SLURM_MEM_PER_CPU" not in seen
    assert "HF_HOME=/models" in seen


async def test_a_command_goes_through_via(programs, tmp_path):
    programs("ssh", f'echo "$@" > {tmp_path}/words; cat >/dev/null; echo fine >&2')
    await Slurm("cores=1", walltime=60, via="ssh login1").check()
    assert (tmp_path / "words").read_text() == "login1 sbatch --test-only\n"


async def test_this_machine_takes_workers():
    assert isinstance(await Local("cores=1", python=sys.executable).check(), str)

"""Two programs of one user on one machine: each takes cores that the other does not use."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor
from grainlike.cli import main

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the locks are Linux's"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two cores are to be shared"),
]

PROGRAM = """
import logging, sys
from grainlike import GVAR, Cores, delayed, run

logging.basicConfig(format="%(message)s", level=logging.INFO)

@delayed
def use_a_core():
    return GVAR.res.cores

@delayed
async def hold_a_core():
    print(*GVAR.res.cores, flush=True)
    sys.stdin.readline()

async def main():
    if sys.argv[1] == "hold":
        await (hold_a_core @ Cores(1))()
    else:
        print(*await (use_a_core @ Cores(1))(), flush=True)

run(main)
"""


def start(folder: Path, what: str) -> "subprocess.Popen[str]":
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "XDG_RUNTIME_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "program.py", what],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def doctor(folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}", "XDG_RUNTIME_DIR": str(folder)}
    command = [sys.executable, "-m", "grainlike", "doctor"]
    return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=LIMIT_S, check=False).stdout


def test_the_second_program_takes_a_core_that_the_first_does_not_use(tmp_path: Path) -> None:
    first = start(tmp_path, "hold")
    try:
        assert first.stdout is not None
        held = first.stdout.readline().split()
        second, said = start(tmp_path, "use").communicate(timeout=LIMIT_S)
        assert len(held) == 1
        assert held != second.split()
        assert f"worker local and process {first.pid} both offer cores" in said
        assert "they share one, and are slower. To prevent that offer each its own, as cores=[0,1]" in said
        assert f"process {first.pid} offers cores" in doctor(tmp_path)
    finally:
        first.communicate("go on\n", timeout=LIMIT_S)
    assert first.returncode == 0
    last, _ = start(tmp_path, "use").communicate(timeout=LIMIT_S)
    assert last.split() == held  # the first is free again


@pytest.mark.anyio
async def test_a_head_tells_which_cores_two_of_its_workers_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with Executor(listen="tcp://127.0.0.1:0", local=Cores([0, 1])) as executor:
        assert executor.workers()[0].shared == ()
        worker = [sys.executable, "-m", "grainlike_worker", "--log-level", "error", "--head", str(executor.address)]
        process = subprocess.Popen([*worker, "--resources", "cores=[1,90]"])  # noqa: ASYNC220
        try:
            await executor.wait_for_workers(2)
            assert [worker.shared for worker in executor.workers()] == [(1,), (1,)]
            assert await anyio.to_thread.run_sync(main, ["ls"]) == 0
            names = [worker.name for worker in executor.workers()]
            said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("cores ")]
            assert said == [f"cores 1 of {name} are offered by another worker of its machine, too" for name in names]
        finally:
            process.terminate()
            await anyio.to_thread.run_sync(process.wait, LIMIT_S)

"""Programs that open no executor: `asyncio.run(main())` alone, as in a REPL, a notebook or a first try."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S

ROOT = Path(__file__).parents[2]

PROGRAM = """
import asyncio, time
from pathlib import Path
from grainlike import Cores, delayed, start
from grainlike.head.server import _service
from grainlike.engine import _local_calls
_service.QUIET_S = _local_calls.QUIET_S = 3600.0

@delayed
def square(x):
    return x * x

@delayed
def nap(begun):
    Path(begun).write_text("begun")
    time.sleep(3600)

@delayed
async def nested():
    return await (square @ Cores(1))(3)

@delayed
async def nested_local():
    return await square(3)

async def main():
    {body}

asyncio.run(main())
"""


def run_program(body: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Run it in a process of its own: one that hangs at the end of its loop must not take the tests with it."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(body=body)],
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,  # and closing an executor would wait for jobs for longer
        check=False,
    )


def test_call_without_resources_may_be_the_first_thing_awaited() -> None:
    program = run_program("print(await square(3))")
    assert (program.returncode, program.stdout) == (0, "9\n"), program.stderr


AT_WORK = "await asyncio.to_thread(Path('begun').read_text)"


@pytest.mark.parametrize("pause", ["pass", "await asyncio.sleep(0)", AT_WORK])
def test_work_left_behind_ends_with_the_loop(pause: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    program = run_program(f"start((nap @ Cores(1))('begun')); {pause}; raise KeyError('mine')", tmp_path)
    assert program.returncode == 1
    assert "KeyError: 'mine'" in program.stderr


def test_a_loop_that_ends_at_once_leaves_no_warnings(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    program = run_program("start((nap @ Cores(1))('begun'))", tmp_path)
    assert (program.returncode, program.stderr) == (0, "")


def test_jobs_run_calls_without_resources_themselves() -> None:
    program = run_program("print(await (nested_local @ Cores(1))())")
    assert (program.returncode, program.stdout) == (0, "9\n"), program.stderr


def test_jobs_may_ask_for_workers_themselves() -> None:
    program = run_program("print(await (nested @ Cores(1))())")
    assert (program.returncode, program.stdout) == (0, "9\n"), program.stderr

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


INTERRUPTED = """
import asyncio, signal
from grainlike import Cores, Executor, HeadLostError, connect, delayed, start
from grainlike.client import HeadClient
from grainlike.wire import Outcomes

def square(x):
    return x * x

pressed = []

def pressed_at_the_outcome(self, frames, hear=HeadClient._hear):
    if not pressed and any(isinstance(frame.message, Outcomes) for frame in frames):
        pressed.append(True)
        signal.raise_signal(signal.SIGINT)
    hear(self, frames)

HeadClient._hear = pressed_at_the_outcome

async def begin():
    global head, client, r_
    head = await Executor(listen="tcp://127.0.0.1:0", local=Cores([0]))
    client = await connect(head.address)
    r_ = start((delayed(square) @ Cores(1))(3))
    await r_

async def go_on():
    try:
        await r_
    except HeadLostError as error:
        print(error)
    await client.aclose()
    print(await (delayed(square) @ Cores(1))(4))
    await head.aclose()

loop = asyncio.new_event_loop()
try:
    loop.run_until_complete(begin())
except KeyboardInterrupt:
    print("interrupted")
loop.run_until_complete(go_on())
loop.close()
"""


def test_ctrl_c_in_the_middle_of_a_read_lets_no_await_hang_that_follows(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(INTERRUPTED)
    argv = [sys.executable, "script.py"]
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    first, lost, value = ended.stdout.splitlines()
    assert (first, value) == ("interrupted", "16")
    assert lost.endswith("KeyboardInterrupt came in the middle of a read, of which the rest is lost")

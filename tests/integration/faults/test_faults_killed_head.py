"""A head daemon that was killed had no time to remove its access files; the next head does it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from waiting import until_files

from grainlike import Executor
from grainlike.net import left_behind

ROOT = Path(__file__).parents[3]


@pytest.mark.asyncio
async def test_the_next_head_removes_the_files_of_a_killed_one(private_state, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'worker'}")
    command = [sys.executable, "-m", "grainlike", "head", "start", "--listen", "tcp://127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: ASYNC220
    with process:
        await until_files(private_state, lambda: list(private_state.glob("*/head.lock")))
        assert left_behind() == []
        process.send_signal(signal.SIGKILL)
        process.communicate()
    (left,) = left_behind()
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        assert not left.exists()
        now = (private_state / "current").resolve()
        assert now != left.resolve()
        assert str(executor.address) in (now / "worker.json").read_text()
    assert not list(private_state.glob("*/*"))


STOPPED_AT_ONCE = """
import builtins, os, signal, sys
show = builtins.print

def print_and_stop(*words, **options):
    show(*words, **options)
    if str(words[0]).startswith("head at "):
        os.kill(os.getpid(), signal.SIGTERM)

builtins.print = print_and_stop
from grainlike.cli import main
sys.exit(main())
"""


def test_a_head_that_is_told_to_stop_as_soon_as_it_says_where_it_is_ends_in_order(private_state, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'worker'}")
    command = [sys.executable, "-c", STOPPED_AT_ONCE, "head", "start", "--listen", "tcp://127.0.0.1:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.stdout.startswith("head at ")
    assert done.returncode == 0, done.stderr
    assert not list(private_state.glob("*/*"))

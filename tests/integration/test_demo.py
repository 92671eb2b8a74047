"""The demonstration as a user runs it: real processes, real fits, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as Xml

import anyio
import psutil
import pytest
from limits import LIMIT_S
from waiting import still_running

from grainlike.cli._own_workers import WorkerFailedError, own_workers
from grainlike.cli.demo._jobs import candidates
from grainlike.resources import Cores

pytest.importorskip("sklearn")

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where access files go, with the checkout on the path of every process."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "worker")]))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path / "state" / "grainlike"


@pytest.fixture
def start(tmp_path: Path) -> Iterator["Demo"]:
    demo = Demo(tmp_path)
    yield demo
    demo.end()


class Demo:
    """A demonstration that runs beside the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, *options: str) -> subprocess.Popen[str]:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "grainlike", "demo", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self.process

    def finish(self, *options: str) -> str:
        process = self(*options)
        said, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said
        return said

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def places(picture: Path) -> list[str]:
    """Where each bar of a picture was: `local, core 0`."""
    tips = [title.text or "" for title in Xml.parse(picture).iter("{http://www.w3.org/2000/svg}title")]
    return [tip.splitlines()[1] for tip in tips[1:]]


def own_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def test_the_sweep_runs_here_and_tells_the_truth(start: Demo, tmp_path: Path) -> None:
    said = start.finish("--quick")
    tried = len(candidates(quick=True))
    assert f"{tried}/{tried}" in said
    assert "All scores are equal" in said
    slow, fast, ratio = (float(number) for number in re.findall(r"(\d+\.\d+) (?:s|×)  \(", said))
    half = 0.0051  # all three are rounded to hundredths
    assert (slow - half) / (fast + half) - half <= ratio <= (slow + half) / (fast - half) + half
    found = places(tmp_path / "grainlike-demo.svg")
    assert len(found) == tried + 1
    single = {f"local, core {core}" for core in own_cores()}
    assert set(found[:tried]) <= single


def test_two_workers_share_the_work_and_are_gone_afterwards(start: Demo, tmp_path: Path, state: Path) -> None:
    said = start.finish("--quick", "--no-baseline", "--workers", "2", "--picture", "two.svg")
    pids = [int(pid) for pid in re.findall(r"process (\d+)", said)]
    assert len(pids) == 2
    assert still_running(pids, within=0.0) == []
    assert {place.split(",")[0] for place in places(tmp_path / "two.svg")} == {"worker-1", "worker-2"}
    assert "one by one" not in said
    assert list(state.iterdir()) == []


def test_ctrl_c_ends_everything(start: Demo, state: Path) -> None:
    process = start("--workers", "2")
    assert process.stdout is not None
    pids: list[int] = []
    while len(pids) < 2:
        line = process.stdout.readline()
        assert line, "the demonstration ended too early"
        pids += [int(pid) for pid in re.findall(r"process (\d+)", line)]
    children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert set(pids) <= set(children)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert still_running(children, within=0.0) == []
    assert list(state.iterdir()) == []


@pytest.mark.anyio
async def test_a_worker_that_finds_no_head_ends_the_wait(capfd: pytest.CaptureFixture[str]) -> None:
    with anyio.fail_after(LIMIT_S), pytest.raises(WorkerFailedError, match="worker-1 ended with exit code 3"):
        async with own_workers("tcp://127.0.0.1:9", [Cores([0])]):
            await anyio.sleep_forever()
    assert "no access file" in capfd.readouterr().err


@pytest.mark.anyio
async def test_an_error_in_the_block_leaves_it_as_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with own_workers("tcp://127.0.0.1:9", [Cores([0])]):
            raise ZeroDivisionError

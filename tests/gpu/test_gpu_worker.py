"""A worker that is a process of its own, over TLS, with a device; and an example that has the device."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gpu_calls import break_device, fill, fill_anew, hold, loop, seen
from gpu_device import LIMIT_S, ROOT, uuids
from waiting import until_files

from grainlike import Cores, Executor, GPUs, cancel, info, start

pytestmark = pytest.mark.anyio


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[Callable[[object], None]]:
    """Return what starts a worker with a device for the head at an address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(head: object) -> None:
        argv = [sys.executable, "-m", "grainlike", "worker", "start", "--head", str(head), "--name", "n1"]
        argv += ["--resources", "cores=4 gpus=1"]
        started.append(subprocess.Popen(argv, cwd=tmp_path, stdin=subprocess.DEVNULL))

    yield start
    for process in started:
        process.terminate()
        process.wait(LIMIT_S)


async def test_a_worker_over_tls_gives_its_device_to_jobs(
    start_worker: Callable[[object], None], tmp_path: Path
) -> None:
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        first_ = (seen @ GPUs(1))()
        first = await first_
        assert (info(first_).worker, info(first_).receipt.devices) == ("n1", (0,))
        assert (first.gpus, first.uuids) == ((0,), [uuids()[0]])
        assert not (await (seen @ Cores(1))()).available
        assert (await (seen @ GPUs(1))()).pid == first.pid

        held = start((hold @ Cores(1))(str(tmp_path)))
        await until_files(tmp_path, (tmp_path / "here").exists)
        await (fill @ GPUs(1))(0.7)
        (tmp_path / "go").touch()
        await held
        await (fill_anew @ GPUs(1))(0.7)

        endless = start((loop @ GPUs(1))(str(tmp_path / "pid")))
        await until_files(tmp_path, (tmp_path / "pid").exists)
        cancel(endless)
        assert (await (seen @ GPUs(1))()).pid != int((tmp_path / "pid").read_text())
        with pytest.raises(RuntimeError, match="device-side assert"):
            await (break_device @ GPUs(1))()
        assert (await (seen @ GPUs(1))()).uuids == [uuids()[0]]


ON_THE_DEVICE = (
    ("(train @ Cores(1))", "(train @ (Cores(1) & GPUs(0.5)))"),
    ("local=Cores(2)", "local=Cores(2) & GPUs(1)"),
    ("Cores, Executor,", "Cores, Executor, GPUs,"),
    ("    torch.manual_seed(0)\n", '    torch.manual_seed(0)\n    torch.set_default_device("cuda")\n'),
)
"""What its page says for devices: each training on half of the one."""


async def test_the_sweep_that_stops_early_runs_on_the_device(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "early_stopping.py").read_text()
    for old, new in ON_THE_DEVICE:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "early_stopping.py"
    path.write_text(text)

    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, str(path)],
            cwd=tmp_path,
            env={**os.environ},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    ended = await asyncio.to_thread(run)
    assert ended.returncode == 0, ended.stderr
    (epochs,) = re.findall(r"epochs: (\d+) of 72", ended.stdout)
    assert 12 < int(epochs) < 72, "some were ended early"

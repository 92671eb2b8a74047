"""Two workers that wish for the same name are two workers, to the head and to their jobs alike."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, delayed, gather

ROOT = Path(__file__).parents[2]


def start_worker(head: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "grainlike_worker", "--head", head, "--resources", "cores=1", "--name", "twin"]
    return subprocess.Popen([*command, "--log-level", "error"])


@pytest.mark.asyncio
async def test_jobs_see_the_name_that_the_head_gave_their_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "worker")]))

    @delayed
    def meet(door: Path) -> str | None:
        """Return once two of us are there, which takes both workers."""
        (door / str(os.getpid())).touch()
        while len(list(door.iterdir())) < 2:
            time.sleep(0.01)
        return GVAR.instance

    door = tmp_path / "door"
    door.mkdir()
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        assert executor.address is not None
        workers = [start_worker(executor.address) for _ in range(2)]
        try:
            await executor.wait_for_workers(2)
            names = await gather((meet @ Cores(1))(door) for _ in range(2))
            assert sorted(map(str, names)) == ["twin", "twin-2"]
            assert sorted(worker.name for worker in executor.workers()) == ["twin", "twin-2"]
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            assert [worker.wait() for worker in workers] == [0, 0]

"""Two workers that wish for the same name are two workers, to the head and to their jobs alike."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from limits import LIMIT_S
from waiting import until_files

from grainlike import GVAR, Cores, Executor, delayed, gather, start

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
    def meet(door: Path, way: Path) -> str | None:
        """Return when the way is open, which it is for two of us: that takes both workers."""
        (door / str(os.getpid())).touch()
        with way.open("rb", buffering=0) as opened:
            opened.read(1)
        return GVAR.instance

    door, way = tmp_path / "door", tmp_path / "way"
    door.mkdir()
    os.mkfifo(way)
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        assert executor.address is not None
        workers = [start_worker(executor.address) for _ in range(2)]
        try:
            await executor.wait_for_workers(2)
            meeting = start(gather((meet @ Cores(1))(door, way) for _ in range(2)))
            await until_files(door, lambda: len(list(door.iterdir())) == 2)
            with way.open("r+b", buffering=0) as opened:
                opened.write(b"..")
                names = await meeting
            assert sorted(map(str, names)) == ["twin", "twin-2"]
            assert sorted(worker.name for worker in executor.workers()) == ["twin", "twin-2"]
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGTERM)
            assert [worker.wait() for worker in workers] == [0, 0]

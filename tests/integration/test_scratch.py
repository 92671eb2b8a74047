"""A job's own directory: there when it asks, gone when it has ended, however it ended."""

import os
import signal
import sys
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, WorkerLostError, cancel, delayed, gather, start

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tidies up")]


@delayed
def write(number: int) -> str:
    path = GVAR.job.scratch
    assert path == GVAR.job.scratch
    assert list(path.iterdir()) == []
    (path / "deep").mkdir()
    (path / "deep" / "file").write_text(str(number))
    return str(path)


@delayed
async def write_too(number: int) -> str:
    path = GVAR.job.scratch
    (path / "file").write_text(str(number))
    await anyio.lowlevel.checkpoint()
    return str(path)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All of it is made here."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def left_in(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if path.name.startswith("grainlike")]


@pytest.mark.parametrize("job", [write, write_too])
async def test_every_job_has_one_of_its_own_and_it_goes_with_the_job(job, place: Path) -> None:
    async with Executor(local=Cores(2)):
        paths = await gather((job @ Cores(1))(number) for number in range(20))
        assert len(set(paths)) == 20
        assert all(path.startswith(str(place)) for path in paths)
        assert not any(map(os.path.exists, paths))
    assert left_in(place) == []


@pytest.mark.parametrize("end", ["crash", "cancel"])
async def test_it_goes_when_the_process_was_killed(end: str, place: Path) -> None:
    @delayed
    def job(mark: str) -> None:
        (GVAR.job.scratch / "file").write_text("x")
        Path(mark).write_text(str(GVAR.job.scratch))
        if end == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3600)

    mark = place / "mark"
    async with Executor(local=Cores(1)):
        r_ = start((job @ Cores(1))(str(mark)))
        with anyio.fail_after(LIMIT_S):
            if end == "cancel":
                while not mark.exists() or not mark.read_text():  # noqa: ASYNC110
                    await anyio.sleep(0.01)
                cancel(r_)
                await (write @ Cores(1))(1)
            else:
                with pytest.raises(WorkerLostError):
                    await r_
            directory = anyio.Path(mark.read_text())
            while await directory.exists():  # noqa: ASYNC110
                await anyio.sleep(0.01)
    assert left_in(place) == []


async def test_nothing_is_made_for_jobs_that_do_not_ask(place: Path) -> None:
    @delayed
    def quiet() -> None: ...

    async with Executor(local=Cores(1)):
        await (quiet @ Cores(1))()
        assert left_in(place) == []

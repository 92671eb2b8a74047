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
from plain_calls import end_somehow, write
from waiting import until_files

from grainlike import GVAR, Cores, Executor, WorkerLostError, cancel, delayed, gather, start

pytestmark = [pytest.mark.asyncio, pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tidies up")]


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
                await until_files(place, lambda: mark.exists() and mark.read_text())
                cancel(r_)
                await (write @ Cores(1))(1)
            else:
                with pytest.raises(WorkerLostError):
                    await r_
            directory = Path(mark.read_text())
            await until_files(place, lambda: not directory.exists())
    assert left_in(place) == []


async def test_nothing_is_made_for_jobs_that_do_not_ask(place: Path) -> None:
    @delayed
    def quiet() -> None: ...

    async with Executor(local=Cores(1)):
        await (quiet @ Cores(1))()
        assert left_in(place) == []


def inputs(place: Path) -> list[Path]:
    return list(place.rglob("input"))


async def end_somehow_too(how: str) -> None:
    end_somehow(how)


@pytest.mark.parametrize("keep", ["failed", "always"])
@pytest.mark.parametrize("job", [end_somehow, end_somehow_too])
async def test_that_of_a_failed_job_is_kept_when_asked_and_its_error_says_where(
    job, keep: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAINLIKE_KEEP_SCRATCH", keep)
    async with Executor(local=Cores(1)):
        fails = delayed(job) @ Cores(1)
        await fails("returns")
        with pytest.raises(ValueError, match="no convergence") as caught:
            await fails("raises")
    (note,) = [note for note in caught.value.__notes__ if "scratch" in note]
    path = Path(note.removeprefix("Its scratch directory is kept: ").split(" on ")[0])
    assert (path / "input").read_text() == "as it was"
    kept = [found.parent for found in inputs(place)]
    assert path in kept
    assert len(kept) == (1 if keep == "failed" else 2)


async def test_that_of_a_killed_process_is_kept_when_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAINLIKE_KEEP_SCRATCH", "failed")
    async with Executor(local=Cores(1)):
        with pytest.raises(WorkerLostError, match="its scratch directories are kept: ") as caught:
            await (delayed(end_somehow) @ Cores(1))("crashes")
    found = inputs(place)
    assert found
    assert any(str(path).startswith(str(caught.value).rpartition("are kept: ")[2].split()[0]) for path in found)


async def test_a_value_that_means_nothing_is_named(place: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setenv("GRAINLIKE_KEEP_SCRATCH", "yes")
    async with Executor(local=Cores(1)):
        await (write @ Cores(1))(1)
    assert "GRAINLIKE_KEEP_SCRATCH=yes keeps nothing: it is one of failed, always" in caplog.text
    assert left_in(place) == []


async def test_programs_of_a_plain_job_find_its_own_in_the_environment() -> None:
    @delayed
    def ask(number: int) -> tuple[str, str, str]:
        import subprocess

        before = os.environ.get("GRAINLIKE_SCRATCH", "")
        path = GVAR.job.scratch
        return before, str(path), subprocess.check_output(["sh", "-c", "echo $GRAINLIKE_SCRATCH"], text=True).strip()

    async with Executor(local=Cores(1)):
        found = await gather((ask @ Cores(1))(number) for number in range(300))
    assert {before for before, _, _ in found} == {""}
    assert all(path == shown for _, path, shown in found)
    assert len({path for _, path, _ in found}) == 300

"""The waits that tests share: each returns at its event, from whatever thread or process that comes."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import pytest
import waiting
from limits import LIMIT_S
from waiting import logged, still_running, until, until_called, until_ended, until_files, until_files_blocking

WRITER = """
import sys
from pathlib import Path
sys.stdin.readline()
folder = Path(sys.argv[1])
(folder / "deep" / "deeper").mkdir(parents=True)
(folder / "deep" / "deeper" / "file").write_text("written")
(folder / "deep" / "deeper" / "file").rename(folder / "moved")
print("done", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def never_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has an event does not go by time."""
    monkeypatch.setattr(waiting, "LOOK_S", 3600.0)


@pytest.fixture
def writer(tmp_path: Path):
    """A program that makes folders and files below `tmp_path`/new when it reads a line, and ends with its input."""
    command = [sys.executable, "-c", WRITER, str(tmp_path / "new")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.anyio
async def test_files_of_another_process_are_waited_for_in_folders_that_are_not_there_yet(writer, tmp_path) -> None:
    moved = tmp_path / "new" / "moved"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_files, tmp_path / "new" / "deep", moved.exists)
        await anyio.wait_all_tasks_blocked()
        print(file=writer.stdin, flush=True)
    assert await until_files(tmp_path, moved.read_text) == "written"
    assert until_files_blocking(moved.parent, moved.read_text) == "written"


@pytest.mark.anyio
async def test_the_end_of_a_process_is_an_event(writer) -> None:
    assert still_running([writer.pid], within=0) == [writer.pid]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_ended, writer.pid)
        await anyio.wait_all_tasks_blocked()
        writer.stdin.close()
    await until_ended(writer.pid)  # it has not been waited for
    writer.wait()
    await until_ended(writer.pid)  # now it has
    assert still_running([writer.pid]) == []


class Counter:
    count = 0

    def add(self) -> None:
        self.count += 1

    async def add_later(self) -> None:
        await asyncio.sleep(0)
        self.count += 1


@pytest.mark.asyncio
@pytest.mark.parametrize("owner", ["class", "object"])
async def test_calls_in_any_thread_are_events_and_nothing_is_left_patched(owner: str) -> None:
    counter, before = Counter(), Counter.add
    waits = asyncio.create_task(until_called(Counter if owner == "class" else counter, "add", lambda: counter.count))
    await asyncio.sleep(0)
    thread = threading.Thread(target=lambda: counter.add())
    thread.start()
    assert await waits == 1
    thread.join()
    assert Counter.add is before
    later = asyncio.create_task(until_called(Counter, "add_later", lambda: counter.count == 2))
    await asyncio.sleep(0)
    await counter.add_later()
    assert await later


def test_a_call_in_a_thread_that_ends_when_the_loop_has_closed_ends_as_it_would() -> None:
    ends, begun, let_go = [], threading.Event(), threading.Event()

    class Slow:
        def add(self, *, waits: bool) -> None:
            if waits:
                begun.set()
                let_go.wait(LIMIT_S)

    def call() -> None:
        Slow().add(waits=True)
        ends.append("well")

    async def wait() -> None:
        waits = asyncio.create_task(until_called(Slow, "add", begun.is_set))
        await asyncio.sleep(0)
        thread.start()
        assert await asyncio.to_thread(begun.wait, LIMIT_S)
        Slow().add(waits=False)
        assert await waits

    thread = threading.Thread(target=call)
    asyncio.run(wait())
    let_go.set()
    thread.join(LIMIT_S)
    assert ends == ["well"]


@pytest.mark.asyncio
async def test_lines_that_are_logged_are_events(caplog: pytest.LogCaptureFixture) -> None:
    waits = asyncio.create_task(logged(caplog, "two", count=2))
    await asyncio.sleep(0)
    for word in ("two", "one", "twofold"):
        logging.getLogger("grainlike").warning(word)
    assert await waits == ["two", "twofold"]


@pytest.mark.anyio
async def test_what_tells_nobody_is_looked_at_again_by_functions_of_both_kinds(monkeypatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0.0)
    values = iter([0, "", None, 5, 0, "", None, 7])

    async def value() -> int:
        return next(values)

    assert await until(lambda: next(values)) == 5
    assert await until(value) == 7


@pytest.mark.anyio
async def test_who_waits_in_vain_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(waiting, "LIMIT_S", 0.01)
    with pytest.raises(TimeoutError):
        await until(lambda: False)
    with pytest.raises(TimeoutError):
        await until_files(tmp_path, lambda: False)
    with pytest.raises(TimeoutError):
        until_files_blocking(tmp_path, lambda: False)

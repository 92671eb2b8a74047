"""The file of events: whose it is, and what becomes of lines when it is moved, removed, or its disk takes no more."""

import json
import logging
import os
import stat
import subprocess
import sys

import anyio
import pytest
from limits import LIMIT_S
from waiting import until

from grainlike.telemetry import EventFile, EventWriter, _event_file

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def time_to_end(monkeypatch):
    """A busy machine may take more than two seconds to write what is left."""
    monkeypatch.setattr(_event_file, "_LAST_S", LIMIT_S)


class Source:
    """Log of events that a test fills."""

    def __init__(self):
        self.waiting = []

    def __len__(self):
        return len(self.waiting)

    def take(self, most):
        taken, self.waiting = self.waiting[:most], self.waiting[most:]
        return taken

    def event(self, event, **fields):
        return {"event": event, **fields}


def records(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_new_file_is_for_this_user_alone_and_an_old_one_is_appended_to(tmp_path):
    path = tmp_path / "events.jsonl"
    first = EventFile(path)
    first.write(b"1\n")
    first.close()
    path.chmod(0o640)  # as somebody has set it who collects logs
    second = EventFile(path)
    second.write(b"2\n")
    second.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_text() == "1\n2\n"


def test_the_mode_of_a_new_file_leaves_nothing_to_others(tmp_path):
    EventFile(tmp_path / "events.jsonl").close()
    assert stat.S_IMODE((tmp_path / "events.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize("gone", ["moved", "removed"])
def test_a_file_that_is_moved_or_removed_is_made_anew(tmp_path, gone):
    path, old = tmp_path / "events.jsonl", tmp_path / "events.jsonl.1"
    file = EventFile(path)
    file.write(b"1\n")
    path.rename(old) if gone == "moved" else path.unlink()
    file.write(b"2\n")
    file.close()
    assert path.read_text() == "2\n"
    assert not old.exists() or old.read_text() == "1\n"


def test_a_file_in_no_folder_is_an_error_at_once(tmp_path):
    with pytest.raises(FileNotFoundError):
        EventFile(tmp_path / "none" / "events.jsonl")


def test_a_pipe_without_a_reader_is_an_error_rather_than_a_wait(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device"):
        EventFile(tmp_path / "pipe")


class Disk:
    """Disk that takes `room` bytes of what is written to it."""

    def __init__(self, monkeypatch, room):
        self.room, self.write = room, os.write
        monkeypatch.setattr(_event_file.os, "write", self)

    def __call__(self, file, data):
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = bytes(data[: self.room])
        self.room -= len(taken)  # before anybody can read it: the test may set it then, in another thread
        return self.write(file, taken)


def test_a_line_that_a_full_disk_cut_goes_on_where_it_ended(tmp_path, monkeypatch):
    file = EventFile(tmp_path / "events.jsonl")
    disk = Disk(monkeypatch, 10)
    file.write(b'{"a": 1}\n{"b": 2}\n')
    with pytest.raises(OSError, match="No space"):
        file.write(b'{"c": 3}\n')
    disk.room = 4
    with pytest.raises(OSError, match="only a part"):
        file.write(b'{"d": 4}\n')
    disk.room = 1000
    file.write(b'{"e": 5}\n')
    file.close()
    assert (tmp_path / "events.jsonl").read_text() == '{"a": 1}\n{"b": 2}\n{"e": 5}\n'


def test_the_rest_of_a_cut_line_does_not_begin_another_file(tmp_path, monkeypatch):
    path = tmp_path / "events.jsonl"
    file = EventFile(path)
    disk = Disk(monkeypatch, 3)
    file.write(b'{"a": 1}\n{"b": 2}\n')
    path.unlink()
    disk.room = 1000
    file.write(b'{"c": 3}\n')
    file.close()
    assert path.read_text() == '{"b": 2}\n{"c": 3}\n'


async def test_a_full_disk_drops_events_with_a_count_says_so_once_and_recovers(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "grainlike")
    monkeypatch.setattr(_event_file, "FLUSH_S", 0.001)
    path, source = tmp_path / "events.jsonl", Source()
    disk = Disk(monkeypatch, 1000)
    writer = EventWriter(source, EventFile(path), host="h")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await until(lambda: path.read_text())
        disk.room = 0
        for number in range(3):
            source.waiting = [{"event": "lost", "number": number}] * 2
            await until(lambda number=number: writer._lost == 2 * (number + 1))
        disk.room = 1000
        source.waiting = [{"event": "kept"}]
        await until(lambda: "kept" in path.read_text())
        await writer.close()
    assert records(path) == [
        {"event": "events_opened", "host": "h"},
        {"event": "events_dropped", "count": 6},
        {"event": "kept"},
        {"event": "events_closed"},
    ]
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" ", 3)[:3] for line in said] == [["events", "cannot", "be"], ["events", "are", "written"]]
    assert "No space left" in said[0]
    assert "6 were dropped" in said[1]


async def test_what_waits_at_the_end_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_event_file, "FLUSH_S", 3600)
    path, source = tmp_path / "events.jsonl", Source()
    writer = EventWriter(source, EventFile(path))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await until(lambda: path.read_text())
        source.waiting = [{"event": "job", "number": number} for number in range(2000)]
        tasks.cancel_scope.cancel()  # as where the program is cancelled
        await writer.close()
    assert [record["number"] for record in records(path)[1:-1]] == list(range(2000))


async def test_a_name_that_is_no_text_is_escaped(tmp_path):
    path, source = tmp_path / "events.jsonl", Source()

    class Name(str):
        __slots__ = ()

    source.waiting = [{"event": "job_ended", "name": "\ud800"}, {"event": "job_ended", "name": Name("n\n")}]
    writer = EventWriter(source, EventFile(path))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.close()
    assert [record["name"] for record in records(path)[1:-1]] == ["\ud800", "n\n"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_standard_output_that_nobody_reads_does_not_hold_the_process(backend):
    program = f"""
import sys, anyio
from grainlike.telemetry import EventFile, EventWriter, _event_file

class Source(list):
    def take(self, most):
        taken, self[:] = self[:most], self[most:]
        return taken

    def event(self, event, **fields):
        return {{"event": event}}

async def main():
    _event_file._LAST_S = 0.01
    writer = EventWriter(Source([{{"event": "x" * 100}}] * 2000), EventFile("-"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.close()

anyio.run(main, backend={backend!r})
print("ended", file=sys.stderr)
"""
    unread, output = os.pipe()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        os.close(unread)
        os.close(output)
    assert (ended.returncode, ended.stderr) == (0, "ended\n")


async def test_the_standard_output_is_a_file_too(capfd):
    source = Source()
    writer = EventWriter(source, EventFile("-"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writer.run)
        await writer.close()
    told = [json.loads(line)["event"] for line in capfd.readouterr().out.splitlines()]
    assert told == ["events_opened", "events_closed"]

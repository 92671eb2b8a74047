"""`dag.run(trace=PATH)`: a wrong path is an error before anything starts, and a full disk costs the trace alone."""

import errno
import json
import logging
import os
import shutil
from pathlib import Path

import pytest

from grainlike import Cores, Dag, Executor, UnsatisfiableError
from grainlike.system._late_file import LateFile

pytestmark = pytest.mark.anyio


def work(mark):
    Path(mark).touch()
    return 7


def graph(mark, request_=None):
    dag = Dag()
    dag.add("a", work, mark, request=request_ or Cores(1))
    return dag


async def test_a_folder_in_the_place_of_the_trace_is_an_error_before_anything_starts(tmp_path):
    mark = tmp_path / "ran"
    async with Executor(local=Cores(1)):
        with pytest.raises(IsADirectoryError):
            await graph(mark).run(trace=tmp_path)
    assert not mark.exists()


async def test_a_trace_that_cannot_be_written_at_the_end_leaves_the_report(tmp_path, caplog):
    async with Executor(local=Cores(1)):
        report = await graph(tmp_path / "ran").run(trace="/dev/full")
    assert report["a"].value == 7
    assert isinstance(report.trace_error, OSError)
    assert report.trace_error.errno == errno.ENOSPC
    assert "its trace was not written: [Errno 28] No space left" in str(report)
    [said] = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert "/dev/full" in said.getMessage()


async def test_a_folder_that_went_away_meanwhile_leaves_the_report(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    dag = Dag()
    dag.add("a", shutil.rmtree, folder, request=Cores(1))
    async with Executor(local=Cores(1)):
        report = await dag.run(trace=folder / "trace.json")
    assert report.succeeded == 1
    assert isinstance(report.trace_error, FileNotFoundError)


async def test_a_trace_that_was_moved_away_meanwhile_is_written_anew(tmp_path):
    path = tmp_path / "trace.json"
    dag = Dag()
    dag.add("a", shutil.move, path, tmp_path / "other", request=Cores(1))
    async with Executor(local=Cores(1)):
        report = await dag.run(trace=path)
    assert report.trace_error is None
    assert json.loads(path.read_text())["traceEvents"]


async def test_a_run_that_never_began_leaves_no_empty_trace_and_keeps_an_old_one(tmp_path):
    path, old = tmp_path / "trace.json", tmp_path / "old.json"
    old.write_text("of yesterday")
    async with Executor(local=Cores(1)):
        for one in (path, old):
            with pytest.raises(UnsatisfiableError):
                await graph(tmp_path / "ran", Cores(99)).run(trace=one)
    assert not path.exists()
    assert old.read_text() == "of yesterday"


def test_a_shorter_text_replaces_all_of_a_longer_one(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("x" * 1000)
    with LateFile(path) as file:
        assert path.stat().st_size == 1000
        file.write("short")
    assert path.read_text() == "short"


def test_a_pipe_is_not_opened_before_there_is_something_to_write(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with LateFile(pipe):
        pass
    assert pipe.exists()

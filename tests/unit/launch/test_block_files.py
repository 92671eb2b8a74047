"""Files of blocks: what is read of them here is what a shell elsewhere prints of them."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from grainlike.dialects import CommandResult
from grainlike.launch import FilePart
from grainlike.launch._block_files import PART_BYTES, part_said, read_end, read_part, shell_for_part, write_file


def read_by_shell(path, start, before=""):
    """What a shell that is told so prints of a file."""
    text = before + shell_for_part(str(path), start)
    done = subprocess.run(["bash", "-s"], input=text.encode(), capture_output=True, check=False)
    return part_said(CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode()))


READERS = pytest.mark.parametrize("read", [read_part, read_by_shell])


@READERS
@pytest.mark.parametrize(("start", "text", "begin"), [(0, "one\ntwö\n", 0), (4, "twö\n", 4), (9, "", 9), (1000, "", 9)])
def test_what_a_file_has_from_a_place_on(read, start, text, begin, tmp_path):
    path = tmp_path / "a log's"
    path.write_text("one\ntwö\n")
    assert read(path, start) == FilePart(text, begin, 9)


@READERS
def test_of_a_long_rest_the_end_is_read(read, tmp_path):
    path = tmp_path / "log"
    path.write_text("x" * 10 + "y" * PART_BYTES)
    assert read(path, 3) == FilePart("y" * PART_BYTES, 10, 10 + PART_BYTES)
    assert read(path, 11) == FilePart("y" * (PART_BYTES - 1), 11, 10 + PART_BYTES)


@READERS
def test_a_file_that_is_not_there_is_said_with_its_path(read, tmp_path):
    part = read(tmp_path / "log", 0)
    assert (part.text, part.start, part.end) == ("", 0, 0)
    assert f"{tmp_path / 'log'}" in part.why
    assert "No such file or directory" in part.why


def test_what_a_profile_says_before_is_no_part_of_it(tmp_path):
    (tmp_path / "log").write_text("text\n")
    assert read_by_shell(tmp_path / "log", 0, "echo welcome\n") == FilePart("text\n", 0, 5)


def test_a_shell_without_an_answer_is_said():
    assert part_said(CommandResult(None, "grainlike part 0 9\nhal")).why == "no answer in time"
    assert part_said(CommandResult(0, "something else")).why == "no answer in time"


def test_files_are_for_their_owner_alone_and_the_end_is_what_reasons_quote(tmp_path):
    path = tmp_path / "blocks" / "gl1a2b3c4d-1" / "log"
    write_file(path, "x" * 10 + "y" * 4096)
    assert [oct(one.stat().st_mode)[-3:] for one in (path, path.parent, path.parent.parent)] == ["600", "700", "700"]
    assert read_end(path) == "y" * 4096
    assert read_end(path.with_name("other")) is None


def test_who_reads_a_file_that_is_written_again_has_all_of_the_old_or_the_new(tmp_path, monkeypatch):
    path = tmp_path / "blocks" / "gl1a2b3c4d-1" / "log"
    write_file(path, "begun\n")
    replaced, seen = os.replace, []

    def seen_before(source, target):
        seen.append((read_part(path, 6), Path(source).read_text(), stat.S_IMODE(Path(source).stat().st_mode)))
        replaced(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", seen_before)
        write_file(path, "begun\nended\n")
    assert seen == [(FilePart("", 6, 6), "begun\nended\n", 0o600)], "it was whole before it had its name"
    assert read_part(path, 6) == FilePart("ended\n", 6, 12)
    assert [one.name for one in path.parent.iterdir()] == ["log"]


def test_a_file_that_cannot_be_written_again_stays_as_it_was(tmp_path):
    path = tmp_path / "blocks" / "gl1a2b3c4d-1" / "log"
    write_file(path, "begun\n")
    with pytest.raises(UnicodeEncodeError):
        write_file(path, "begun\n\ud800")
    assert path.read_text() == "begun\n"
    assert [one.name for one in path.parent.iterdir()] == ["log"]

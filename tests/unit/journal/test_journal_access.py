"""One user, one head: who may open a journal, and what is said to the others."""

import os
import socket

import pytest
from journal_stands import QuickDisk, fill, recover

from grainlike import JournalError
from grainlike.journal import Disk, Journal, commit_image
from grainlike.journal._format import HEAD_SIZE, HEADER_SIZE


def modes(directory):
    return {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}


def test_all_is_made_for_its_owner_alone(tmp_path):
    directory = tmp_path / "state" / "journal"
    old = os.umask(0)
    try:
        fill(directory, [b"1"], [b"2"], image=[b"x"])
    finally:
        os.umask(old)
    assert [path.stat().st_mode & 0o777 for path in (directory, directory.parent)] == [0o700, 0o700]
    assert set(modes(directory).values()) == {0o600}
    assert len(modes(directory)) == 4


def test_a_second_head_is_told_who_the_first_is(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    holder = f"process {os.getpid()} on {socket.gethostname()}, writes this journal: {tmp_path}"
    with pytest.raises(JournalError, match=f"another head, {holder}"):
        Journal.open(tmp_path, disk=QuickDisk())
    journal.append(b"1")
    journal.close()
    assert recover(tmp_path)[1] == [b"1"]


def test_a_closed_journal_takes_nothing(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="the journal is closed"):
        journal.append(b"1")
    with pytest.raises(JournalError, match="the journal is closed"):
        journal.begin_segment()


@pytest.mark.parametrize(("mode", "complaint"), [(0o750, "close it with: chmod 700"), (0o1777, "for all users")])
def test_a_directory_that_is_open_to_others_is_refused(tmp_path, mode, complaint):
    fill(tmp_path / "journal", [b"1"])
    (tmp_path / "journal").chmod(mode)
    with pytest.raises(JournalError, match=complaint):
        recover(tmp_path / "journal")
    (tmp_path / "journal").chmod(0o700)
    assert recover(tmp_path / "journal")[1] == [b"1"]


def test_an_empty_directory_is_closed_to_others_if_it_is_ours(tmp_path, monkeypatch):
    directory = tmp_path / "journal"
    directory.mkdir()
    directory.chmod(0o1777)
    with pytest.raises(JournalError, match="for all users"):
        recover(directory)
    directory.chmod(0o755)
    ours = os.geteuid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: ours + 1)
        with pytest.raises(JournalError, match="not to us"):
            recover(directory)
    assert directory.stat().st_mode & 0o777 == 0o755
    assert recover(directory)[1] == []
    assert directory.stat().st_mode & 0o777 == 0o700
    directory.chmod(0o755)
    with pytest.raises(JournalError, match="close it with: chmod 700"):
        recover(directory)


def test_what_belongs_to_another_user_is_refused(tmp_path, monkeypatch):
    fill(tmp_path, [b"1"])
    ours = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: ours + 1)
    with pytest.raises(JournalError, match=rf"belongs to user id {ours}, not to us \({ours + 1}\)"):
        recover(tmp_path)


def test_a_file_that_is_open_to_others_is_refused(tmp_path):
    (path,) = fill(tmp_path, [b"1"])
    path.chmod(0o640)
    with pytest.raises(JournalError, match=f"close it with: chmod 600 {path}"):
        recover(tmp_path)
    path.chmod(0o600)
    assert recover(tmp_path)[1] == [b"1"]


def test_a_link_in_a_files_place_is_not_followed(tmp_path):
    (path,) = fill(tmp_path / "journal", [b"1"])
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalError, match=r"cannot read .*: Too many levels of symbolic links"):
        recover(tmp_path / "journal")


def test_a_pipe_in_a_files_place_holds_nobody_up(tmp_path):
    (path,) = fill(tmp_path / "journal", [b"1"])
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(JournalError, match="is not a regular file"):
        recover(tmp_path / "journal")


def test_a_file_in_the_directorys_place_is_refused(tmp_path):
    (tmp_path / "journal").write_text("mine")
    with pytest.raises(JournalError, match="is not a directory; a journal is one"):
        recover(tmp_path / "journal")


def test_an_image_needs_its_segment(tmp_path):
    fill(tmp_path, [b"1"])
    with pytest.raises(JournalError, match=r"cannot read .*2\.log: No such file"):
        commit_image(tmp_path, 2, [b"x"], disk=QuickDisk())
    assert [path.name for path in tmp_path.glob("*.image*")] == []


def test_an_image_whose_drawing_fails_leaves_nothing(tmp_path):
    def chunks():
        yield b"half"
        raise ZeroDivisionError

    fill(tmp_path, [b"1"])
    with pytest.raises(ZeroDivisionError):
        commit_image(tmp_path, 1, chunks(), disk=QuickDisk())
    assert [path.name for path in tmp_path.glob("*.image*")] == []


@pytest.mark.parametrize("record", [b"abc", bytearray(b"abc"), memoryview(b"xabcx")[1:4], [b"a", bytearray(b"bc")]])
def test_any_buffer_is_a_record_and_so_are_pieces(tmp_path, record):
    fill(tmp_path, [record])
    assert recover(tmp_path)[1] == [b"abc"]


def test_the_bytes_of_a_buffer_count_and_not_its_items(tmp_path):
    fill(tmp_path, [[memoryview(b"12345678").cast("I")]])
    assert recover(tmp_path)[1] == [b"12345678"]


def test_records_are_read_as_often_as_they_are_asked_for(tmp_path):
    fill(tmp_path, [b"1", b"2"], [b"3"])
    journal, found = Journal.open(tmp_path, disk=QuickDisk())
    assert (list(found.records), list(found.records), len(found.records)) == ([b"1", b"2", b"3"],) * 2 + (3,)
    assert (journal.position, journal.synced, journal.segment) == (3, 3, 2)
    journal.close()


def test_sizes_tell_when_it_is_time_for_an_image(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    assert (journal.image_size, journal.segment_size) == (0, HEADER_SIZE)
    journal.append(b"12345")
    assert journal.segment_size == HEADER_SIZE + HEAD_SIZE + 5
    segment = journal.begin_segment()
    commit_image(tmp_path, segment, [b"123"], disk=QuickDisk())
    journal.forget_before(segment)
    assert (journal.image_size, journal.segment_size) == (HEADER_SIZE + HEAD_SIZE + 3 + HEAD_SIZE, HEADER_SIZE)
    journal.close()
    again, _ = Journal.open(tmp_path, disk=QuickDisk())
    assert again.image_size == journal.image_size
    again.close()


def test_what_is_said_when_a_file_is_closed_comes_too_late():
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.close(-1)
    assert Disk().close(-1) is None


@pytest.mark.parametrize("name", ["lock", "0000000000000001.log"])
@pytest.mark.parametrize("other", [False, True])
def test_a_file_that_was_moved_away_is_missed(tmp_path, name, other):
    journal, _ = Journal.open(tmp_path / "j")
    path, away = tmp_path / "j" / name, tmp_path / "away"
    journal.check_place()
    path.rename(away)
    if other:
        path.touch(mode=0o600)
    with pytest.raises(JournalError, match="another file than" if other else "was removed, or moved away") as found:
        journal.check_place()
    assert found.value.path == str(path)
    away.rename(path)
    journal.check_place()
    journal.close()


def test_no_segment_is_begun_in_a_directory_that_another_head_may_take(tmp_path):
    journal, _ = Journal.open(tmp_path / "j")
    (tmp_path / "j").rename(tmp_path / "away")
    (tmp_path / "j").mkdir(mode=0o700)
    with pytest.raises(JournalError, match="lock was removed"):
        journal.begin_segment()
    assert not list((tmp_path / "j").iterdir())
    assert journal.append(b"x") == 1
    (tmp_path / "j").rmdir()
    (tmp_path / "away").rename(tmp_path / "j")
    assert journal.begin_segment() == 2
    journal.close()

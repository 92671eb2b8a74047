"""A disk that refuses: each call of a life fails in turn. What was accepted stays, and what is said is clear."""

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest
from journal_stands import FaultyDisk, QuickDisk, fill, recover

from grainlike import JournalError
from grainlike.journal import Journal, commit_image
from grainlike.journal._format import HEAD_SIZE, HEADER_SIZE

STEPS = ["open", "a", "b", "sync", "begin", "c", "image", "d", "sync", "begin", "e", "close"]


class Life:
    """A journal that goes through the steps, whatever fails, and what it has accepted and acknowledged meanwhile."""

    def __init__(self, directory, disk):
        self.directory, self.disk = directory, disk
        self.accepted, self.acknowledged, self.errors = [], 0, []
        self.journal = None
        self.begun, self.state = 1, []

    def go(self):
        for step in STEPS:
            try:
                self.take(step)
            except JournalError as error:
                self.errors.append((step, error))
        return self

    def take(self, step):
        if step == "open":
            self.journal, _ = Journal.open(self.directory, disk=self.disk)
            self.journal.on_synced = self.acknowledge
        elif self.journal is None:
            return
        elif len(step) == 1:
            self.journal.append([step.encode(), step.encode() * 20])
            self.accepted.append(step.encode() * 21)
        elif step == "begin":
            self.journal.begin_segment()
            self.begun, self.state = self.journal.segment, list(self.accepted)
        elif step == "image":
            commit_image(self.directory, self.begun, self.state, disk=self.disk)
            self.journal.forget_before(self.begun)
        else:
            {"sync": self.journal.sync, "close": self.journal.close}[step]()

    def acknowledge(self, position):
        assert self.acknowledged < position <= len(self.accepted)
        self.acknowledged = position


def held(directory):
    image, records, found = recover(directory)
    assert found.cut == 0
    return [*(image or ()), *records]


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def lives(tmp_path, error, **options):
    """A life for each call, that fails there."""
    for at in range(1, 1000):
        directory = tmp_path / "journal"
        disk = FaultyDisk(at, error, **options)
        yield at, Life(directory, disk).go()
        if not disk.failed:
            return
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("error", "options"), [(errno.EIO, {}), (errno.ENOSPC, {}), (errno.ENOSPC, {"part": 7}), (errno.EIO, {"part": 40})]
)
def test_whatever_call_fails_what_was_accepted_stays(tmp_path, error, options):
    failed, files = set(), open_files()
    for at, life in lives(tmp_path, error, **options):
        if life.journal:
            life.journal.close()
        assert open_files() == files, at
        failed.add(life.disk.failed)
        assert held(tmp_path / "journal") == life.accepted, at
        for step, told in life.errors:
            assert os.strerror(error) in str(told), (at, step, told)
            assert str(tmp_path) in str(told), (at, step, told)
        if life.disk.failed in ("create", "write", "sync", "rename", "sync_directory"):
            assert life.errors, at
        if life.journal and not life.errors:
            assert life.acknowledged == len(life.accepted) == 5, at
    assert failed >= {None, "create", "write", "sync", "sync_directory", "rename", "remove", "names", "read"}


def test_after_a_refused_write_nothing_is_appended_until_a_segment_begins(tmp_path):
    disk = FaultyDisk()
    journal, _ = Journal.open(tmp_path, disk=disk)
    journal.append(b"1")
    disk.at, disk.error, disk.part = len(disk.calls) + 1, errno.ENOSPC, 30
    with pytest.raises(JournalError, match=r"cannot write .*1\.log: No space left on device"):
        journal.append(b"2" * 100)
    assert "No space left" in str(journal.failure)
    with pytest.raises(JournalError, match="No space left on device"):
        journal.append(b"3")
    journal.sync()
    assert (journal.synced, journal.position) == (1, 1)
    assert journal.begin_segment() == 2
    assert journal.failure is None
    assert journal.append(b"4") == 2
    journal.close()
    assert held(tmp_path) == [b"1", b"4"]


def test_a_part_that_cannot_be_cut_off_keeps_a_segment_from_beginning(tmp_path):
    disk = FaultyDisk()
    journal, _ = Journal.open(tmp_path, disk=disk)
    journal.append(b"1")
    disk.truncate = lambda file, size: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
    disk.at, disk.error, disk.part = len(disk.calls) + 1, errno.ENOSPC, 30
    with pytest.raises(JournalError, match="No space left on device"):
        journal.append(b"2" * 100)
    with pytest.raises(JournalError, match="Input/output error"):
        journal.begin_segment()
    assert "No space left" in str(journal.failure)
    del disk.truncate
    journal.begin_segment()
    journal.append(b"3")
    journal.close()
    assert held(tmp_path) == [b"1", b"3"]


def fail_next_sync(journal, disk):
    disk.sync = lambda file: (_ for _ in ()).throw(OSError(errno.EIO, "Input/output error"))
    with pytest.raises(JournalError, match=r"cannot sync .*\.log: Input/output error"):
        journal.sync()
    del disk.sync


def test_a_failed_sync_is_not_tried_again_and_only_an_image_ends_the_doubt(tmp_path):
    disk, told = FaultyDisk(), []
    journal, _ = Journal.open(tmp_path, disk=disk)
    journal.on_synced, journal.on_failure = told.append, lambda error: told.append(str(error))
    journal.append(b"1")
    journal.sync()
    journal.append(b"2")
    fail_next_sync(journal, disk)
    assert told == [1, str(journal.failure)]
    syncs = disk.calls.count("sync")
    with pytest.raises(JournalError, match="Input/output error"):
        journal.sync()
    with pytest.raises(JournalError, match="Input/output error"):
        journal.append(b"3")
    assert disk.calls.count("sync") == syncs
    segment = journal.begin_segment()
    journal.append(b"3")
    journal.sync()
    assert (journal.synced, told[2:]) == (1, [])  # nobody knows whether the second is on the disk
    commit_image(tmp_path, segment, [b"1", b"2"], disk=disk)
    journal.forget_before(segment)
    assert (journal.synced, told[2:]) == (3, [3])
    journal.close()
    assert held(tmp_path) == [b"1", b"2", b"3"]


def test_older_segments_are_not_synced_again_after_a_failure(tmp_path):
    disk = FaultyDisk()
    journal, _ = Journal.open(tmp_path, disk=disk)
    journal.append(b"1")
    journal.begin_segment()
    journal.append(b"2")
    fail_next_sync(journal, disk)
    segment = journal.begin_segment()
    journal.append(b"3")
    disk.calls.clear()
    journal.sync()
    assert disk.calls.count("sync") == 1
    assert journal.synced == 0
    commit_image(tmp_path, segment, [b"1", b"2"], disk=disk)
    journal.forget_before(segment)
    assert journal.synced == 3
    journal.close()


def test_an_image_from_before_a_failed_sync_does_not_end_the_doubt(tmp_path):
    disk = FaultyDisk()
    journal, _ = Journal.open(tmp_path, disk=disk)
    early = journal.begin_segment()
    journal.append(b"1")
    fail_next_sync(journal, disk)
    journal.begin_segment()
    commit_image(tmp_path, early, [], disk=disk)
    journal.forget_before(early)
    journal.append(b"2")
    journal.sync()
    assert journal.synced == 0
    journal.close()


def test_closing_a_doubted_journal_syncs_nothing(tmp_path):
    disk = FaultyDisk()
    journal, _ = Journal.open(tmp_path, disk=disk)
    journal.append(b"1")
    fail_next_sync(journal, disk)
    syncs = disk.calls.count("sync")
    journal.close()
    assert disk.calls.count("sync") == syncs
    assert held(tmp_path) == [b"1"]


def test_an_image_is_not_forgotten_before_it_is_there(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal.append(b"1")
    segment = journal.begin_segment()
    with pytest.raises(JournalError, match=r"0000000000000002\.image: No such file"):
        journal.forget_before(segment)
    journal.close()
    assert held(tmp_path) == [b"1"]


def append_forever(journal):
    while True:
        journal.append([b"x" * 100, b"y" * 200])


def test_a_full_disk_is_told_and_left_as_it_was(tmp_path):
    """With a limit that the system itself keeps: it takes a part of the write, and then refuses."""
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(JournalError, match=r"cannot write .*: File too large"):
            append_forever(journal)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.position == (4096 - HEADER_SIZE) // (HEAD_SIZE + 300)
    assert (tmp_path / "0000000000000001.log").stat().st_size == HEADER_SIZE + journal.position * (HEAD_SIZE + 300)
    accepted = journal.position
    journal.begin_segment()
    journal.append(b"more")
    journal.close()
    assert held(tmp_path) == [b"x" * 100 + b"y" * 200] * accepted + [b"more"]


def test_a_segment_takes_the_place_of_what_a_failure_has_left(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal.append(b"1")
    left = tmp_path / "0000000000000002.log"
    left.write_bytes(b"half a head")
    left.chmod(0o600)
    journal.begin_segment()
    journal.append(b"2")
    journal.close()
    assert held(tmp_path) == [b"1", b"2"]


@pytest.mark.parametrize("may_be_cut", [True, False])
def test_what_is_interrupted_was_not_appended(tmp_path, may_be_cut):
    class Interrupting(QuickDisk):
        def write(self, file, pieces):
            super().write(file, pieces)
            raise KeyboardInterrupt

        def truncate(self, file, size):
            if not may_be_cut:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().truncate(file, size)

    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal.append(b"1")
    journal._segment._disk = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        journal.append(b"2")
    journal._segment._disk = QuickDisk()
    assert journal.append(b"3") == 2
    journal.close()
    assert held(tmp_path) == [b"1", b"3"]


class SlowlyWritingDisk(QuickDisk):
    """Takes some bytes in a call, and in the end no more."""

    def __init__(self, at_once, limit=1_000_000):
        self.at_once, self.left = at_once, limit

    def write(self, file, pieces):
        data = b"".join(pieces)[: min(self.at_once, self.left)]
        self.left -= len(data)
        return super().write(file, [data])


def test_a_record_that_is_taken_in_parts_is_whole(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=SlowlyWritingDisk(7))
    journal.append([b"one", b"two" * 5])
    journal.append(b"three")
    journal.close()
    assert held(tmp_path) == [b"one" + b"two" * 5, b"three"]


def test_a_disk_that_takes_nothing_without_a_word_is_refused(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=SlowlyWritingDisk(7, limit=200))
    journal.append(b"1")
    with pytest.raises(JournalError, match="Input/output error"):
        journal.append(b"2" * 200)
    journal.close()
    assert held(tmp_path) == [b"1"]


def test_a_record_of_more_pieces_than_a_call_takes_is_written(tmp_path):
    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal.append([b"%d," % number for number in range(3000)])
    journal.close()
    assert held(tmp_path) == [b"".join(b"%d," % number for number in range(3000))]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    (path,) = fill(tmp_path, [b"one", b"two"])
    journal, found = Journal.open(tmp_path, disk=QuickDisk())
    data = path.read_bytes()
    path.write_bytes(data.replace(b"two", b"six"))
    with pytest.raises(JournalError, match="has changed, at byte"):
        list(found.records)
    journal.close()

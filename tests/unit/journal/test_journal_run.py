"""Syncs in groups: what is appended is on the disk before it is told, and one sync serves all that waits."""

import errno
import threading

import anyio
import anyio.to_thread
import pytest
import trio.testing
from journal_stands import QuickDisk, recover

from grainlike import JournalError
from grainlike.journal import Journal, commit_image
from grainlike.journal._journal import rest_after

pytestmark = pytest.mark.anyio


class SlowDisk(QuickDisk):
    """A disk whose syncs end when they are let, one by one."""

    def __init__(self):
        self.directories = 0
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.synced, self.error = [], None

    def sync(self, file):
        self.begun.release()
        self.may_end.acquire()
        if self.error:
            raise self.error
        self.synced.append(file)

    def sync_directory(self, path):
        self.directories += 1

    async def until_begun(self):
        await anyio.to_thread.run_sync(self.begun.acquire)


class Told:
    """What a journal has told."""

    def __init__(self, journal):
        self.all, self._more = [], anyio.Event()
        journal.on_synced = journal.on_failure = self._note

    def _note(self, what):
        self.all.append(what)
        self._more.set()

    async def next(self):
        while not self.all:
            self._more = anyio.Event()
            await self._more.wait()
        return self.all.pop(0)


@pytest.fixture
def opened(tmp_path):
    """A journal on a slow disk, and the disk; opened and closed without waiting."""
    disk = SlowDisk()
    disk.may_end.release(1)
    journal, _ = Journal.open(tmp_path, disk=disk)
    disk.begun.acquire()
    disk.synced.clear()
    yield journal, disk
    disk.may_end.release(100)
    journal.close()


async def test_what_comes_while_a_sync_is_under_way_shares_the_next(opened):
    journal, disk = opened
    told = Told(journal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        assert journal.append(b"1") == 1
        await disk.until_begun()
        assert [journal.append(b"2"), journal.append(b"3")] == [2, 3]
        assert (journal.synced, told.all) == (0, [])
        disk.may_end.release()
        assert await told.next() == 1
        await disk.until_begun()
        assert journal.synced == 1
        disk.may_end.release()
        assert await told.next() == 3
        assert len(disk.synced) == 2
        tasks.cancel_scope.cancel()


async def test_what_was_appended_before_it_runs_is_synced(opened):
    journal, disk = opened
    told = Told(journal)
    journal.append(b"1")
    disk.may_end.release()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        assert await told.next() == 1
        tasks.cancel_scope.cancel()


async def test_an_older_segment_is_synced_before_what_follows_counts(opened):
    journal, disk = opened
    told = Told(journal)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        journal.append(b"1")
        await disk.until_begun()
        first, directories = journal._segment.file, disk.directories
        journal.append(b"2")
        journal.begin_segment()
        journal.append(b"3")
        second = journal._segment.file
        disk.may_end.release(2)
        assert await told.next() == 1
        for _ in range(2):
            await disk.until_begun()
        assert (journal.synced, disk.synced) == (1, [first, first])
        disk.may_end.release()
        assert await told.next() == 3
        assert disk.synced == [first, first, second]
        assert disk.directories == directories + 1
        tasks.cancel_scope.cancel()


async def test_a_sync_that_fails_is_told_and_an_image_lets_it_go_on(opened, tmp_path):
    journal, disk = opened
    told = Told(journal)
    disk.error = OSError(errno.EIO, "Input/output error")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        journal.append(b"1")
        disk.may_end.release()
        failure = await told.next()
        assert failure is journal.failure
        assert "cannot sync" in str(failure)
        with pytest.raises(JournalError, match="Input/output error"):
            journal.append(b"2")
        disk.error = None
        disk.may_end.release(100)
        segment = journal.begin_segment()
        journal.append(b"2")
        commit_image(tmp_path, segment, [b"1"], disk=QuickDisk())
        journal.forget_before(segment)
        while (synced := await told.next()) != 2:
            assert synced == 1  # by the image
        tasks.cancel_scope.cancel()
    journal.close()
    assert recover(tmp_path)[:2] == ([b"1"], [b"2"])


async def test_cancelled_it_waits_for_the_sync_under_way(opened):
    journal, disk = opened
    journal.append(b"1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(journal.run)
        await disk.until_begun()
        tasks.cancel_scope.cancel()
        disk.may_end.release()
    assert len(disk.synced) == 1


async def test_cancelled_before_it_begins_a_sync_leaves_all_for_the_next(opened):
    journal, disk = opened
    journal.append(b"1")
    journal.begin_segment()
    disk.may_end.release(100)
    before = disk.directories
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.run()
    assert (journal.synced, disk.synced, disk.directories) == (0, [], before)
    journal.sync()
    assert (journal.synced, len(disk.synced), disk.directories) == (1, 2, before + 1)
    journal.sync()
    assert (len(disk.synced), disk.directories) == (2, before + 1)


def test_a_sync_takes_a_tenth_of_the_time_or_comes_after_50_ms():
    assert rest_after(0.001) == pytest.approx(0.01)
    assert rest_after(0.004) == pytest.approx(0.04)
    assert rest_after(1.0) == 0.05


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.002, 0.02), (3.0, 0.05)])
def test_it_rests_between_syncs_and_none_when_it_was_idle(tmp_path, took_s, rest_s):
    clock = trio.testing.MockClock(autojump_threshold=0)
    begun = []

    class TimedDisk(QuickDisk):
        def sync(self, file):
            begun.append(clock.current_time())
            clock.jump(took_s)

    async def main():
        told = Told(journal)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(journal.run)
            for position in (1, 2):
                journal.append(b"at once")
                assert await told.next() == position
            await trio.sleep(10)
            journal.append(b"after a while")
            asked = clock.current_time()
            assert await told.next() == 3
            assert begun[2] == asked
            nursery.cancel_scope.cancel()

    journal, _ = Journal.open(tmp_path, disk=QuickDisk())
    journal._disk = TimedDisk()
    trio.run(main, clock=clock)
    assert begun[1] - begun[0] == pytest.approx(took_s + rest_s)
    journal.close()

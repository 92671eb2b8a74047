"""Storage of a durable head: its log, and from time to time a snapshot, so that the log stays short.

Export of the state of a head that is not running, from its journal.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path

import anyio

from grainlike.errors import JournalError
from grainlike.head.durable._clients import DurableClients
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._no_listener import NoListener
from grainlike.head.durable._records import HeadBegan, RecordsMissing, WrittenBy, pack_input, unpack_input
from grainlike.head.durable._schema import SCHEMA, check_schema, conversions_from
from grainlike.head.durable._snapshot import (
    began_here,
    by_this_release,
    check_version,
    draw_head,
    read_head,
    read_title,
)
from grainlike.journal import Journal, Recovered, commit_image
from grainlike.subprocesses import die_with_parent
from grainlike.wire import Buffer, JobRow

__all__ = ["HeadStore", "exported"]


logger = logging.getLogger("grainlike")

IMAGE_BYTES = 64 * 1024 * 1024
IMAGE_TIMES = 4
"""An image is drawn when the log behind the last one has so many bytes, and is so many times as large as that; and when
so many bytes of functions have been dropped since, which are half of the last one or more.
"""

LOOK_S = 1.0
"""Seconds between checks of whether a snapshot is due, whether the files are where they were, and whether a disk that
failed still does.
"""

CALENDAR_S = 1.0
"""Seconds by which the calendar may be off the one that was written down."""

_CHILD_S = 0.02
"""Seconds between checks of whether the process that writes a snapshot has exited."""


class HeadStore:
    """Files of one head, in `directory`: journal and snapshots, while it runs.

    A disk that fails stops nothing that runs. But then messages are not acknowledged, new jobs are refused (`failure`
    is the reason), those that wait are not started, since that could not be journaled; and once the disk takes a
    snapshot of the whole state, normal work resumes.

    Raises `JournalError` as `Journal.open` does.
    """

    def __init__(self, directory: Path, began: HeadBegan, *, salvage: bool = False) -> None:
        self._journal, found = Journal.open(directory, salvage=salvage)
        self.clock: PersistentClock = PersistentClock()
        self.failure: JournalError | None = None
        self._image: Iterator[bytes] | None = None
        self._ended = 0.0, b""
        """Facts of the snapshot about the calendar, and about jobs that have ended."""
        self._records: Iterator[bytes] = iter(found.records)
        self._image_size = self._journal.image_size
        self._dropped_before = 0
        """Bytes of functions that had been dropped when the last snapshot was written."""
        self._writes = True
        self._stopped = False
        self._renewal = anyio.Lock()
        self._is_old = len(found.records) > 0
        """True if there is a log from before: what a sync had failed for would be in doubt without a snapshot."""
        try:
            self.began: HeadBegan = self._begin(found.image, began)
            self._written_by = (self.began.version, self.began.schema)
        except BaseException:
            self._journal.close()
            raise
        _tell_of_damage(found)

    def _begin(self, image: Iterable[bytes] | None, began: HeadBegan) -> HeadBegan:
        """Return the first record of the head in these files; `began` if there was none."""
        if image is not None:
            self._image = iter(image)
            title = read_title(next(self._image))
            self.clock.has_been(title.now)
            self._ended = title.calendar, title.history
            return title.began
        first = next(self._records, None)
        if first is None:
            self._journal.append(pack_input(began))
            return began
        what, _ = unpack_input(first)
        if not isinstance(what, HeadBegan):
            raise JournalError("this journal has lost its beginning")
        check_version(what)
        self.clock.has_been(what.now)
        return what

    # --- the head ----------------------------------------------------------------------------------------------------

    def restore(self, head: DurableHead, clients: DurableClients) -> None:
        """Restore the head's state, and journal its inputs from now on."""
        self._head, self._clients = head, clients
        if self._image is not None:
            read_head(self._image, head, clients, self.began.schema)
            self._dropped_before = head.state.functions.dropped_bytes
            self._restore_history()
        self._records = self._of_this_schema(self._records)
        if self._image is not None:
            self._records = _behind_an_image(self._records)
        whole = head.replay(self._records, clients)
        self.began = by_this_release(self.began)
        self._note_calendar(self._journal.append, again=self._written_by != (self.began.version, SCHEMA))
        head.keep(self)
        self._journal.on_synced = head.on_disk
        self._journal.on_failure = self._fail
        if whole and head.state.scheduler.paused:
            head.hold_starts("")  # the last head ended when its disk had just taken an image
        if not whole:
            self._fail(JournalError("what was told while the disk refused is not in the journal"))

    def _restore_history(self) -> None:
        calendar, packed = self._ended
        self._ended = 0.0, b""
        if calendar:
            self._head.set_calendar(calendar)
        if packed and not self._head.history.restore(packed):
            logger.warning("jobs that had ended are forgotten: another release has written what became of them")

    def _note_calendar(self, append: Callable[[Sequence[Buffer]], object], *, again: bool = False) -> None:
        """Write down who writes, and how far the calendar is ahead, if that has changed, or `again`."""
        ahead = time.time() - self.clock()
        if again or not self._head.dated or abs(ahead - self._head.calendar) > CALENDAR_S:
            append(pack_input(WrittenBy(self.clock(), self.began.version, SCHEMA, ahead)))
            self._head.decide_as(SCHEMA)
            self._head.set_calendar(ahead)

    def _of_this_schema(self, records: Iterator[bytes]) -> Iterator[bytes]:
        """Iterate over the records of the log, converted to `SCHEMA`; find who wrote the last of them."""
        check_schema(self._written_by[1], self._written_by[0])
        steps = _record_steps(self._written_by[1])
        for written in records:
            record = written
            for step in steps:
                record = step(record)
            what, _ = unpack_input(record) if record[5:6] == _WRITTEN_BY else (None, ())
            if isinstance(what, WrittenBy):
                check_schema(what.schema, what.version)
                self._written_by, steps = (what.version, what.schema), _record_steps(what.schema)
            yield record

    def append(self, record: Sequence[Buffer]) -> int:
        """Write a record; return how far the log goes with it, or will go with what is written instead."""
        if self._writes:
            try:
                return self._journal.append(record)
            except JournalError as error:
                self._fail(error)
        return self._journal.position + 1

    def _fail(self, error: JournalError) -> None:
        if self.failure is None:
            logger.error("the journal is not kept any more, and no jobs are taken or started until it is: %s", error)
        self.failure = error
        self._writes = False
        self._journal.on_synced = None
        self._clients.tell_failure()
        self._head.hold_starts(f"what is not written down is not started, and the journal is not kept ({error})")

    def stop(self) -> None:
        """Write nothing more, no snapshot either: what happens from now on is the end of this process, not of its
        jobs.
        """
        self._stopped = True
        self._writes = False
        self._journal.on_synced = None

    # --- the disk ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Sync records to disk, and write snapshots, until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._journal.run)
            while True:
                await anyio.sleep(LOOK_S)
                self._check_place()
                if self._writes:
                    self._note_calendar(self.append)
                if self.failure is not None or (self._writes and (self._is_old or self._is_long())):
                    await self._renew()

    def _check_place(self) -> None:
        """Fail if the journal's files were removed or replaced: what is synced to such files is not kept."""
        if self._writes:
            try:
                self._journal.check_place()
            except JournalError as error:
                self._fail(error)

    def _is_long(self) -> bool:
        if self._journal.segment_size > max(IMAGE_BYTES, IMAGE_TIMES * self._image_size):
            return True
        dropped = self._head.state.functions.dropped_bytes - self._dropped_before
        return dropped > max(IMAGE_BYTES, self._image_size // 2)

    async def finish(self) -> None:
        """Make sure that the end of all work is kept, also where the disk failed before.

        Raises:
            JournalError: it is not, so the next head will find the work again.
        """
        async with self._renewal:
            await self._draw()  # an image without records takes the place of all of them
        if self.failure is not None:
            raise JournalError(
                f"the end of the work is not in the journal ({self.failure}), so the next head finds the jobs again. "
                f"Make room in {self._journal.directory} and end that one, or remove the directory"
            )

    async def safe(self) -> None:
        """Return when all inputs so far are on disk, as far as the disk takes anything."""
        position = self._journal.position
        while self._writes and self._journal.synced < position:  # noqa: ASYNC110 - `on_synced` is the head's
            await anyio.sleep(_CHILD_S)

    async def _renew(self) -> None:
        async with self._renewal:  # this gives up a turn, in which the store may be stopped
            if not self._stopped:
                await self._draw()

    async def _draw(self) -> None:
        """Begin a new segment with an image of the head as it is now."""
        try:
            dropped = self._head.state.functions.dropped_bytes
            segment = self._journal.begin_segment()
            if self.failure is not None:
                self._journal.append(pack_input(RecordsMissing(self.clock())))
            child = self._fork(segment)
            self._writes = True
            await self._wait_for(child)
            self._journal.forget_before(segment)
        except (JournalError, OSError) as error:
            self._tell_of_no_image(error)
        else:
            self._image_size, self._is_old = self._journal.image_size, False
            self._dropped_before = dropped
            if self.failure is not None and self._writes:
                self._mend()

    def _tell_of_no_image(self, error: OSError) -> None:
        """Log that there is no new snapshot: the log after the last one continues; after a failure it is not enough."""
        self._image_size, self._is_old = self._journal.segment_size, False
        if self.failure is None:
            logger.warning("the journal grows, for there is no new image of the head: %s", error)
        else:
            self._writes = False

    def _mend(self) -> None:
        """Resume: the whole state is on disk again."""
        logger.warning("the journal is kept again")
        self.failure = None
        self._journal.on_synced = self._head.on_disk
        self._head.on_disk(self._journal.synced)
        self._clients.tell_mended()
        self._head.hold_starts("")

    async def _wait_for(self, child: int) -> None:
        try:
            while (code := _exit_code(child)) is None:  # noqa: ASYNC110 - no event tells of it on all loops
                await anyio.sleep(_CHILD_S)
        except BaseException:
            os.kill(child, signal.SIGKILL)  # it holds the lock of the files
            os.waitpid(child, 0)  # noqa: ASYNC222 - it has been killed
            raise
        if code:
            raise JournalError(f"the process that wrote an image of the head ended with exit code {code}")

    def _fork(self, segment: int) -> int:
        """Write the snapshot in a forked child: it has the whole state as it is now, and this process continues."""
        parent = os.getpid()
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            die_with_parent(parent)
            gc.disable()  # it would touch, and so copy, every page
            drawn = draw_head(self._head, self._clients, self.began, self.clock())
            commit_image(self._journal.directory, segment, drawn)
            code = 0
        except JournalError as error:  # a disk that refuses: its words are enough
            logger.error("an image of the head could not be written: %s", error)
        except BaseException:
            logger.exception("an image of the head could not be written")
        finally:
            os._exit(code)

    def close(self) -> None:
        """Close the files. Raises `JournalError` if they could not be synced."""
        for unread in (self._image, self._records):
            if isinstance(unread, Generator):
                unread.close()
        self._journal.close()


def _tell_of_damage(found: Recovered) -> None:
    """Log which parts of the journal are damaged and not used."""
    if found.cut:
        logger.warning("the last %d bytes of %s were not a whole record, and are cut off", found.cut, found.cut_path)
    for path in found.set_aside:
        logger.warning("what was damaged in the journal, or lay behind that, is set aside: %s", path)


_WRITTEN_BY = b"\x11"
"""Tag of a `WrittenBy`, behind the length of its array: all other records are decoded once alone."""


def _record_steps(schema: int | str) -> list[Callable[[bytes], bytes]]:
    assert isinstance(schema, int), "a journal that was not checked"
    return [step.record for step in conversions_from(schema)]


def _behind_an_image(records: Iterator[bytes]) -> Iterator[bytes]:
    """Iterate over the records without a leading `RecordsMissing`: the snapshot has what the log may lack."""
    for at, record in enumerate(records):
        if at or not isinstance(unpack_input(record)[0], RecordsMissing):
            yield record


def _exit_code(child: int) -> int | None:
    """Return the exit code of a child; None while it runs."""
    ended, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def exported(directory: Path) -> list[JobRow]:
    """Return the jobs that had not ended, the oldest first. The head must not be running, and does not notice.

    Raises:
        JournalError: the journal is damaged, in use, of a schema that is not read here, or open to others.
    """
    keeping = HeadStore(directory, began_here(0))
    try:
        head = DurableHead(NoListener(), keeping.began, keeping.clock, _forget)
        keeping.restore(head, DurableClients(head, "", bool, bool, _nothing))
        return head.view.rows(None)
    finally:
        keeping.close()


def _forget(at: float) -> None:
    """Ignore a request for a tick: no time passes in an export."""


def _nothing() -> None:
    """Do nothing when the last client has left."""

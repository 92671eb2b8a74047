"""The journal that is being written: appends at once, syncs in groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import anyio
import anyio.to_thread

from grainlike.errors import JournalError
from grainlike.journal._disk import Disk
from grainlike.journal._files import (
    check_is_at,
    check_lock,
    check_private_directory,
    close_empty_directory,
    image_path,
    lock_directory,
    numbered,
    refused,
    segment_path,
)
from grainlike.journal._format import Buffer
from grainlike.journal._recovery import Recovered, recover
from grainlike.journal._segment import SegmentWriter
from grainlike.journal._survey import survey

__all__ = ["Journal", "rest_after"]

_DISK = Disk()
_INTERVAL_S = 0.05
_REST_PER_SYNC = 10


def rest_after(took_s: float) -> float:
    """Return how long to rest, in seconds, after a sync that took so long: it takes a tenth of the time, or rests 50
    ms.
    """
    return min(_REST_PER_SYNC * took_s, _INTERVAL_S)


class _SyncGroup(NamedTuple):
    """Records of one sync: those up to `position`, in these files."""

    position: int
    retired: tuple[SegmentWriter, ...]
    last: SegmentWriter
    has_new_name: bool


class Journal:
    """A journal that this process alone writes. `Journal.open` makes one.

    All but `run` is synchronous, and belongs to the thread of the event loop in which `run` runs.

    Attributes:
        directory: where its files are.
        synced: how many of them are on the disk for certain.
        failure: why nothing is appended any more; None while all is well. `begin_segment` ends it.
        image_size: the bytes of the image that `open` found, or `forget_before` was told of; 0 if there was none.
        on_synced: called in the event loop, by `run` and `forget_before`, with `synced` when it has grown.
        on_failure: called in the event loop, by `run`, with `failure` when a sync has failed.

    Example::

        journal, found = Journal.open(directory)
        for record in found.records:
            replay(record)
        journal.on_synced = acknowledge
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.run)
            journal.append([b"submit", payload])
    """

    def __init__(self, disk: Disk, directory: Path, lock: int, segment: SegmentWriter) -> None:
        self._disk, self._lock, self._segment = disk, lock, segment
        self.directory: Path = directory
        self.synced: int = segment.position
        self._covered = segment.position
        self.failure: JournalError | None = None
        self.image_size: int = 0
        self.on_synced: Callable[[int], None] | None = None
        self.on_failure: Callable[[JournalError], None] | None = None
        self._firsts = {segment.header.number: segment.header.first}
        self._retired: list[SegmentWriter] = []
        """Older segments that are yet to be synced."""
        self._has_new_name = False
        self._doubted = False
        """True if a sync has failed since the last segment began: what the disk holds of it is not known."""
        self._needs_image = 0
        """The segment whose image, or a later one's, makes such doubt needless; 0 for none."""
        self._closed = False
        self._wake: anyio.Event | None = None

    @classmethod
    def open(cls, directory: Path, *, salvage: bool = False, disk: Disk = _DISK) -> tuple[Journal, Recovered]:
        """Open a journal for this process alone, or begin one, and return it with what it held, which is on the disk.

        Args:
            directory: its own; it is made, for its owner alone, if it is missing, and closed to others if it is empty.
            salvage: what is damaged, and what lies behind it, is set aside (`*.damaged`) instead of refused.
            disk: the calls to the system, for tests.

        Raises:
            JournalError: another process writes it; it is damaged, with file and offset; it is open to other users; or
                the disk refuses. For all but the last, nothing has been changed.
        """
        try:
            disk.make_directory(directory)
            close_empty_directory(disk, directory)
            check_private_directory(disk, directory)
            lock = lock_directory(disk, directory)
            try:
                found, segment = recover(disk, directory, survey(directory, disk=disk), salvage=salvage)
            except BaseException:
                disk.close(lock)
                raise
        except OSError as error:
            raise error if isinstance(error, JournalError) else refused("open", directory, error) from error
        journal = cls(disk, directory, lock, segment)
        journal.image_size = found.image.size if found.image else 0
        return journal, found

    @property
    def position(self) -> int:
        """Return how many records have been appended, over all segments and all processes that wrote it."""
        return self._segment.position

    @property
    def segment(self) -> int:
        """The number of the segment to which is appended."""
        return self._segment.header.number

    @property
    def segment_size(self) -> int:
        """Its size in bytes: what tells that it is time for an image."""
        return self._segment.end

    def append(self, record: Sequence[Buffer] | Buffer) -> int:
        """Write one record, whole or in pieces that follow each other; return its position. No piece is copied.

        It is the kernel's when this returns, and outlives the process. It outlives the machine when `synced` has
        reached its position.

        Raises:
            JournalError: the disk refuses, now or since an earlier call. Nothing of the record is kept.
        """
        if self.failure:
            self._raise_failure()
        pieces = [record] if isinstance(record, (bytes, bytearray, memoryview)) else record
        views = [piece if type(piece) is bytes else memoryview(piece).cast("B") for piece in pieces]
        try:
            self._segment.append(views)
        except OSError as error:
            self.failure = refused("write", self._segment.path, error)
            raise self.failure from error
        if self._wake is not None:
            self._nudge()
        return self._segment.position

    def check_place(self) -> None:
        """Check that what is appended can be found by its name: the files were not moved or removed.

        Raises:
            JournalError: it cannot, so whatever is synced would be gone with this process.
        """
        try:
            check_lock(self._disk, self.directory, self._lock)
            check_is_at(self._disk, self._segment.file, self._segment.path)
        except OSError as error:
            raise error if isinstance(error, JournalError) else refused("look at", self.directory, error) from error

    def begin_segment(self) -> int:
        """Begin a new segment and return its number: an image of the state at this moment may be written for it.

        This also ends a failure. But after a sync that failed it is not known what the disk holds: `synced` then stays
        where it is until `forget_before` is called with this number, or a higher one.

        Raises:
            JournalError: the disk refuses, or the directory is another one by now, and all is as it was before; or the
                journal is closed.
        """
        old = self._segment
        path = segment_path(self.directory, old.header.number + 1)
        if self._closed:
            raise JournalError(f"the journal is closed: {self.directory}", str(self.directory))
        try:
            check_lock(self._disk, self.directory, self._lock)
            if old.ragged:
                old.cut()
            header = replace(old.header, number=old.header.number + 1, first=self.position)
            self._segment = SegmentWriter.create(self._disk, path, header)
        except OSError as error:
            raise error if isinstance(error, JournalError) else refused("write", path, error) from error
        self._retire(old)
        self._firsts[self.segment] = self.position
        self._has_new_name = True
        self.failure = None
        self._nudge()
        return self.segment

    def _retire(self, old: SegmentWriter) -> None:
        if self._doubted:
            self._disk.close(old.file)
            self._needs_image = self.segment
            self._doubted = False
        else:
            self._retired.append(old)

    def forget_before(self, segment: int) -> None:
        """Remove the files that the image of `segment`, which `commit_image` has written, makes needless.

        What was appended before that segment counts as synced. The system takes some time to remove large files (some
        hundredths of a second for a GiB).

        Raises:
            JournalError: there is no such image; or a file cannot be removed, and will be the next time.
        """
        image = image_path(self.directory, segment)
        try:
            self.image_size = self._disk.status(image).st_size
            names = self._disk.names(self.directory)
            for path_of, kind in ((segment_path, "log"), (image_path, "image")):
                for number in numbered(names, kind):
                    if number < segment:
                        self._disk.remove(path_of(self.directory, number))
        except OSError as error:
            raise refused("forget what is older than", image, error) from error
        if segment >= self._needs_image:
            self._needs_image = 0
        self._confirm(self._firsts.get(segment, 0))
        self._firsts = {number: first for number, first in self._firsts.items() if number >= segment}

    async def run(self) -> None:
        """Sync what is appended, in a thread, and call `on_synced`. It never returns.

        A sync begins at once when there has been none for a while, else at most 50 ms after the one before has ended;
        the records that came meanwhile share it. A sync that has failed is not tried again, for the system may have
        dropped what it could not write: `failure` is set, and `on_failure` called. Cancelled, it waits for the sync
        under way.
        """
        limiter = anyio.CapacityLimiter(1)
        while True:
            if self._is_due():
                begun = anyio.current_time()
                await self._sync_in_thread(limiter)
                await anyio.sleep(rest_after(anyio.current_time() - begun))
            else:
                self._wake = anyio.Event()
                await self._wake.wait()

    async def _sync_in_thread(self, limiter: anyio.CapacityLimiter) -> None:
        group = self._begin_group()
        try:
            await anyio.to_thread.run_sync(self._sync_group, group, limiter=limiter)
        except OSError as error:
            self._doubt(error)
        else:
            self._settle(group)

    def sync(self) -> None:
        """Sync what is appended, here and now; not while `run` runs.

        Raises:
            JournalError: the sync failed, now or before. `failure` is set.
        """
        if self._is_due():
            group = self._begin_group()
            try:
                self._sync_group(group)
            except OSError as error:
                self._doubt(error)
            else:
                self._settle(group)
        if self._doubted:
            self._raise_failure()

    def _is_due(self) -> bool:
        return not self._doubted and (self._covered < self.position or self._has_new_name or bool(self._retired))

    def _nudge(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    def _begin_group(self) -> _SyncGroup:
        return _SyncGroup(self.position, tuple(self._retired), self._segment, self._has_new_name)

    def _sync_group(self, group: _SyncGroup) -> None:
        for segment in (*group.retired, group.last):
            self._disk.sync(segment.file)
        if group.has_new_name:
            self._disk.sync_directory(self.directory)

    def _settle(self, group: _SyncGroup) -> None:
        if group.last is self._segment:
            self._has_new_name = False
        self._release(group.retired)
        self._confirm(group.position)

    def _doubt(self, error: OSError) -> None:
        self.failure = refused("sync", self._segment.path, error)
        self._doubted = True
        self._release(tuple(self._retired))
        if self.on_failure:
            self.on_failure(self.failure)

    def _raise_failure(self) -> NoReturn:
        assert self.failure
        raise JournalError(str(self.failure), self.failure.path) from self.failure

    def _release(self, segments: Sequence[SegmentWriter]) -> None:
        self._retired = [one for one in self._retired if one not in segments]
        for segment in segments:
            self._disk.close(segment.file)

    def _confirm(self, position: int) -> None:
        """Record that all before `position` is on the disk. It counts when nothing before it is in doubt."""
        self._covered = max(self._covered, position)
        if not (self._doubted or self._needs_image) and self._covered > self.synced:
            self.synced = self._covered
            if self.on_synced:
                self.on_synced(self.synced)

    def close(self) -> None:
        """Sync what is not synced, and let go of the files and the lock. Do it when `run` has ended; again is no error.

        Raises:
            JournalError: the sync failed. The files are closed all the same.
        """
        if self._closed:
            return
        try:
            if not self._doubted:
                self.sync()
        finally:
            self._closed = True
            self.failure = JournalError(f"the journal is closed: {self.directory}", str(self.directory))
            for file in (*(one.file for one in self._retired), self._segment.file, self._lock):
                self._disk.close(file)

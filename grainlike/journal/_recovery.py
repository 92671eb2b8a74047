"""Recovery of a journal before it is written again: its torn tail is cut, and damage is refused or set aside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from grainlike.errors import JournalError
from grainlike.journal._disk import Disk
from grainlike.journal._files import free_damaged_name, is_unfinished, reading, segment_path, unfinished_path
from grainlike.journal._format import Header, Kind
from grainlike.journal._reader import RecordReader
from grainlike.journal._segment import SegmentWriter
from grainlike.journal._survey import FileReport, Survey

__all__ = ["Records", "Recovered", "recover"]

_PIECE = 1024 * 1024
_ID_SIZE = 16


class Records:
    """Records of files, in order, which are read when it is iterated over: once, or again.

    They must be read before `Journal.forget_before` removes the files. Each is checked once more as it is read; a
    `JournalError` says that a file has changed since.
    """

    __slots__ = ("_disk", "_files")

    def __init__(self, disk: Disk, files: tuple[FileReport, ...]) -> None:
        self._disk, self._files = disk, files

    @property
    def size(self) -> int:
        """The bytes of the files up to the last of them."""
        return sum(file.end for file in self._files)

    def __len__(self) -> int:
        return sum(file.records for file in self._files)

    def __iter__(self) -> Iterator[bytes]:
        for file in self._files:
            yield from self._of(file)

    def _of(self, file: FileReport) -> Iterator[bytes]:
        assert file.header
        with reading(self._disk, file.path) as (read, _):
            reader = RecordReader(read, file.end, file.header)
            yield from reader
        if reader.count != file.records:
            raise JournalError(f"{file.path} has changed, at byte {reader.offset}", str(file.path), reader.offset)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Content of a journal when it was opened.

    Attributes:
        image: the chunks of the newest image; None if there is none.
        records: all records behind it.
        position: how many records there have been in all; the next has this position plus one.
        cut: how many bytes of a torn tail were cut off. They are of records that were never acknowledged, if the disk
            keeps what it has synced.
        cut_path: the file that was cut; None if none was.
        cut_offset: where in it.
        set_aside: files that salvage renamed.
    """

    image: Records | None
    records: Records
    position: int
    cut: int = 0
    cut_path: Path | None = None
    cut_offset: int = 0
    set_aside: tuple[Path, ...] = ()


def recover(disk: Disk, directory: Path, found: Survey, *, salvage: bool) -> tuple[Recovered, SegmentWriter]:
    """Mend what a crash leaves, and return what is there and the segment to go on in. Raises `JournalError`."""
    if found.damage and not salvage:
        raise JournalError(found.refusal(), str(found.damage.path), found.damage.offset)
    aside = _set_aside(disk, directory, found) if found.damage else ()
    _remove_needless(disk, directory, found)
    writer = _writer(disk, directory, found)
    try:
        if found.segments and not found.segments[-1].sound:
            writer.cut()
        for segment in found.segments[:-1]:
            _sync(disk, segment.path)
        disk.sync(writer.file)
        disk.sync_directory(directory)
    except BaseException:
        disk.close(writer.file)
        raise
    recovered = Recovered(
        Records(disk, (found.image,)) if found.image else None,
        Records(disk, found.segments),
        writer.position,
        set_aside=aside,
    )
    return _with_cut(recovered, found), writer


def _with_cut(recovered: Recovered, found: Survey) -> Recovered:
    if found.damage:  # nothing was cut that was not set aside before
        return recovered
    for file in (*found.segments, *found.empty):
        if file.torn and file.size > file.end:
            return replace(recovered, cut=file.size - file.end, cut_path=file.path, cut_offset=file.end)
    return recovered


def _set_aside(disk: Disk, directory: Path, found: Survey) -> tuple[Path, ...]:
    """Rename what does not count, and copy what is about to be cut. Stopped anywhere, it can be done again."""
    names = disk.names(directory)
    aside = []
    if found.segments and not found.segments[-1].sound:
        path = found.segments[-1].path
        aside.append(free_damaged_name(path, names))
        _copy(disk, path, aside[-1])
    for file in found.behind:
        aside.append(free_damaged_name(file.path, names))
        disk.rename(file.path, aside[-1])
    disk.sync_directory(directory)
    return tuple(aside)


def _copy(disk: Disk, path: Path, target: Path) -> None:
    """Copy a file that is about to be cut."""
    fresh = unfinished_path(target)
    file = disk.create(fresh)
    try:
        with reading(disk, path) as (read, size):
            for offset in range(0, size, _PIECE):
                data = memoryview(read(offset, _PIECE))
                while data:
                    data = data[disk.write(file, [data]) :]
        disk.sync(file)
    finally:
        disk.close(file)
    disk.rename(fresh, target)


def _remove_needless(disk: Disk, directory: Path, found: Survey) -> None:
    for file in (*found.old, *found.empty):
        disk.remove(file.path)
    for name in disk.names(directory):
        if is_unfinished(name):
            disk.remove(directory / name)


def _writer(disk: Disk, directory: Path, found: Survey) -> SegmentWriter:
    """Return the end of the last segment, or of a first one."""
    if found.segments:
        last = found.segments[-1]
        assert last.header
        file = disk.open_to_append(last.path)
        return SegmentWriter(disk, last.path, file, last.header, end=last.end, position=last.after)
    header = Header(Kind.SEGMENT, 1, 0, os.urandom(_ID_SIZE))
    if found.image and found.image.header:
        header = Header(Kind.SEGMENT, found.image.number, found.image.header.first, found.image.header.journal)
    return SegmentWriter.create(disk, segment_path(directory, header.number), header)


def _sync(disk: Disk, path: Path) -> None:
    file = disk.open_to_append(path)
    try:
        disk.sync(file)
    finally:
        disk.close(file)

"""Images: the state at the beginning of a segment, in a file of its own, which is there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from grainlike.errors import JournalError
from grainlike.journal._disk import Disk
from grainlike.journal._files import image_path, reading, refused, segment_path, unfinished_path
from grainlike.journal._format import HEADER_SIZE, Buffer, Header, Kind
from grainlike.journal._segment import SegmentWriter

__all__ = ["commit_image"]

_DISK = Disk()


def commit_image(directory: Path, segment: int, chunks: Iterable[Buffer], *, disk: Disk = _DISK) -> None:
    """Write an image of the state at the beginning of `segment`, which `Journal.begin_segment` has begun.

    When it returns the image is on the disk. It is meant for a forked child, and needs nothing of the journal's object;
    the parent calls `Journal.forget_before(segment)` when the child has exited with 0. A child holds the journal's lock
    as its parent does, and keeps the next head out until it has ended: let it die with its parent (PR_SET_PDEATHSIG).

    Args:
        directory: the journal's.
        segment: its number.
        chunks: bytes, in pieces of any size; they are given back one by one.

    Raises:
        JournalError: the disk refuses. Then there is no image, and the older files are as they were.

    Example::

        segment = journal.begin_segment()
        if os.fork() == 0:
            commit_image(directory, segment, pack(state))
            os._exit(0)
    """
    path = image_path(directory, segment)
    fresh = unfinished_path(path)
    try:
        _write_image(disk, fresh, replace(_header_of(disk, segment_path(directory, segment)), kind=Kind.IMAGE), chunks)
        disk.rename(fresh, path)
        disk.sync_directory(directory)
    except BaseException as error:
        with suppress(OSError):
            disk.remove(fresh)
        if isinstance(error, OSError) and not isinstance(error, JournalError):
            raise refused("write", path, error) from error
        raise


def _header_of(disk: Disk, path: Path) -> Header:
    with reading(disk, path) as (read, _):
        try:
            return Header.decode(read(0, HEADER_SIZE))
        except ValueError as error:
            raise JournalError(f"{path}: {error}", str(path), 0) from None


def _write_image(disk: Disk, path: Path, header: Header, chunks: Iterable[Buffer]) -> None:
    writer = SegmentWriter.create(disk, path, header)
    try:
        for chunk in chunks:
            writer.append([memoryview(chunk).cast("B")])
        writer.append([], ends=True)
        disk.sync(writer.file)
    finally:
        disk.close(writer.file)

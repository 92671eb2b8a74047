"""Survey of a journal's directory, which changes nothing: which files are sound, and where the first is not.

The *tail* is all that lies behind the last valid record. What is not valid there was being written when the machine or
the process stopped: it is torn. Anything else that is not valid is damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grainlike.errors import JournalError
from grainlike.journal._disk import Disk
from grainlike.journal._files import check_private_directory, image_path, numbered, reading, refused, segment_path
from grainlike.journal._format import HEADER_SIZE, Header, Kind, OtherVersionError
from grainlike.journal._reader import Read, RecordReader, is_zero, valid_record_behind

__all__ = ["Damage", "FileReport", "Survey", "survey"]

_DISK = Disk()


@dataclass(frozen=True, slots=True)
class Damage:
    """The first thing that is wrong: in which file, from which byte, and in words."""

    path: Path
    offset: int
    problem: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """Report on a file: `end` of its `size` bytes are sound, and hold `records`.

    Attributes:
        header: None if it cannot be read.
        torn: the bytes behind `end` hold nothing valid, so they may be what was being written.
        problem: what is wrong with the file, in words; empty for one that is sound, or torn.
    """

    path: Path
    number: int
    size: int
    end: int = 0
    records: int = 0
    header: Header | None = None
    torn: bool = False
    problem: str = ""

    @property
    def sound(self) -> bool:
        """Return True if all of it is valid."""
        return not self.problem and not self.torn

    @property
    def after(self) -> int:
        """Return how many records there were in all segments up to its end."""
        return self.header.first + self.records if self.header else 0


@dataclass(frozen=True, slots=True)
class Survey:
    """A journal as it was found.

    Attributes:
        image: the newest sound image.
        segments: what is to be read behind it, in order. The last may have an end that is not sound.
        empty: segments in the tail that hold no record.
        behind: files that are damaged or lie behind the damage: they do not count.
        old: files that the image has made needless.
        damage: the first thing that is wrong with what counts.
        reports: every segment and image, in the order of their names.
    """

    image: FileReport | None
    segments: tuple[FileReport, ...]
    empty: tuple[FileReport, ...]
    behind: tuple[FileReport, ...]
    old: tuple[FileReport, ...]
    damage: Damage | None
    reports: tuple[FileReport, ...]

    @property
    def records(self) -> int:
        """Return how many records there are to be read."""
        return sum(segment.records for segment in self.segments)

    def refusal(self) -> str:
        """Return the error's text about the damage, and what salvage would keep."""
        assert self.damage
        image = f"the image of segment {self.image.number} and " if self.image else ""
        records = {0: "no record", 1: "the record before it"}.get(self.records, f"the {self.records} records before it")
        return (
            f"{self.damage.path} is damaged at byte {self.damage.offset}: {self.damage.problem}. "
            f"Nothing was changed; with --salvage {image}{records} are kept, and the rest is set aside"
        )


def survey(directory: Path, *, disk: Disk = _DISK) -> Survey:
    """Read all files of a journal. A head may write it meanwhile; then its end looks torn at times.

    Raises:
        JournalError: a file, or the directory, cannot be read, or others may read it; or the format is another
        version's.

    Example::

        found = survey(directory)
        print(found.refusal() if found.damage else f"{found.records} records")
    """
    try:
        check_private_directory(disk, directory)
        names = disk.names(directory)
    except OSError as error:
        raise error if isinstance(error, JournalError) else refused("read", directory, error) from error
    images = [_examine(disk, image_path(directory, number), Kind.IMAGE) for number in numbered(names, "image")]
    segments = [_examine(disk, segment_path(directory, number), Kind.SEGMENT) for number in numbered(names, "log")]
    image = next((one for one in reversed(images) if one.sound), None)
    base = image.number if image else 0
    chain = _SegmentChain(directory, image, [one for one in segments if one.number >= base])
    newer = [one for one in images if one.number > base]
    bad = newer[-1] if newer else None
    return Survey(
        image,
        tuple(chain.segments),
        tuple(chain.empty),
        behind=(*newer, *chain.behind),
        old=tuple(one for one in (*images, *segments) if one.number < base),
        damage=Damage(bad.path, bad.end, bad.problem) if bad else chain.damage,
        reports=tuple(sorted((*images, *segments), key=lambda one: one.path)),
    )


class _SegmentChain:
    """Segments that follow one upon the other, from an image or from nothing, until something is wrong."""

    def __init__(self, directory: Path, image: FileReport | None, found: Sequence[FileReport]) -> None:
        self._directory, self._image = directory, image
        self._next = image.number if image else 1
        self._tail_begins = 1 + max((one.number for one in found if one.records or one.problem), default=0)
        self.segments: list[FileReport] = []
        self.empty: list[FileReport] = []
        self.behind: list[FileReport] = []
        self.damage: Damage | None = None
        for segment in found:
            self._add(segment)
        if image and not found:
            self._break(self._path_of_next(), 0, f"it is missing, and {image.path.name} is there")

    def _add(self, segment: FileReport) -> None:
        if not self.damage and segment.number != self._next:
            self._break(self._path_of_next(), 0, f"it is missing, and {segment.path.name} is there")
        elif not self.damage and self._is_foreign(segment):
            self._break(segment.path, 0, "it is a segment of another journal")
        self._next += 1
        if self.damage:
            self.behind.append(segment)
        elif segment.number >= self._tail_begins:
            self._add_to_tail(segment)
        else:
            self._add_before_tail(segment)

    def _add_to_tail(self, segment: FileReport) -> None:
        """Take a segment without records: one to go on in if it fits, else one that was begun in vain."""
        torn = bool(self.segments) and self.segments[-1].torn
        if torn or self.empty or not segment.header or segment.header.first != self._records_before():
            self.empty.append(segment)
        else:
            self.segments.append(segment)

    def _add_before_tail(self, segment: FileReport) -> None:
        header, expected = segment.header, self._records_before()
        if header and header.first != expected:
            self._break(segment.path, 0, f"it begins behind {header.first} records, and there are {expected} before it")
        elif segment.problem:
            self._break(segment.path, segment.end, segment.problem)
        elif segment.torn and segment.number < self._tail_begins - 1:
            self._break(segment.path, segment.end, "it is torn there, and there are records in later segments")
        misfit = header is None or header.first != expected
        (self.behind if misfit else self.segments).append(segment)

    def _break(self, path: Path, offset: int, problem: str) -> None:
        self.damage = Damage(path, offset, problem)

    def _is_foreign(self, segment: FileReport) -> bool:
        before = self.segments[0] if self.segments else self._image
        return bool(before and before.header and segment.header and segment.header.journal != before.header.journal)

    def _records_before(self) -> int:
        if self.segments:
            return self.segments[-1].after
        return self._image.header.first if self._image and self._image.header else 0

    def _path_of_next(self) -> Path:
        return segment_path(self._directory, self._next)


def _examine(disk: Disk, path: Path, kind: Kind) -> FileReport:
    with reading(disk, path) as (read, size):
        report = FileReport(path, int(path.name.partition(".")[0]), size)
        try:
            header = Header.decode(read(0, HEADER_SIZE))
        except OtherVersionError as error:
            raise JournalError(f"{path} cannot be read: {error}", str(path), 0) from None
        except ValueError as error:
            blank = kind is Kind.SEGMENT and (size <= HEADER_SIZE or is_zero(read, size))
            return replace(report, torn=True) if blank else replace(report, problem=str(error))
        if (header.kind, header.number) != (kind, report.number):
            return replace(report, problem=f"it is {header.kind.name.lower()} {header.number}, by its header")
        return _examine_records(replace(report, header=header), header, read)


def _examine_records(report: FileReport, header: Header, read: Read) -> FileReport:
    reader = RecordReader(read, report.size, header)
    count = sum(1 for _ in reader)
    report = replace(report, end=reader.offset, records=count)
    if header.kind is Kind.IMAGE:
        whole = reader.ended and reader.offset == report.size
        return report if whole else replace(report, problem="it is not whole, or damaged there")
    if reader.offset == report.size:
        return report
    found = valid_record_behind(read, report.size, header, reader.offset + 1, report.after)
    if found is None:
        return replace(report, torn=True)
    return replace(report, problem=f"a record is damaged, and a valid one begins at byte {found}")

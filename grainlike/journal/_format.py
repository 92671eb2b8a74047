"""Format of the journal's files. Bytes in, bytes out; nothing here opens a file.

Integers are little-endian. A file is a header and then records::

    header   8s magic | u16 version | u16 kind | u32 zero | u64 number | u64 first | 16s journal | u32 checksum
    record   4s mark | u32 checksum of the payload | u64 sequence | u64 length | u32 checksum of these | payload

Both checksums are CRC-32 over a *seed*, which the file's journal, kind and number make, and the sequence is counted
over all segments. So a record is valid at one place of one file alone: not where it was copied to, nor in another
journal. CRC-32 finds every flipped bit and every burst of up to 32; among random damage it takes one piece in 2**32 for
whole, and a record must pass two of them. It is not meant to stop somebody who may write the file: who may do that is
the user. A page of zeros is no record, for it has no mark. The head of a record has a checksum of its own, so that its
length is believed, or not, before anything is read or allocated.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "HEADER_SIZE",
    "HEAD_SIZE",
    "MARK",
    "Buffer",
    "Header",
    "Kind",
    "OtherVersionError",
    "RecordHead",
    "encode_record",
]

Buffer = bytes | bytearray | memoryview

MARK = b"\xa7Rec"
"""Begins each record: what is looked for behind a bad one."""

_END = b"\xa7End"
_MAGIC = b"\x89GLjrn\r\n"
_VERSION = 1
_HEADER = struct.Struct("<8sHHIQQ16s")
_HEAD = struct.Struct("<4sIQQ")
_SUM = struct.Struct("<I")

HEADER_SIZE = _HEADER.size + _SUM.size
HEAD_SIZE = _HEAD.size + _SUM.size


class OtherVersionError(ValueError):
    """A file is whole, but of a version of the format that this program does not know."""


class Kind(IntEnum):
    """Content of a file."""

    SEGMENT = 1
    IMAGE = 2


@dataclass(frozen=True, slots=True)
class Header:
    """The beginning of a file.

    Attributes:
        kind: whether its records are inputs or the pieces of an image.
        number: the segment's; an image has that of the segment at whose beginning it holds.
        first: how many records there were in all segments before it.
        journal: 16 random bytes, the same in all files of one journal.
    """

    kind: Kind
    number: int
    first: int
    journal: bytes

    @property
    def seed(self) -> int:
        """Return the seed of the checksums of the file's records."""
        return zlib.crc32(_HEADER.pack(_MAGIC, _VERSION, self.kind, 0, self.number, 0, self.journal))

    def encode(self) -> bytes:
        """Return the first `HEADER_SIZE` bytes of the file."""
        packed = _HEADER.pack(_MAGIC, _VERSION, self.kind, 0, self.number, self.first, self.journal)
        return packed + _SUM.pack(zlib.crc32(packed))

    @classmethod
    def decode(cls, data: bytes) -> Header:
        """Read what `encode` wrote. Raises `ValueError`, which says what is wrong, for anything else."""
        if len(data) < HEADER_SIZE:
            raise ValueError("its header is not whole")
        magic, version, kind, _, number, first, journal = _HEADER.unpack_from(data)
        if magic != _MAGIC or _SUM.pack(zlib.crc32(data[: _HEADER.size])) != data[_HEADER.size : HEADER_SIZE]:
            raise ValueError("its header is damaged, or it is no file of a journal")
        if version != _VERSION:
            raise OtherVersionError(f"it has version {version} of the format; this grainlike reads version {_VERSION}")
        return cls(Kind(kind), number, first, journal)


class RecordHead(NamedTuple):
    """Header of a payload; one that `ends` is the end of an image, and has none."""

    sequence: int
    length: int
    checksum: int
    ends: bool

    @classmethod
    def decode(cls, data: Buffer, seed: int) -> RecordHead | None:
        """Read the head of a record at the beginning of `data`; None if there is no valid one."""
        if len(data) < HEAD_SIZE:
            return None
        mark, checksum, sequence, length = _HEAD.unpack_from(data)
        if mark not in (MARK, _END) or _SUM.unpack_from(data, _HEAD.size)[0] != zlib.crc32(data[: _HEAD.size], seed):
            return None
        return cls(sequence, length, checksum, mark == _END)


def encode_record(pieces: Sequence[Buffer], sequence: int, seed: int, *, ends: bool = False) -> list[Buffer]:
    """Return a record as pieces to write, in order; the payload's own are passed on, never joined or copied.

    Example::

        os.writev(file, encode_record([b"kind", b"content"], 17, header.seed))
    """
    checksum, length = seed, 0
    for piece in pieces:
        checksum = zlib.crc32(piece, checksum)
        length += len(piece)
    head = _HEAD.pack(_END if ends else MARK, checksum, sequence, length)
    return [head + _SUM.pack(zlib.crc32(head, seed)), *pieces]

"""Bytes in, records out: what was written is read, and nothing else."""

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.journal import _reader
from grainlike.journal._format import (
    HEAD_SIZE,
    HEADER_SIZE,
    MARK,
    Header,
    Kind,
    OtherVersionError,
    RecordHead,
    encode_record,
)
from grainlike.journal._reader import RecordReader, is_zero, valid_record_behind

HEADER = Header(Kind.SEGMENT, 3, 40, b"j" * 16)


def reads(data):
    return lambda offset, size: bytes(data[offset : offset + size])


def encoded(*records, header=HEADER, first=40):
    parts = [b"".join(encode_record([record], first + at, header.seed)) for at, record in enumerate(records)]
    return b"".join([header.encode(), *parts])


def decoded(data, header=HEADER):
    reader = RecordReader(reads(data), len(data), header)
    return list(reader), reader.offset


@pytest.fixture(params=[28, 40, 64, 256 * 1024])
def window(request, monkeypatch):
    """Windows that end inside heads and payloads, and one that holds all."""
    monkeypatch.setattr(_reader, "_WINDOW", request.param)


def test_a_header_comes_back():
    assert len(HEADER.encode()) == HEADER_SIZE
    assert Header.decode(HEADER.encode() + b"more") == HEADER


def test_a_header_with_any_bit_flipped_is_refused():
    for bit in range(8 * HEADER_SIZE):
        data = bytearray(HEADER.encode())
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="damaged"):
            Header.decode(bytes(data))


def test_a_header_of_a_later_version_is_told_from_a_damaged_one():
    data = bytearray(HEADER.encode()[:-4])
    data[8] += 1
    with pytest.raises(OtherVersionError, match="version 2 of the format; this grainlike reads version 1"):
        Header.decode(bytes(data) + zlib.crc32(data).to_bytes(4, "little"))


@pytest.mark.usefixtures("window")
def test_records_come_back_across_windows():
    records = [b"", b"x", b"y" * 27, b"z" * 100, b"", b"w" * 64]
    data = encoded(*records)
    assert decoded(data) == (records, len(data))


@given(st.lists(st.binary(max_size=80)), st.integers(0, 2000))
def test_what_is_cut_anywhere_is_a_prefix(records, cut):
    data = encoded(*records)[: HEADER_SIZE + cut]
    found, end = decoded(data)
    assert found == records[: len(found)]
    assert end == len(encoded(*found))
    assert len(found) == len(records) or end + HEAD_SIZE + len(records[len(found)]) > len(data)


def test_a_record_with_any_bit_flipped_is_none():
    for bit in range(8 * (HEAD_SIZE + 3)):
        data = bytearray(encoded(b"one", b"two"))
        data[HEADER_SIZE + bit // 8] ^= 1 << bit % 8
        assert decoded(data) == ([], HEADER_SIZE), bit


@pytest.mark.parametrize(
    "other",
    [replace(HEADER, kind=Kind.IMAGE), replace(HEADER, number=4), replace(HEADER, journal=b"k" * 16)],
)
def test_a_record_is_valid_in_no_other_file(other):
    assert decoded(encoded(b"one"), header=other) == ([], HEADER_SIZE)


def test_a_record_is_valid_at_no_other_place():
    first, second = (b"".join(encode_record([record], at, HEADER.seed)) for at, record in ((40, b"1"), (41, b"2")))
    header = HEADER.encode()
    assert decoded(header + first + second)[0] == [b"1", b"2"]
    assert decoded(header + second + first)[0] == []
    assert decoded(header + first + first)[0] == [b"1"]


def test_zeros_are_no_record():
    data = encoded(b"one") + bytes(4096)
    assert decoded(data) == ([b"one"], len(data) - 4096)
    assert RecordHead.decode(bytes(HEAD_SIZE), HEADER.seed) is None


def test_a_length_is_compared_with_the_file_before_anything_is_read():
    asked = []
    data = encoded(b"x" * 100)[:-1]

    def read(offset, size):
        asked.append(size)
        return data[offset : offset + size]

    assert list(RecordReader(read, len(data), HEADER)) == []
    assert asked == [_reader._WINDOW]


@pytest.mark.usefixtures("window")
def test_a_valid_record_is_found_behind_a_bad_one():
    data = bytearray(encoded(b"one", MARK * 20, b"three"))
    third = len(data) - HEAD_SIZE - len(b"three")
    data[HEADER_SIZE + HEAD_SIZE + 4] ^= 1  # in the head of the second
    assert valid_record_behind(reads(data), len(data), HEADER, HEADER_SIZE + 1, 41) == third
    data[-1] ^= 1
    assert valid_record_behind(reads(data), len(data), HEADER, HEADER_SIZE + 1, 41) is None


def test_what_is_valid_but_of_earlier_is_not_behind():
    data = encoded(b"one", b"two")
    assert valid_record_behind(reads(data), len(data), HEADER, HEADER_SIZE, 42) is None
    assert valid_record_behind(reads(data), len(data), HEADER, HEADER_SIZE, 41) == HEADER_SIZE + HEAD_SIZE + 3


def test_zeros_are_told_from_what_is_nearly_zero():
    size = 600 * 1024
    assert is_zero(reads(bytes(size)), size)
    assert not is_zero(reads(bytes(size - 1) + b"\1"), size)

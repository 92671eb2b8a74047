"""Inputs of a head as records: what is packed is unpacked, and nothing else is taken for one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grainlike.errors import JournalError
from grainlike.head.durable import _records
from grainlike.head.durable._records import Input, TimeCame, WorkerSaid, pack_input, unpack_input
from grainlike.wire import Credit, Frame, Hello, Leaving, Submit

NUMBERS = st.integers(-(2**63), 2**63)
BY_TYPE = {
    int: NUMBERS,
    int | str: NUMBERS | st.text(),
    list[int]: st.lists(NUMBERS),
    float: st.floats(allow_nan=False),
}


def made(kind):
    """Anything of this kind that msgpack can carry."""
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, **{field.name: BY_TYPE[field.type] for field in fields if field.type in BY_TYPE})


BY_TYPE[Hello] = made(Hello)
INPUTS = st.one_of([made(kind) for kind in Input.__args__])
FRAMES = st.lists(
    st.just(Frame(Leaving("walltime")))
    | st.just(Frame(Credit(1, 2, 3, 4)))
    | st.binary(max_size=200_000).map(
        lambda data: Frame(Submit(1, 1, "", 0, False, [], [1], [0], [b""], []), [data, b"tail"])
    ),
    max_size=4,
)


@given(INPUTS, FRAMES)
def test_what_is_packed_is_unpacked(what, frames):
    record = b"".join(map(bytes, pack_input(what, frames)))
    found, messages = unpack_input(record)
    assert found == what
    assert [(frame.message, list(map(bytes, frame.buffers))) for frame in messages] == [
        (frame.message, list(map(bytes, frame.buffers))) for frame in frames
    ]


def test_every_input_has_a_number_of_its_own():
    kinds = Input.__args__
    tags = {kind.__struct_config__.tag for kind in kinds}
    assert tags == set(range(len(kinds)))
    assert {kind.__name__ for kind in kinds} <= set(_records.__all__)


def test_large_buffers_are_passed_on_and_not_copied():
    data = bytearray(1_000_000)
    pieces = pack_input(TimeCame(1.0), [Frame(Leaving(""), [data])])
    assert any(isinstance(piece, memoryview) and piece.obj is data for piece in pieces)


@pytest.mark.parametrize("cut", [1, 3, 5, 12])
def test_a_record_that_is_cut_is_none(cut):
    record = b"".join(map(bytes, pack_input(WorkerSaid(1.0, 2, 3, 4), [Frame(Leaving("now"))])))
    with pytest.raises(JournalError, match=r"does not know|inside a message"):
        unpack_input(record[:-cut])


def test_bytes_that_are_no_record_are_refused():
    for record in (b"", b"\x00", b"\x04\x00\x00\x00\x91\xcc\xc8\x01", b"\xff\xff\xff\xff"):
        with pytest.raises(JournalError, match="does not know"):
            unpack_input(record)

"""The framing: whatever the chunks, the same frames; over the limit, nothing is allocated."""

from __future__ import annotations

import contextlib
import struct
import subprocess
import sys
import tracemalloc
import typing
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import LIMIT_S

from grainlike.errors import ProtocolError
from grainlike.wire import (
    BATCH_BYTES,
    FROM_CLIENT,
    FROM_UNAUTHENTICATED,
    FROM_WORKER,
    TRUSTED,
    Answer,
    AskHistory,
    AskJobs,
    Assign,
    Beat,
    FrameDecoder,
    FrameLimits,
    Goodbye,
    HeadIs,
    OutcomeIs,
    encode_frame,
    gap_with,
    pack_parcels,
    plain_column,
    unpack_parcels,
)
from grainlike.wire import _frames as wire_frames
from grainlike.wire._base import DATA_TAGS, BaseMessage
from grainlike.wire._data import DataMessage, Gone
from grainlike.wire._messages import AnyMessage

LARGE = bytes(range(256)) * 1024
BLOCK = 1024 * 1024


def flat(message, buffers=()):
    return b"".join(bytes(piece) for piece in encode_frame(message, buffers))


STREAM = [
    (Beat(1), ()),
    (Assign(1, False, [1, 2], [1, 1], [7, 7], [b"a", b"b"], []), ()),
    (Assign(1, True, [3], [1], [7], [b"a"], [2]), (b"small", LARGE)),
    (Beat(2), (b"", b"x")),
    (Beat(3), ()),
]


@given(cuts=st.lists(st.integers(0, 300_000), max_size=12))
def test_frames_do_not_depend_on_how_the_stream_is_cut(cuts):
    stream = b"".join(flat(message, buffers) for message, buffers in STREAM)
    decoder = FrameDecoder(TRUSTED)
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    frames = [frame for a, b in pairwise(edges) for frame in decoder.feed(stream[a:b])]
    assert [frame.message for frame in frames] == [message for message, _ in STREAM]
    assert [[bytes(b) for b in frame.buffers] for frame in frames] == [list(buffers) for _, buffers in STREAM]
    assert decoder.idle


def test_one_byte_at_a_time():
    decoder = FrameDecoder(TRUSTED)
    stream = flat(Beat(5), (b"abc",))
    frames = [frame for i in range(len(stream)) for frame in decoder.feed(stream[i : i + 1])]
    assert [(frame.message, [bytes(b) for b in frame.buffers]) for frame in frames] == [(Beat(5), [b"abc"])]


def test_idle_tells_a_clean_end_from_a_torn_frame():
    decoder = FrameDecoder(TRUSTED)
    stream = flat(Beat(5), (LARGE,))
    decoder.feed(stream[:-1])
    assert not decoder.idle
    decoder.feed(stream[-1:])
    assert decoder.idle


@pytest.mark.parametrize(
    ("garbage", "words"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "over the limit"),
        (struct.pack("<II", 70_000, 0), "header of 70000 bytes"),
        (struct.pack("<II", 10, 1), "1 buffers are over the limit"),
        (struct.pack("<II", 3, 0) + b"\x93\xc1\x00", "not a message"),
        (struct.pack("<II", 2, 0) + b"\x91\x63", "not a message"),
    ],
)
def test_garbage_is_refused(garbage, words):
    with pytest.raises(ProtocolError, match=words):
        FrameDecoder(FROM_UNAUTHENTICATED).feed(garbage)


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        (AskJobs(0, 1, state="a" * 20), AskJobs(0, 1, state="a" * 21)),
        (AskHistory(0, 1, outcomes=["a" * 20] * 16), AskHistory(0, 1, outcomes=["a" * 21])),
        (AskHistory(0, 1), AskHistory(0, 1, outcomes=["failed"] * 17)),
    ],
)
def test_words_in_questions_are_short(kept, refused):
    assert [frame.message for frame in FrameDecoder(FROM_CLIENT).feed(flat(kept))] == [kept]
    with pytest.raises(ProtocolError, match="length <="):
        FrameDecoder(FROM_CLIENT).feed(flat(refused))


def test_declared_totals_are_checked_before_allocation():
    decoder = FrameDecoder(FrameLimits(header=100, buffers=4, total=1000))
    with pytest.raises(ProtocolError, match="a buffer of 4398046511104 bytes is over the limit of 1000"):
        decoder.feed(struct.pack("<IIQ", len(HEADER), 1, 1 << 42) + HEADER)


def test_what_is_only_declared_costs_no_memory():
    decoder = FrameDecoder(TRUSTED)
    header = flat(Beat(1), (b"x",))[16:-1]
    tracemalloc.start()
    try:
        decoder.feed(struct.pack("<IIQ", len(header), 1, 3 * 1024**3) + header + bytes(1000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not decoder.idle
    assert peak < 100_000


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(st.binary(max_size=200) | st.sampled_from([flat(*frame) for frame in STREAM[:2] + STREAM[3:]])),
    limits=st.sampled_from([FROM_UNAUTHENTICATED, FROM_WORKER, TRUSTED]),
)
def test_any_bytes_are_frames_or_a_protocol_error(pieces, limits):
    decoder = FrameDecoder(limits)
    with contextlib.suppress(ProtocolError):
        for piece in pieces:
            for frame in decoder.feed(piece):
                assert len(frame.buffers) <= limits.buffers


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_frames_with_flipped_bytes_are_frames_or_a_protocol_error(data):
    stream = bytearray(b"".join(flat(*frame) for frame in STREAM[:2] + STREAM[3:]))
    for at in data.draw(st.lists(st.integers(0, len(stream) - 1), max_size=8)):
        stream[at] ^= data.draw(st.integers(1, 255))
    decoder = FrameDecoder(TRUSTED)
    with contextlib.suppress(ProtocolError):
        for frame in decoder.feed(stream):
            assert flat(*frame), "what was understood can be said again"


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=40) | st.just(b"z" * 20_000), st.lists(st.binary(max_size=9), max_size=3)
        )
    )
)
def test_parcels_round_trip(parcels):
    data, counts, buffers = pack_parcels(parcels)
    back = unpack_parcels(data, counts, buffers)
    assert [(inband, [bytes(b) for b in out]) for inband, out in back] == parcels


def test_small_parcels_cost_no_counts():
    assert pack_parcels([(b"a", ()), (b"b", ())]) == ([b"a", b"b"], [], [])


def test_parcels_that_are_small_and_alone_are_one_column():
    assert plain_column([(b"a", ()), (b"b", [])]) == [b"a", b"b"]
    most = 16 * 1024
    assert plain_column([(bytes(most), ())]) == [bytes(most)]
    for other in ([(b"a", ()), (b"b", [b"c"])], [(bytes(most + 1), ())], [(bytes(most), ())] * 16):
        assert plain_column(other) is None, "what `pack_parcels` would not leave in one column"


@pytest.mark.parametrize("counts", [[], [1], [1, 0, 0], [2, -1]])
def test_columns_that_do_not_go_with_the_buffers_are_refused(counts):
    with pytest.raises(ProtocolError):
        unpack_parcels([b"a", b"b"], counts, [b"one", b"two"])


def test_who_sent_it_decides_how_much_it_may_hold():
    big = Assign(1, False, [], [], [], [bytes(FROM_WORKER.header)], [])
    for limits in (FROM_UNAUTHENTICATED, FROM_WORKER, FROM_CLIENT):
        with pytest.raises(ProtocolError, match=f"is over the limit of {limits.header}"):
            FrameDecoder(limits).feed(flat(big))
    assert FrameDecoder(TRUSTED).feed(flat(big))[0].message == big
    assert FROM_UNAUTHENTICATED < FROM_WORKER <= TRUSTED
    with pytest.raises(ProtocolError, match="buffers are over the limit"):
        FrameDecoder(FROM_CLIENT).feed(struct.pack("<II", 3, FROM_CLIENT.buffers + 1))


def test_small_payloads_that_are_many_go_beside_the_header():
    parcels = [(bytes([number]) * 16_000, [b"own"]) for number in range(100)]
    data, counts, buffers = pack_parcels(parcels)
    assert sum(map(len, data)) <= BATCH_BYTES < sum(len(inband) for inband, _ in parcels)
    assert len(buffers) > len(parcels)
    assert [(inband, list(out)) for inband, out in unpack_parcels(data, counts, buffers)] == parcels


# --- large buffers, and what passes them -----------------------------------------------------------------------------

BLOCKS = [bytes([number]) * BLOCK for number in range(1, 4)]
TAIL = b"tail"
HEADER = flat(Beat(1), (b"x",))[16:-1]


def large(*gaps: bytes, tail: bytes = TAIL) -> bytes:
    """A frame with one buffer of some blocks and a tail, and these gaps between them."""
    parts = [*BLOCKS[: len(gaps)], tail]
    prefix = struct.pack("<IIQ", len(HEADER), 1, sum(map(len, parts)))
    return prefix + HEADER + b"".join(part for pair in zip(parts, [*gaps, b""], strict=True) for part in pair)


def told(frames):
    return [(frame.message.number, [bytes(buffer) for buffer in frame.buffers]) for frame in frames]


def read_into_rooms(decoder, stream, sizes=()):
    """Feed a stream as a link does that reads into the decoder's room where there is one."""
    sizes, at, frames = iter(sizes), 0, []
    while at < len(stream):
        room = decoder.room()
        most = next(sizes, len(stream))
        if room is None:
            count = min(most, 1000)
            frames += decoder.feed(stream[at : at + count])
        else:
            count = min(most, len(room), len(stream) - at)
            room[:count] = stream[at : at + count]
            del room  # its memory may grow now
            frames += decoder.filled(count)
        at += count
    return frames


def test_a_large_buffer_is_cut_into_blocks_with_gaps_and_not_copied():
    whole = b"".join([*BLOCKS, TAIL])
    pieces = encode_frame(Beat(1), [whole])
    assert b"".join(map(bytes, pieces)) == large(*[gap_with(b"")] * 3)
    assert {id(piece.obj) for piece in pieces if isinstance(piece, memoryview)} == {id(whole)}
    assert len(encode_frame(Beat(1), [whole[:BLOCK]])) == 2


@settings(deadline=None, max_examples=40)
@given(
    gaps=st.lists(st.sampled_from([b"", flat(Beat(7)), flat(Beat(8)) + flat(Beat(9))]), min_size=1, max_size=3),
    tail=st.sampled_from([b"t", b"tai", TAIL, b"longer", bytes(70_000)]),
    cuts=st.lists(
        st.integers(0, 4 * BLOCK)
        | st.builds(lambda block, off: block * (BLOCK + 4) + off, st.integers(1, 3), st.integers(-9, 90)),
        max_size=8,
    ),
    rooms=st.lists(st.integers(1, 2 * BLOCK) | st.integers(1, 6), max_size=20),
    fed=st.booleans(),
)
def test_what_passes_a_large_buffer_comes_first_however_it_is_read(gaps, tail, cuts, rooms, fed):
    stream = flat(Beat(0)) + large(*map(gap_with, gaps), tail=tail) + flat(Beat(2))
    decoder = FrameDecoder(TRUSTED)
    if fed:
        edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
        frames = [frame for a, b in pairwise(edges) for frame in decoder.feed(stream[a:b])]
    else:
        frames = read_into_rooms(decoder, stream, rooms)
    passed = [frame for gap in gaps for frame in FrameDecoder().feed(gap)]
    assert told(frames) == [
        (0, []),
        *told(passed),
        (1, [b"".join([*BLOCKS[: len(gaps)], tail])]),
        (2, []),
    ]
    assert decoder.idle


def test_what_passes_is_handed_on_before_the_buffer_is_whole():
    decoder = FrameDecoder(TRUSTED)
    stream = large(gap_with(flat(Beat(5))))
    assert told(decoder.feed(stream[: -len(TAIL)])) == [(5, [])]
    assert not decoder.idle


@pytest.mark.parametrize(
    ("gap", "words"),
    [
        (gap_with(flat(Beat(5), (b"x",))), "1 buffers are over the limit of 0"),
        (gap_with(flat(Beat(5))[:-1]), "a gap ends inside a frame"),
        (gap_with(b"\x01"), "a gap ends inside a frame"),
        (struct.pack("<I", TRUSTED.header + 9), "16777225 bytes in a gap are over the limit of 16777224"),
        (b"\xff" * 4, "4294967295 bytes in a gap"),
        (gap_with(struct.pack("<II", 3, 0) + b"\x93\xc1\x00"), "not a message"),
    ],
)
def test_gaps_that_hold_anything_but_whole_frames_without_buffers_are_refused(gap, words):
    for read in (FrameDecoder.feed, read_into_rooms):
        with pytest.raises(ProtocolError, match=words):
            read(FrameDecoder(TRUSTED), large(gap))


def test_the_largest_frame_that_anybody_may_send_passes():
    spare = FROM_WORKER.header - len(flat(Goodbye("z" * FROM_WORKER.header))) + 8
    longest = flat(Goodbye("z" * (FROM_WORKER.header + spare)))
    assert len(longest) == FROM_WORKER.header + 8
    frames = FrameDecoder(FROM_WORKER).feed(large(gap_with(longest)))
    assert len(frames) == 2


def test_room_grows_by_a_block_whatever_is_declared():
    decoder = FrameDecoder(TRUSTED)
    decoder.feed(struct.pack("<IIQ", len(HEADER), 1, 3 * 1024**3) + HEADER + bytes(10))
    tracemalloc.start()
    try:
        for block in range(4):
            for count in (BLOCK // 2, BLOCK // 2 + 4 - 10 * (not block)):
                room = decoder.room()
                assert len(room) <= BLOCK + 4
                del room
                decoder.filled(count)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6.5 * BLOCK


def test_there_is_no_room_beyond_the_end():
    decoder = FrameDecoder(TRUSTED)
    assert decoder.room() is None
    stream = large(gap_with(b""), tail=b"ab")
    decoder.feed(stream[:-100])
    assert len(decoder.room()) == 100 - 4 - 2, "the gap does not fit where the tail goes"
    decoder.feed(stream[-100:-6])
    assert decoder.room() is None, "a gap comes next"
    decoder.feed(stream[-6:-2])
    assert len(decoder.room()) == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_large_frames_with_flipped_counts_are_frames_or_a_protocol_error(data):
    stream = bytearray(large(gap_with(b""), gap_with(flat(Beat(5))), gap_with(b"")) + flat(Beat(6)))
    start = len(stream) - len(flat(Beat(6))) - len(TAIL) - 3 * (BLOCK + 4) - len(flat(Beat(5)))
    for _ in range(data.draw(st.integers(1, 3))):
        block = data.draw(st.integers(1, 3))
        at = start + block * (BLOCK + 4) - 4 + data.draw(st.integers(0, 12))
        stream[at] ^= data.draw(st.integers(1, 255))
    for read in (FrameDecoder.feed, read_into_rooms):
        with contextlib.suppress(ProtocolError):
            for frame in read(FrameDecoder(TRUSTED), bytes(stream)):
                assert flat(*frame), "what was understood can be said again"


# --- buffers that are too large to be kept ---------------------------------------------------------------------------


def in_place_of(size, limit):
    return b"%d of %d" % (size, limit)


@settings(deadline=None, max_examples=25)
@given(rooms=st.lists(st.integers(1, 2 * BLOCK), max_size=20), fed=st.booleans(), cut=st.integers(20_000, BLOCK))
def test_what_is_too_large_is_read_and_its_stand_in_comes(rooms, fed, cut):
    sizes = [10, 3 * BLOCK + 7, 900_000, 5_000, 200_000]
    stream = bytearray(flat(Beat(1), [bytes([number]) * size for number, size in enumerate(sizes)]) + flat(Beat(2)))
    decoder = FrameDecoder(FrameLimits(1000, 10, 950_000), in_place_of)
    if fed:
        frames = [frame for at in range(0, len(stream), cut) for frame in decoder.feed(bytes(stream[at : at + cut]))]
    else:
        frames = read_into_rooms(decoder, stream, rooms)
    assert [frame.message for frame in frames] == [Beat(1), Beat(2)]
    first, second, *others = [bytes(buffer) for buffer in frames[0].buffers]
    assert (first, second) == (bytes(10), in_place_of(sizes[1], 950_000))
    assert others == [b"\x02" * 900_000, b"\x03" * 5_000, in_place_of(sizes[4], 950_000)]


def test_what_passes_a_buffer_that_is_not_kept_comes_too():
    stream = large(gap_with(flat(Beat(5))), gap_with(b""), gap_with(flat(Beat(6))))
    for read in (FrameDecoder.feed, read_into_rooms):
        frames = read(FrameDecoder(FrameLimits(1000, 10, 100), in_place_of), stream)
        assert told(frames) == [(5, []), (6, []), (1, [in_place_of(3 * BLOCK + len(TAIL), 100)])]


def test_what_is_not_kept_takes_no_more_memory_than_a_block():
    stream = large(*[gap_with(b"")] * 3)
    decoder = FrameDecoder(FrameLimits(1000, 10, 100), in_place_of)
    decoder.feed(stream[:100])
    view = memoryview(stream)
    tracemalloc.start()
    try:
        at = 100
        while (room := decoder.room()) is not None:
            count = min(len(room), len(stream) - at)
            room[:count] = view[at : at + count]
            at += count
            del room
            frames = decoder.filled(count)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frames) == 1
    assert peak < 1.3 * BLOCK


def test_where_memory_lacks_the_buffer_is_lost_and_not_the_link():
    """In a process of its own, whose memory is limited as a system limits it."""
    program = """
import resource, struct, sys
from grainlike.wire import TRUSTED, Beat, FrameDecoder, encode_frame
from grainlike.wire._large import BLOCK
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 60 * BLOCK, -1))
header = b"".join(encode_frame(Beat(1), [b"x"]))[16:-1]
blocks = 200
prefix = struct.pack("<IIQ", len(header), 1, blocks * BLOCK) + header
ways = {"feed": False, "room": True}
for way, rooms in ways.items():
    decoder = FrameDecoder(TRUSTED, lambda size, limit: b"%d of %d" % (size, limit))
    decoder.feed(prefix)
    block = memoryview(bytes(BLOCK) + bytes(4))
    for number in range(blocks):
        data = block if number < blocks - 1 else block[:BLOCK]
        while data:
            room = decoder.room() if rooms else None
            if room is None:
                frames, count = decoder.feed(data), len(data)
            else:
                count = min(len(room), len(data))
                room[:count] = data[:count]
                del room
                frames = decoder.filled(count)
            data = data[count:]
    print(way, bytes(frames[0].buffers[0]).decode())
    assert decoder.feed(b"".join(encode_frame(Beat(2))))[0].message == Beat(2)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.stdout.split("\n")[:2] == [f"{way} {200 * BLOCK} of 0" for way in ("feed", "room")]


def test_the_union_of_messages_has_every_message_but_those_of_data_links():
    """Type checkers are told of the base class alone, so none of them sees that one was forgotten."""

    def leaves(kind):
        return {leaf for child in kind.__subclasses__() for leaf in leaves(child)} or {kind}

    here = {kind for kind in leaves(BaseMessage) if kind.__module__.startswith("grainlike.")}
    assert here - set(typing.get_args(AnyMessage)) == set(typing.get_args(DataMessage))
    assert {kind.__struct_config__.tag for kind in typing.get_args(DataMessage)} == set(DATA_TAGS)


DECODED = """
import sys
from grainlike.wire import TRUSTED, FrameDecoder
assert "grainlike.wire._questions" not in sys.modules
for frame in FrameDecoder(TRUSTED).feed(sys.stdin.buffer.read()):
    print(frame.message)
"""


def test_a_message_whose_class_nothing_has_loaded_yet_is_decoded():
    """In a process of its own: here all classes are loaded."""
    messages = [AskJobs(1, 2), Beat(1), AskJobs(3, 4)]
    data = b"".join(map(flat, messages))
    done = subprocess.run([sys.executable, "-c", DECODED], input=data, check=True, capture_output=True, timeout=LIMIT_S)
    assert done.stdout.decode().splitlines() == [*map(str, messages)]


def test_a_message_of_a_data_link_is_none_of_a_frame():
    with pytest.raises(ProtocolError, match="not a message"):
        FrameDecoder().feed(flat(Gone()))


def test_an_answer_of_a_later_release_is_read_as_far_as_it_is_known():
    known = HeadIs(1, "c1", "9.0", "3.99", 7, 1.0, 2, 3, {"running": 1})
    row = msgspec.msgpack.decode(msgspec.msgpack.encode(known))
    header = msgspec.msgpack.encode([*row, "a field", {"of": "later"}])
    [frame] = FrameDecoder(TRUSTED).feed(struct.pack("<II", len(header), 0) + header)
    assert frame.message == known
    assert HeadIs.__struct_config__.tag in wire_frames._decoders  # else each makes a decoder of all kinds


def test_each_answer_may_have_fields_at_its_end_that_are_not_known():
    """Outcomes are for programs, which are of the same release as their head."""
    strict = [kind for kind in typing.get_args(Answer) if kind.__struct_config__.forbid_unknown_fields]
    assert strict == [OutcomeIs]

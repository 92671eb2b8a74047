"""Few writes, no copy of what is large, and what is urgent in the middle of that."""

from grainlike.net._writes import CHUNK, Outbox
from grainlike.wire import TRUSTED, Beat, Frame, FrameDecoder, encode_frame

MANY = 3 * 1024 * 1024 + 5


def written(outbox: Outbox) -> list[bytes]:
    """Write all that waits."""
    return [bytes(data) for data in iter(outbox.next, None)]


def numbers(frames: list[Frame]) -> list[int]:
    """The frames are beats."""
    return [frame.message.number for frame in frames if isinstance(frame.message, Beat)]


def test_small_pieces_are_joined_and_large_ones_never_copied() -> None:
    large = bytes(CHUNK + 1)
    outbox = Outbox()
    outbox.add([b"a"])
    outbox.add([b"b", large, b"c"])
    out = list(iter(outbox.next, None))
    assert out[0] == b"ab"
    assert [len(data) for data in out[1:3]] == [CHUNK, 1]
    assert all(isinstance(data, memoryview) and data.obj is large for data in out[1:3])
    assert out[3] == b"c"
    assert not outbox


def test_many_small_frames_leave_in_writes_that_are_not_too_large() -> None:
    outbox = Outbox()
    for _ in range(3000):
        outbox.add([bytes(100)])
    assert [len(data) for data in written(outbox)] == [102_400, 102_400, 95_200]
    for _ in range(1000):
        outbox.add([bytes(1000)])
    outbox.add([b"a", bytes(CHUNK)])
    out = written(outbox)
    assert sum(map(len, out)) == 1_000_001 + CHUNK
    assert max(map(len, out)) < CHUNK + 1000
    assert len(out) == 5


def test_what_is_urgent_passes_in_the_next_gap_and_in_its_order() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    for number in (1, 2):
        outbox.add(encode_frame(Beat(number), [bytes(MANY)]))
    came: list[int] = []
    split_by_bytes = 0
    while (data := outbox.next()) is not None:
        came += numbers(decoder.feed(data))
        split_by_bytes += 1
        if split_by_bytes in {2, 3, 30}:
            outbox.let_pass(encode_frame(Beat(100 + split_by_bytes)))
            assert len(came) < 4
    assert came == [102, 103, 1, 130, 2]
    assert decoder.idle


def test_it_waits_for_no_more_than_a_block() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    outbox.add(encode_frame(Beat(1), [bytes(100 * 1024 * 1024)]))
    first = outbox.next()
    assert first is not None
    decoder.feed(first)
    outbox.let_pass(encode_frame(Beat(2)))
    size = 0
    while data := outbox.next():
        size += len(data)
        if numbers(decoder.feed(data)) == [2]:
            break
    assert size < 1024 * 1024 + CHUNK


def test_what_is_urgent_passes_between_large_frames_without_gaps() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    for number in (1, 2, 3):
        outbox.add(encode_frame(Beat(number), [bytes(500_000)]))
    came = numbers(decoder.feed(outbox.next() or b""))
    outbox.let_pass(encode_frame(Beat(9)))
    came += [number for data in written(outbox) for number in numbers(decoder.feed(data))]
    assert came == [1, 9, 2, 3]


def test_what_is_small_and_was_said_earlier_is_not_passed() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    outbox.add(encode_frame(Beat(1)))
    outbox.add(encode_frame(Beat(2), [bytes(MANY)]))
    outbox.let_pass(encode_frame(Beat(3)))
    assert numbers([frame for data in written(outbox) for frame in decoder.feed(data)]) == [1, 3, 2]


def test_where_nothing_large_is_in_the_way_nothing_is_passed() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    outbox.add(encode_frame(Beat(1)))
    outbox.let_pass(encode_frame(Beat(2)))
    outbox.add(encode_frame(Beat(3), [b"small"]))
    assert numbers([frame for data in written(outbox) for frame in decoder.feed(data)]) == [1, 2, 3]


def test_more_than_goes_into_one_gap_goes_into_the_next_ones() -> None:
    outbox, decoder = Outbox(), FrameDecoder(TRUSTED)
    outbox.add(encode_frame(Beat(0), [bytes(9 * MANY)]))
    first = outbox.next()
    assert first is not None
    decoder.feed(first)
    wide = [number << 60 for number in range(16)] * 1000
    for number in wide:
        outbox.let_pass(encode_frame(Beat(number)))
    batches = [batch for data in written(outbox) if (batch := numbers(decoder.feed(data)))]
    assert [number for batch in batches for number in batch] == [*wide, 0]
    assert len(batches) > 3


def test_after_clear_nothing_is_left() -> None:
    outbox = Outbox()
    outbox.add(encode_frame(Beat(1), [bytes(MANY)]))
    assert outbox.next()
    outbox.let_pass(encode_frame(Beat(2)))
    outbox.clear()
    assert not outbox
    assert outbox.next() is None
    outbox.let_pass(encode_frame(Beat(3)))
    assert len(written(outbox)) == 1

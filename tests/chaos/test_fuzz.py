"""What is read from outside, changed at random: it is taken, or refused in the way that was promised, and nothing else.

Sized by the environment: `GRAINLIKE_TEST_FUZZ` inputs for each reader, and 200 000 at least for the decoder of frames,
drawn from `GRAINLIKE_TEST_SEED`. A failure shows its input. The journal's files have tests of their own.
"""

import os
import random
import resource
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from grainlike import Cores, Memory, parse
from grainlike.errors import AuthenticationError, JournalError, ProtocolError, ResourceSpecError
from grainlike.head.durable._records import TimeCame, WorkerDoubted, WorkerSaid, pack_input, unpack_input
from grainlike.head.durable._schema import records
from grainlike.head.durable._snapshot import read_title
from grainlike.journal import draw_image, read_image
from grainlike.net import find_access, make_credentials, parse_address, read_access, write_access
from grainlike.net._access import Access
from grainlike.resources import parse_allocation
from grainlike.wire import TRUSTED, Beat, Credit, Frame, FrameDecoder, Leaving, Submit, encode_frame

COUNT = int(os.environ.get("GRAINLIKE_TEST_FUZZ", "1500"))
FRAMES_COUNT = max(COUNT, 200_000)
"""How many for the decoder of frames, to which a peer has the shortest way."""

TRACED = 1500
"""For so many of each reader's inputs every byte of memory is counted, which takes five times as long."""

SEED = int(os.environ.get("GRAINLIKE_TEST_SEED", "1"))
MOST_MEMORY = 64 * 1024 * 1024
"""What reading something small may take at most, whatever it declares."""

EXTREMES = [
    b"\xff" * 4,
    b"\xff" * 8,
    b"\x00" * 8,
    b"\x7f" + b"\xff" * 7,
    b"\x80" * 4,
    b"\xdd\xff\xff\xff\xff",
    b"\xc1",
    b"\x91" * 3000,
]


def mutated(dice: random.Random, sample: bytes, others: list[bytes]) -> bytes:
    """A sample after a few changes, of the kinds that find mistakes."""
    data = bytearray(sample)
    for _ in range(dice.choice([1, 1, 2, 4, 16])):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(7):
            case 0:
                data[at : at + 1] = dice.randbytes(1)
            case 1:
                del data[at : at + dice.choice([1, 4, 30])]
            case 2:
                data[at:at] = dice.randbytes(dice.choice([1, 4, 30]))
            case 3:
                extreme = dice.choice(EXTREMES)
                data[at : at + len(extreme)] = extreme
            case 4:
                data[at:at] = data[at : at + 40]
            case 5:
                data[at:] = dice.choice(others)[at:]
            case 6 if data:
                data[at % len(data)] ^= 1 << dice.randrange(8)
    return bytes(data)


@contextmanager
def traced() -> Iterator[None]:
    """Count this process's memory."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@contextmanager
def bounded() -> Iterator[None]:
    """Let this process take no more than `MOST_MEMORY` beyond what it has: it gets a `MemoryError` instead."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def shake(read, refusals, samples, count=COUNT):
    """Read changed samples; return how many were taken."""
    dice = random.Random(SEED)
    taken = 0

    def take(number):
        data = mutated(dice, dice.choice(samples), samples)
        try:
            read(data)
        except refusals:
            return data, False
        except BaseException as error:
            raise AssertionError(f"input {number} of seed {SEED}: {data!r}") from error
        return data, True

    with traced():
        for number in range(min(count, TRACED)):
            tracemalloc.reset_peak()
            data, was_taken = take(number)
            taken += was_taken
            assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY, f"input {number} of seed {SEED}: {data!r}"
    with bounded():
        taken += sum(take(number)[1] for number in range(TRACED, count))
    print(f"{count} inputs, of which {taken} were taken")
    return taken


def frame(message, buffers=()):
    return b"".join(map(bytes, encode_frame(message, buffers)))


FRAMES = [
    frame(Beat(1)),
    frame(Leaving("walltime")) + frame(Credit(1, 2, 3, 4)),
    frame(Submit(1, 1, "cores=1", 0, False, [], [1], [0], [b"data"], []), [b"x" * 100, b"tail"]),
]


def decoded(pieces):
    """What a decoder makes of pieces, and why it stopped, if it did; anything held is let go."""
    decoder = FrameDecoder(TRUSTED)
    found = []
    try:
        for piece in pieces:
            found += [(one.message, [bytes(buffer) for buffer in one.buffers]) for one in decoder.feed(piece)]
    except ProtocolError:
        return found, True
    return found, False


def test_frames_are_the_same_however_they_come_in_pieces():
    dice = random.Random(SEED + 1)

    def read(data):
        cuts = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(5)))
        pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        whole, in_pieces = decoded([data]), decoded([piece for piece in pieces if piece])
        assert whole[1] == in_pieces[1]
        # Before it refuses, one that gets all at once may have told of fewer.
        assert whole[0] == in_pieces[0] or (whole[1] and whole[0] == in_pieces[0][: len(whole[0])])
        if whole[1]:
            raise ProtocolError("refused")

    assert 0 < shake(read, ProtocolError, FRAMES, FRAMES_COUNT) < FRAMES_COUNT


def test_a_record_of_a_journal_is_an_input_or_is_refused():
    records = [
        b"".join(map(bytes, pack_input(what, frames)))
        for what, frames in [
            (TimeCame(1.0), []),
            (WorkerDoubted(1.5, 1, "it is silent", False), []),
            (WorkerSaid(2.0, 1, 3, 4), [Frame(Leaving("now")), Frame(Credit(1, 2, 3, 4))]),
        ]
    ]
    assert 0 < shake(unpack_input, JournalError, records) < COUNT


def test_an_image_makes_plain_objects_or_is_refused():
    things = {"request": Cores(2) & Memory("1G"), "slots": parse_allocation("cores=[0,1]"), 7: [{1, 2}, (3, None)]}
    images = [b"".join(draw_image(part, records())) for part in (things, list(things.values()), [1.5, "x"])]
    assert 0 < shake(lambda data: read_image([data], records(), {}), JournalError, images) < COUNT


def test_the_title_of_an_image_is_one_or_is_refused():
    title = msgspec.msgpack.encode([1.0, [0, 0.0, 7, "0.1.0", "state"]])
    shake(read_title, JournalError, [title, title[:-3]])


def test_an_access_file_is_one_or_is_refused(tmp_path: Path):
    path = tmp_path / "town" / "worker.json"
    credentials = make_credentials("quiet-town")["worker"]
    samples = []
    for access in (
        Access("quiet-town", "worker", (parse_address("tcp://127.0.0.1:7"),), credentials),
        Access("quiet-town", "worker", (parse_address("unix:///tmp/x"),)),
    ):
        write_access(access, path)
        samples.append(path.read_bytes())

    def read(data):
        path.write_bytes(data)
        assert find_access(path) == read_access(path)

    assert 0 < shake(read, (ValueError, AuthenticationError), samples) < COUNT


TEXTS = ["cores=4 memory=16Gi gpus=2", "nodes=2(cores=1) limit:one=1", "cores=[0,1,7] licence=1 | rate:x=2.5", "2c"]


@pytest.mark.parametrize("read", [parse, parse_allocation])
def test_the_text_of_resources_is_one_or_is_refused(read):
    def read_text(data):
        read(data.decode(errors="replace"))

    assert shake(read_text, ResourceSpecError, [text.encode() for text in TEXTS]) < COUNT


def test_an_address_is_one_or_is_refused():
    samples = [b"tcp://127.0.0.1:7777", b"tcp://[::1]:0", b"unix:///run/x/y"]
    assert 0 < shake(lambda data: parse_address(data.decode(errors="replace")), ValueError, samples) < COUNT

"""What a head is told, as records: what came from whom, and when. Read again in order they make the same head.

A record is an input and the messages that came with it, as they travel::

    u32 length of the input | input (msgpack) | frames
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import msgspec

from grainlike.errors import JournalError, ProtocolError
from grainlike.wire import TRUSTED, Buffer, Frame, FrameDecoder, Hello, Software, encode_frame

__all__ = [
    "AllWent",
    "ClientCame",
    "ClientRefused",
    "ClientSaid",
    "ClientWent",
    "HeadBegan",
    "Input",
    "JobStopped",
    "RecordsMissing",
    "StartsHeld",
    "TimeCame",
    "WorkerCame",
    "WorkerDoubted",
    "WorkerReturned",
    "WorkerSaid",
    "WorkerTold",
    "WorkerWent",
    "WorkersSentOff",
    "pack_input",
    "unpack_input",
]

_LENGTH = struct.Struct("<I")


class _Input(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """`now` is the moment on the clock of the mind."""

    now: float


class HeadBegan(_Input, frozen=True, tag=0):
    """The first of all: `seed` decides all chance. `version` is grainlike's, and `books` how it keeps them.

    `software` is what functions and arguments were pickled with.
    """

    seed: int
    version: str
    books: str
    software: Software


class WorkerCame(_Input, frozen=True, tag=1):
    """A worker was let in, by this name, from this machine; `number` is what it is called here."""

    number: int
    name: str
    host: str
    hello: Hello
    offer: str


class WorkerSaid(_Input, frozen=True, tag=2):
    """Messages came from a worker.

    `received` counts all that ever came from it, those too that change nothing and are not kept; `heard` how many of
    ours it had said that it has.
    """

    worker: int
    received: int
    heard: int


class WorkerTold(_Input, frozen=True, tag=3):
    """A worker was told something that follows from no input: it is numbered with all that it is told."""

    worker: int


class WorkerDoubted(_Input, frozen=True, tag=4):
    """A worker is silent, or its link broke."""

    worker: int
    why: str
    broke: bool


class WorkerReturned(_Input, frozen=True, tag=5):
    """It is heard again."""

    worker: int


class WorkerWent(_Input, frozen=True, tag=6):
    """A worker was given up, or is gone."""

    worker: int
    reason: str


class ClientCame(_Input, frozen=True, tag=7):
    """A client was let in."""

    number: int
    host: str
    hello: Hello


class ClientSaid(_Input, frozen=True, tag=8):
    """Messages about jobs came from a client; see `WorkerSaid`."""

    client: int
    received: int
    heard: int


class ClientWent(_Input, frozen=True, tag=9):
    """A client was given up, or is gone."""

    client: int


class JobStopped(_Input, frozen=True, tag=10):
    """Somebody ended a job for everybody."""

    job: int


class WorkersSentOff(_Input, frozen=True, tag=15):
    """Somebody asked these workers to end, with their jobs or after them."""

    workers: list[int]
    kill: bool


class TimeCame(_Input, frozen=True, tag=11):
    """The moment came that the mind had asked for."""


class ClientRefused(_Input, frozen=True, tag=13):
    """A client wanted jobs, and was told why there will be none; see `WorkerSaid`. `full`: of its session, there is no
    room for more outcomes.
    """

    client: int
    received: int
    heard: int
    why: str
    full: bool = False


class StartsHeld(_Input, frozen=True, tag=16):
    """No job is started from here on, because of `why`; without a reason they are again."""

    why: str


class AllWent(_Input, frozen=True, tag=14):
    """The head has ended its work, and all connections."""


class RecordsMissing(_Input, frozen=True, tag=12):
    """What was told before this is not all written down: it counts only behind an image that has it."""


Input = (
    HeadBegan
    | WorkerCame
    | WorkerSaid
    | WorkerTold
    | WorkerDoubted
    | WorkerReturned
    | WorkerWent
    | ClientCame
    | ClientSaid
    | ClientWent
    | JobStopped
    | WorkersSentOff
    | TimeCame
    | RecordsMissing
    | ClientRefused
    | AllWent
    | StartsHeld
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Input] = msgspec.msgpack.Decoder(Input)


def pack_input(what: Input, frames: Iterable[Frame] = ()) -> list[Buffer]:
    """The pieces of a record. Large buffers are passed on, never joined or copied."""
    head = _encoder.encode(what)
    pieces: list[Buffer] = [_LENGTH.pack(len(head)) + head]
    for message, buffers in frames:
        pieces += encode_frame(message, buffers)
    return pieces


def unpack_input(record: Buffer) -> tuple[Input, Sequence[Frame]]:
    """What a record says. Raises `JournalError` for what is none."""
    view = memoryview(record)
    try:
        (length,) = _LENGTH.unpack_from(view)
        start = _LENGTH.size
        what = _decoder.decode(view[start : start + length])
        decoder = FrameDecoder(TRUSTED)
        frames = decoder.feed(view[start + length :])
    except (struct.error, msgspec.DecodeError, UnicodeDecodeError, ProtocolError) as error:
        raise JournalError(f"a record that this grainlike does not know: {error}") from None
    if not decoder.idle:
        raise JournalError("a record ends inside a message")
    return what, frames

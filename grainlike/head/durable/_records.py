"""Journal records: the inputs of a head, from whom and when. Replayed in order they restore the same head.

A record is an input and the messages that came with it, as they travel::

    u32 length of the input | input (msgpack) | frames

Both fall under the schema of the journal (`_schema`). A last field with a default may be added to an input or a message
without raising that: records of before are read with the default, and an older release refuses records that have more.
Tags are never used again. `HeadBegan` and `WrittenBy`, from which a reader learns the schema, never change otherwise.
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
    "WorkerTimeTold",
    "WorkerTold",
    "WorkerWent",
    "WorkersSentOff",
    "WrittenBy",
    "pack_input",
    "unpack_input",
]

_LENGTH = struct.Struct("<I")


class _Input(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Input of a head; `now` is its moment on the scheduler's clock."""

    now: float


class HeadBegan(_Input, frozen=True, tag=0, forbid_unknown_fields=False):
    """Record: a head began. `seed` decides all chance; `version` of grainlike wrote what follows, in this `schema`.

    `software` is what functions and arguments were pickled with. Before schemas had numbers, `schema` was a text.
    """

    seed: int
    version: str
    schema: int | str
    software: Software


class WorkerCame(_Input, frozen=True, tag=1):
    """Record: a worker was admitted, by this name, from this machine; `number` is its number here."""

    number: int
    name: str
    host: str
    hello: Hello
    offer: str


class WorkerSaid(_Input, frozen=True, tag=2):
    """Record: messages came from a worker.

    `received` counts all that ever came from it, those too that change nothing and are not kept; `heard` how many of
    ours it had acknowledged.
    """

    worker: int
    received: int
    heard: int


class WorkerTold(_Input, frozen=True, tag=3):
    """Record: a worker was sent something that follows from no input; it is numbered with all its messages."""

    worker: int


class WorkerDoubted(_Input, frozen=True, tag=4):
    """A worker is silent, or its link broke."""

    worker: int
    why: str
    broke: bool


class WorkerReturned(_Input, frozen=True, tag=5):
    """Record: a suspect worker has sent something again."""

    worker: int


class WorkerWent(_Input, frozen=True, tag=6):
    """Record: a worker left or was given up."""

    worker: int
    reason: str


class ClientCame(_Input, frozen=True, tag=7):
    """Record: a client was admitted."""

    number: int
    host: str
    hello: Hello


class ClientSaid(_Input, frozen=True, tag=8):
    """Record: messages about jobs came from a client; as `WorkerSaid`."""

    client: int
    received: int
    heard: int


class ClientWent(_Input, frozen=True, tag=9):
    """Record: a client left or was given up."""

    client: int


class JobStopped(_Input, frozen=True, tag=10):
    """Record: a job was cancelled for all its awaiters."""

    job: int


class WorkersSentOff(_Input, frozen=True, tag=15):
    """Record: these workers were asked to exit, with their jobs (`kill`) or after them."""

    workers: list[int]
    kill: bool


class WorkerTimeTold(_Input, frozen=True, tag=18):
    """Record: a worker was told how long it has left."""

    worker: int
    left_s: float
    grace_s: float


class TimeCame(_Input, frozen=True, tag=11):
    """Record: the tick came that the scheduler had asked for."""


class ClientRefused(_Input, frozen=True, tag=13):
    """Record: a client's jobs were refused, for the reason `why`; counts as of `WorkerSaid`. `full`: its session has
    no room for more outcomes.
    """

    client: int
    received: int
    heard: int
    why: str
    full: bool = False


class StartsHeld(_Input, frozen=True, tag=16):
    """Record: no job is started from here on, because of `why`; an empty reason resumes."""

    why: str


class AllWent(_Input, frozen=True, tag=14):
    """The head has ended its work, and all connections."""


class WrittenBy(_Input, frozen=True, tag=17, forbid_unknown_fields=False):
    """Record: what follows was written by this `version` of grainlike, in this `schema`.

    `calendar` is how many seconds `time.time()` is ahead of the scheduler's clock; 0 if it was not said. There is
    another record when that has changed: clocks are set, and the scheduler's stands still while its machine is off.
    """

    version: str
    schema: int
    calendar: float = 0.0


class RecordsMissing(_Input, frozen=True, tag=12):
    """Record: inputs before this are not all journaled, so it counts only after a snapshot that has them."""


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
    | WorkerTimeTold
    | TimeCame
    | RecordsMissing
    | ClientRefused
    | AllWent
    | StartsHeld
    | WrittenBy
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Input] = msgspec.msgpack.Decoder(Input)


def pack_input(what: Input, frames: Iterable[Frame] = ()) -> list[Buffer]:
    """Return the pieces of a record. Large buffers are passed on, never joined or copied."""
    head = _encoder.encode(what)
    pieces: list[Buffer] = [_LENGTH.pack(len(head)) + head]
    for message, buffers in frames:
        pieces += encode_frame(message, buffers)
    return pieces


def unpack_input(record: Buffer) -> tuple[Input, Sequence[Frame]]:
    """Decode a record. Raises `JournalError` for what is none."""
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

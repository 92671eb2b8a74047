"""Messages of data servers: between two of them, over connections of their own, and from a worker's daemon to its own.

::

    the end that connects    Want  ──>
                             <──  Here, and then bytes; Gone; or Busy    the end that has the replica

Each is a frame without buffers (`_frames`) with a header of at most 1 KiB. The bytes follow `Here` as they are: nothing
else travels on such a connection, so there are no gaps in which anything could pass.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import msgspec

from grainlike.errors import ProtocolError
from grainlike.wire._base import BaseMessage
from grainlike.wire._values import PullReplica

__all__ = [
    "Busy",
    "DataMessage",
    "DataSetup",
    "Gone",
    "Here",
    "PullInto",
    "Received",
    "Want",
    "encode_data",
    "read_data",
]

_PREFIX = struct.Struct("<II")
_HEADER_MOST = 1024


class Want(BaseMessage, frozen=True, tag=180):
    """Send the bytes of this attempt's replica of a value, from byte `at` on; `name` proves that the head said so."""

    name: bytes
    value: int
    attempt: int
    at: int


class Here(BaseMessage, frozen=True, tag=181):
    """The bytes of a replica follow, from where they were wanted to the end; `size` is that of the whole replica."""

    size: int


class Gone(BaseMessage, frozen=True, tag=182):
    """There is no such replica; nor is there for a name that is wrong."""


class Busy(BaseMessage, frozen=True, tag=183):
    """Too many are sent just now: ask again later."""


DataMessage = Want | Here | Gone | Busy


class DataSetup(BaseMessage, frozen=True, tag=184):
    """Daemon to its data server, first of all: the worker's credentials in its cluster, its directory of replicas, the
    secret of their names, and the seconds without a byte after which a source counts as unreachable.
    """

    cluster: str
    authority: str
    certificate: str
    key: str
    replicas: str
    data_key: bytes
    patience_s: float

    def __repr__(self) -> str:
        return f"DataSetup({self.cluster!r}, ...)"  # the rest is secret, or tells nothing


class PullInto(BaseMessage, frozen=True, tag=195):
    """Daemon to its data server: get a replica into the file `room`, which is allocated for it; answered by `Received`
    or `Unsent`.
    """

    order: PullReplica
    room: str


class Received(BaseMessage, frozen=True, tag=196):
    """Data server to its daemon: all bytes of a replica are in its room; `crc` is their CRC-32, if that is on disk."""

    transfer: int
    crc: int


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[DataMessage] = msgspec.msgpack.Decoder(DataMessage)


def encode_data(message: DataMessage) -> bytes:
    """Return the bytes of a message.

    >>> encode_data(Gone())
    b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x91\\xcc\\xb6'
    """
    header = _encoder.encode(message)
    return _PREFIX.pack(len(header), 0) + header


def read_data(read: Callable[[int], bytes]) -> DataMessage:
    """Return the next message; `read(n)` returns exactly so many bytes of the connection, or raises.

    Raises:
        ProtocolError: what came is no such message.

    >>> import io
    >>> read_data(io.BytesIO(encode_data(Here(7))).read)
    Here(size=7)
    """
    header, buffers = _PREFIX.unpack(read(_PREFIX.size))
    if not 0 < header <= _HEADER_MOST or buffers:
        raise ProtocolError(f"a header of {header} bytes with {buffers} buffers is none of a data server's")
    try:
        return _decoder.decode(read(header))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"a header that is not a data server's message: {error}") from None

"""Frames: a length-prefixed header and opaque buffers, with limits checked before anything is allocated.

Layout, all integers little-endian::

    u32 header length | u32 number of buffers | u64 length of each buffer | header (msgpack) | buffers

A buffer of more than a block has gaps in which frames without buffers pass (`_large`), such as heartbeats and answers,
so that no large value delays them.

The decoder is fed whatever a socket gives and returns whole frames. Small frames are cut out of one joined piece; a
large buffer gets memory of its own, which grows as bytes arrive: a length that a peer only declares costs nothing. A
transport that can read into a given buffer (`room`) reads straight into that memory.

The limits of a frame depend on its sender. The header is what becomes Python objects, at worst some tens of bytes for
each of its bytes, so it is limited tightly for senders that are not fully trusted. Senders cut their batches to a
quarter of that limit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from grainlike.errors import ProtocolError
from grainlike.wire._base import DATA_TAGS, BaseMessage, Message
from grainlike.wire._large import BLOCK, Buffer, LargeBuffer, blocks

__all__ = [
    "FROM_CLIENT",
    "FROM_UNAUTHENTICATED",
    "FROM_WORKER",
    "TRUSTED",
    "Frame",
    "FrameDecoder",
    "FrameLimits",
    "encode_frame",
    "new_frame",
]

_PREFIX = struct.Struct("<II")
_LENGTH_SIZE = 8
_LARGE = 64 * 1024


def _as_plain(value: object) -> object:
    """Return a number or string of a subclass, as NumPy's `float64` is of `float`, as the plain value it extends."""
    match value:  # by the methods of the built-ins: a subclass may have others
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes():
            return bytes.__bytes__(value)
    raise TypeError(f"{type(value).__name__} {value!a} cannot be part of a message")


_encoder = msgspec.msgpack.Encoder(enc_hook=_as_plain)

_LONG_ARRAY, _WIDE_TAG = 0xDC, 0xCC
"""Bytes of msgpack: the next two are the length of an array of 16 or more, the next one is a number of 128 or more."""


class _DecodersByTag(dict[int, Callable[[bytes], Message]]):
    """Decoders of the kinds of messages that have come to this process: to make those of all kinds takes 8 ms, which
    every command, daemon and runner would pay at its start, and none hears a third of them.
    """

    def __missing__(self, tag: int) -> Callable[[bytes], Message]:
        kind = _kind_of(tag)
        if kind is None:
            # Of a module that nothing here has loaded, or of no kind: then this says what is wrong with it.
            from grainlike.wire._messages import AnyMessage

            return msgspec.msgpack.Decoder(AnyMessage).decode
        self[tag] = msgspec.msgpack.Decoder(kind).decode
        return self[tag]


def _kind_of(tag: int) -> type[Message] | None:
    """Return the class of messages with this tag, among those that are loaded."""
    kinds = () if tag in DATA_TAGS else _below(BaseMessage)
    return next((kind for kind in kinds if kind.__struct_config__.tag == tag), None)


def _below(base: type[Message]) -> Iterator[type[Message]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _below(kind)


_decoders = _DecodersByTag()


class Frame(NamedTuple):
    """A message and its buffers."""

    message: Message
    buffers: Sequence[Buffer] = ()


new_frame: Callable[[tuple[Message, Sequence[Buffer]]], Frame] = partial(tuple.__new__, Frame)
"""Makes a frame as its class does, in C alone: there is one for each message."""


class FrameLimits(NamedTuple):
    """The most that a peer may declare: bytes of header, number of buffers; and bytes of all buffers together, beyond
    which they are read and dropped.
    """

    header: int
    buffers: int
    total: int


FROM_UNAUTHENTICATED = FrameLimits(header=64 * 1024, buffers=0, total=0)
"""For a peer before its `Welcome`: a handshake message, which may list some thousand ids, and no more."""

_ANY = 2**63

FROM_WORKER = FrameLimits(header=1024 * 1024, buffers=16_384, total=_ANY)
"""For a head that receives from a worker: reports of many jobs, and results as large as its memory allows."""

FROM_CLIENT = FrameLimits(header=1024 * 1024, buffers=16_384, total=_ANY)
"""For a head that receives from a client: many jobs, and arguments as large as its memory allows."""

TRUSTED = FrameLimits(header=16 * 1024 * 1024, buffers=65_536, total=_ANY)
"""For a peer that is trusted anyway: the head, for its workers and clients; a worker and its runners, for each
other.
"""


StandIn = Callable[[int, int], bytes]
"""Returns what replaces a buffer that was not kept, given its size and the limit; a limit of 0 means that memory was
short.
"""


def _refuse(size: int, limit: int) -> bytes:
    raise ProtocolError(f"a buffer of {size} bytes is over the limit of {limit}")


def encode_frame(message: Message, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the pieces to write, in order. Large buffers are passed on, never joined or copied."""
    header = _encoder.encode(message)
    if not buffers:
        return [_PREFIX.pack(len(header), 0) + header]
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    lengths = struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
    pieces: list[Buffer] = [_PREFIX.pack(len(header), len(views)) + lengths + header]
    for view in views:
        if view.nbytes <= BLOCK:
            pieces.append(view)
        else:
            pieces.extend(blocks(view))
    return pieces


class FrameDecoder:
    """Turns a stream of bytes into frames. After a `ProtocolError` it cannot be used any more.

    A buffer that is too large to be kept is no such error if there is a `stand_in` for it: it concerns its job alone.

    Example::

        decoder = FrameDecoder(TRUSTED)
        for frame in decoder.feed(chunk):
            handle(frame.message, frame.buffers)
    """

    __slots__ = (
        "_done",
        "_instead",
        "_left",
        "_lengths",
        "_limits",
        "_message",
        "_needed",
        "_pending",
        "_stand_in",
        "filling",
    )

    def __init__(self, limits: FrameLimits = FROM_UNAUTHENTICATED, stand_in: StandIn = _refuse) -> None:
        self._limits = limits
        self._stand_in = stand_in
        self._instead: bytes | None = None
        """The replacement of the large buffer under way, if that is not kept."""
        self._left = 0
        """Number of bytes of buffers that may still be kept of this frame."""
        self._pending = bytearray()
        self._message: Message | None = None
        self._needed = _PREFIX.size
        self._lengths: list[int] = []
        self._done: list[Buffer] = []
        self.filling: LargeBuffer | None = None
        """The large buffer that is being received."""

    @property
    def limits(self) -> FrameLimits:
        """Limits of what the peer may declare; raised once the peer has authenticated."""
        return self._limits

    @limits.setter
    def limits(self, limits: FrameLimits) -> None:
        self._limits = limits

    @property
    def idle(self) -> bool:
        """True between frames: an end of stream here loses nothing."""
        return not self._pending and self._message is None

    def feed(self, data: Buffer) -> list[Frame]:
        """Add received bytes; return the frames that are now complete."""
        frames: list[Frame] = []
        view = memoryview(data)
        if not self._pending and self._message is None and self.filling is None:
            view = self._cut_whole(view, frames)
            if not view:
                return frames
        while True:
            if self.filling is not None:
                view = self.filling.feed(view)
                self._look_at(self.filling, frames)
                if self.filling is not None:
                    return frames
            self._pending += view
            view = memoryview(b"")
            while self._cut(frames):
                pass
            if self.filling is None:
                return frames
            view, self._pending = memoryview(bytes(self._pending)), bytearray()

    def _cut_whole(self, data: memoryview, frames: list[Frame]) -> memoryview:
        """Cut the frames without buffers with which `data` begins, as nearly all reads do; return the rest."""
        at, size, most = 0, len(data), self._limits.header
        while size - at >= _PREFIX.size:
            header, count = _PREFIX.unpack_from(data, at)
            end = at + _PREFIX.size + header
            if count or header > most or end > size:
                break
            frames.append(new_frame((_decode(bytes(data[at + _PREFIX.size : end])), [])))
            at = end
        return data[at:]

    def room(self) -> memoryview | None:
        """Return memory for the next read, to save a copy; call `filled` after it. None: read anywhere, and call
        `feed`.

        Release the view before any call except `filled`.
        """
        return None if self.filling is None else self.filling.room()

    def filled(self, count: int) -> list[Frame]:
        """Add `count` bytes that were read into `room`; return the frames that are now complete."""
        frames: list[Frame] = []
        assert self.filling is not None
        self.filling.filled(count)
        self._look_at(self.filling, frames)
        while self.filling is None and self._cut(frames):
            pass
        return frames

    def _look_at(self, large: LargeBuffer, frames: list[Frame]) -> None:
        """Take the frames that passed in gaps of the large buffer, and the buffer itself if it is complete."""
        if large.passed:
            for passed in large.passed:
                frames += self._apart(passed)
            large.passed.clear()
        if large.whole:
            size = self._lengths[len(self._done)]
            self._done.append(large.data if large.kept else self._instead or self._stand_in(size, 0))
            self.filling = None

    def _apart(self, passed: bytes) -> list[Frame]:
        """Return the frames that passed in a gap. They have no buffers, or there would be gaps within gaps."""
        decoder = FrameDecoder(FrameLimits(self._limits.header, 0, 0))
        frames = decoder.feed(passed)
        if not decoder.idle:
            raise ProtocolError("a gap ends inside a frame")
        return frames

    def _cut(self, frames: list[Frame]) -> bool:
        """Cut one header or one frame's small buffers out of the pending bytes; return False if more bytes are
        needed.
        """
        if self._message is None and not self._cut_header():
            return False
        while len(self._done) < len(self._lengths):
            length = self._lengths[len(self._done)]
            if length <= min(len(self._pending), BLOCK):
                self._done.append(self._in_place_of(length) or bytes(self._pending[:length]))
                del self._pending[:length]
            elif length < _LARGE:
                return False
            else:
                self._instead = self._in_place_of(length)
                most = self._limits.header + _PREFIX.size
                self.filling = LargeBuffer(length, most, kept=self._instead is None)
                return False
        assert self._message is not None
        frames.append(new_frame((self._message, self._done)))
        self._message, self._lengths, self._done = None, [], []
        return bool(self._pending)

    def _in_place_of(self, length: int) -> bytes | None:
        """Return the replacement of the next buffer; None if it is kept."""
        if length > self._left:
            return self._stand_in(length, self._limits.total)
        self._left -= length
        return None

    def _cut_header(self) -> bool:
        pending = self._pending
        if len(pending) < self._needed:
            return False
        header, count = _PREFIX.unpack_from(pending)
        if header > self._limits.header:
            raise ProtocolError(f"a header of {header} bytes is over the limit of {self._limits.header}")
        if count > self._limits.buffers:
            raise ProtocolError(f"{count} buffers are over the limit of {self._limits.buffers}")
        start = _PREFIX.size + _LENGTH_SIZE * count
        if len(pending) < start:
            self._needed = start
            return False
        lengths = list(struct.unpack_from(f"<{count}Q", pending, _PREFIX.size)) if count else []
        end = start + header
        if len(pending) < end:
            self._needed = end  # of a header that comes byte by byte, the lengths are not unpacked for every byte
            return False
        self._needed = _PREFIX.size
        self._message = _decode(bytes(pending[start:end]))
        self._lengths, self._left = lengths, self._limits.total
        del pending[:end]
        return True


def _decode(header: bytes) -> Message:
    try:
        at = 3 if header[0] == _LONG_ARRAY else 1
        return _decoders[header[at + 1] if header[at] == _WIDE_TAG else header[at]](header)
    except (msgspec.DecodeError, UnicodeDecodeError, IndexError) as error:
        raise ProtocolError(f"a header that is not a message: {error}") from None

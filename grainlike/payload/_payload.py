"""Payload of a message: one pickle stream, and the large buffers that stay out of it; and the stand-in for a part of it
that a process on its way could not hold.
"""

import struct
from collections.abc import Callable
from pickle import PickleBuffer
from typing import Any, NamedTuple, TypeAlias

from grainlike._memory import copied
from grainlike.errors import SerializationError

__all__ = ["INLINE_LIMIT", "Buffer", "Payload", "refuse_stand_in", "stand_in"]

Buffer: TypeAlias = bytes | bytearray | memoryview

INLINE_LIMIT = 8192
"""Bytes below which a buffer stays inside the stream, because copying it costs less than framing it."""


_apart: Callable[[Buffer], Any] = PickleBuffer
"""Wraps a buffer for pickle, which then keeps it outside the stream; before that, it is a buffer like others."""


class Payload(NamedTuple):
    """Bytes of an object: `data`, the pickle stream, and `buffers`, in the order in which the stream asks for them.

    The buffers of a freshly dumped payload are views of the object's memory, not copies, so the object must not change
    before they are written. `detached` copies them, for a payload that is kept, or that stays in the process.

    A receiver should read buffers into writable memory, because arrays are then rebuilt on that memory. Read-only
    buffers (`bytes`) are copied once on loading, so that a job may write to its arguments.
    """

    data: Buffer
    buffers: tuple[Buffer, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size of the stream and all buffers, in bytes."""
        return _size(self.data) + sum(map(_size, self.buffers))

    def inside(self) -> "Payload":
        """Return the payload as a part of an object that is dumped itself: its buffers stay outside that stream, too.

        >>> Payload(b"stream").inside()
        Payload(data=b'stream', buffers=())
        """
        return Payload(self.data, tuple(map(_apart, self.buffers))) if self.buffers else self

    def lent(self) -> "Payload":
        """Return the payload for loading more than once, each time on new memory."""
        if not self.buffers:
            return self
        return Payload(self.data, tuple([memoryview(buffer).toreadonly() for buffer in self.buffers]))

    def detached(self) -> "Payload":
        """Return the payload on writable memory that it does not share with the object it was made from.

        >>> Payload(b"stream", (b"buffer",)).detached()
        Payload(data=b'stream', buffers=(bytearray(b'buffer'),))
        """
        return Payload(self.data, tuple(map(copied, self.buffers))) if self.buffers else self


def _size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


_STAND_IN = b"\x01large\x00"
"""Beginning of a stand-in. No pickle begins like this, and buffers outside the stream are longer than a stand-in."""

_STAND_IN_SIZES = struct.Struct("<QQ")
_STAND_IN_BYTES = len(_STAND_IN) + _STAND_IN_SIZES.size


def stand_in(size: int, limit: int) -> bytes:
    """Return a stand-in for a stream or a buffer of `size` bytes. `limit` is the most that the process takes; 0 if it
    had no memory.

    Loading the payload raises a `SerializationError` that says so. Processes that pass it on need not know.
    """
    return _STAND_IN + _STAND_IN_SIZES.pack(size, limit)


def refuse_stand_in(part: Buffer, what: str) -> None:
    """Raise `SerializationError` if this part of a payload is a stand-in; `what` names the whole payload."""
    view = memoryview(part)
    if view.nbytes != _STAND_IN_BYTES or view[: len(_STAND_IN)] != _STAND_IN:
        return
    size, limit = _STAND_IN_SIZES.unpack_from(view, len(_STAND_IN))
    why = f"a receiver takes at most {limit}" if limit else "a receiver had no memory for them"
    raise SerializationError(
        f"{what} did not arrive: a part of it has {size} bytes, and {why}; send it in parts, or send a file's path"
    )

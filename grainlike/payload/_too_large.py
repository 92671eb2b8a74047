"""Stand-in for a part of a payload that a process on its way could not hold."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from grainlike.errors import SerializationError

if TYPE_CHECKING:
    from grainlike.payload._payload import Buffer

__all__ = ["refuse_stand_in", "stand_in"]

_MARK = b"\x01large\x00"
"""Beginning of a stand-in. No pickle begins like this, and buffers outside the stream are longer than a stand-in."""

_SIZES = struct.Struct("<QQ")
_LENGTH = len(_MARK) + _SIZES.size


def stand_in(size: int, limit: int) -> bytes:
    """Return a stand-in for a stream or a buffer of `size` bytes. `limit` is the most that the process takes; 0 if it
    had no memory.

    Loading the payload raises a `SerializationError` that says so. Processes that pass it on need not know.
    """
    return _MARK + _SIZES.pack(size, limit)


def refuse_stand_in(part: Buffer, what: str) -> None:
    """Raise `SerializationError` if this part of a payload is a stand-in; `what` names the whole payload."""
    view = memoryview(part)
    if view.nbytes != _LENGTH or view[: len(_MARK)] != _MARK:
        return
    size, limit = _SIZES.unpack_from(view, len(_MARK))
    why = f"a receiver takes at most {limit}" if limit else "a receiver had no memory for them"
    raise SerializationError(
        f"{what} did not arrive: a part of it has {size} bytes, and {why}; send it in parts, or send a file's path"
    )

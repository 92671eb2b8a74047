"""Substitute for a part of a payload that somebody on its way could not hold."""

from __future__ import annotations

import struct

from grainlike.errors import SerializationError
from grainlike.payload._payload import Buffer

__all__ = ["refuse_stand_in", "stand_in"]

_MARK = b"\x01large\x00"
"""No pickle begins so, and no buffer that travels apart is so short as a stand-in."""

_SIZES = struct.Struct("<QQ")
_LENGTH = len(_MARK) + _SIZES.size


def stand_in(size: int, limit: int) -> bytes:
    """In place of a stream, or a buffer, of `size` bytes, where no more than `limit` are taken; 0, if memory lacked.

    Whoever loads the payload gets a `SerializationError` that says so. Those who carry it need not know.
    """
    return _MARK + _SIZES.pack(size, limit)


def refuse_stand_in(part: Buffer, what: str) -> None:
    """Raise `SerializationError` if this part of a payload is only a stand-in; `what` names the whole."""
    view = memoryview(part)
    if view.nbytes != _LENGTH or view[: len(_MARK)] != _MARK:
        return
    size, limit = _SIZES.unpack_from(view, len(_MARK))
    why = f"at most {limit} are taken there" if limit else "there was no memory for them there"
    raise SerializationError(
        f"{what} did not come through: a part of it has {size} bytes, and {why}; send it in parts, or a file's path"
    )

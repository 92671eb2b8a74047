"""Base class of all messages."""

from __future__ import annotations

import msgspec

__all__ = ["BaseMessage"]


class BaseMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Base of messages: immutable, encoded as an array of its fields, not tracked by the garbage collector. `tag` is
    the message's number on the wire.
    """

"""What all messages share."""

from __future__ import annotations

import msgspec

__all__ = ["BaseMessage"]


class BaseMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Fixed, positional, never collected by the garbage collector. `tag` is the message's number on the wire."""

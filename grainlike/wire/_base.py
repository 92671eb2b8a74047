"""Base class of all messages."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = ["DATA_TAGS", "BaseMessage", "Message"]

DATA_TAGS = range(180, 184)
"""Tags of what data servers say to each other, over connections of their own: no link carries it."""


class BaseMessage(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Base of messages: immutable, encoded as an array of its fields, not tracked by the garbage collector. `tag` is
    the message's number on the wire.
    """


Message: TypeAlias = BaseMessage
"""Any message that links carry. Type checkers would narrow a union of all classes again in every `case`: half of the
time they take in all.
"""

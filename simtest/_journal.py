"""Digest of the event log: all events of all schedulers, with their times and the actions returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

__all__ = ["StepJournal"]


class StepJournal:
    """Records every step of every scheduler. Two worlds with one `digest` went the same way, bit for bit.

    `show` is called with a line for a person, for every step.
    """

    __slots__ = ("_encode", "_hash", "_show")

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._hash = blake2b(digest_size=16)
        self._encode = msgspec.msgpack.Encoder(enc_hook=str).encode
        self._show = show

    def note(self, now: float, who: str, event: object, actions: Sequence[object]) -> None:
        """Record an event and its actions."""
        kinds = [type(action).__name__ for action in actions]
        self._hash.update(self._encode((now, who, type(event).__name__, event, kinds, actions)))
        if self._show is not None:
            self._show(f"{now:.6f} {who}: {event}")
            for action in actions:
                self._show(f"    -> {action}")

    @property
    def digest(self) -> str:
        """The digest of all steps so far: 32 hexadecimal digits."""
        return self._hash.hexdigest()

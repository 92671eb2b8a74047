"""Transfers: copies of replicas that pass the head, and those that do not.

Messages with bytes belong to one link, and are not sent again. After a break, a copy goes on from the last byte that
came through; what is still sent by credit of before, in an earlier `generation`, is passed over.
"""

from __future__ import annotations

from grainlike.head._peers import Connection
from grainlike.payload import ArrivingReplica
from grainlike.wire import GENERATION

__all__ = ["DirectTransfer", "LinkTransfer", "number_of"]


class LinkTransfer:
    """A copy of a replica from worker `source` to worker `target`, to this process if that is 0, or to a client; or a
    first one, from the program whose own value it is.
    """

    __slots__ = (
        "attempt", "begun", "client", "generation", "granted", "mapped", "memory", "number", "paused", "received",
        "sender", "size", "source", "target", "value", "waits", "written",
    )  # fmt: skip

    def __init__(self, number: int, value: int, attempt: int, size: int, source: int, target: int) -> None:
        self.number: int = number
        self.value: int = value
        self.attempt: int = attempt
        self.size: int = size
        self.source: int = source
        self.target: int = target
        self.generation: int = 0
        """Number of its starts: parts of an earlier one are dropped."""
        self.begun: bool = False
        """True once its source was asked, in this generation."""
        self.granted: int = 0
        self.received: int = 0
        self.written: int = 0
        """Bytes up to which the source may send, which have come, and which the target has written."""
        self.paused: bool = False
        self.waits: bool = False
        """True while an end of it cannot be reached; and while it waits for its turn to get credit."""
        self.memory: ArrivingReplica | None = None
        """Memory that takes a copy to this process; None for any other."""
        self.client: Connection | None = None
        """Client that is the target."""
        self.sender: Connection | None = None
        """Client that is the source."""
        self.mapped: bool = False
        """True if the client maps the worker's file, so nothing moves."""

    @property
    def leg(self) -> int:
        """The number by which its source knows it; its target knows it by its own."""
        return self.generation * GENERATION + self.number


class DirectTransfer:
    """A copy from the data server of worker `source` to worker `target`, which has `written` bytes of it."""

    __slots__ = ("attempt", "number", "size", "source", "target", "value", "written")

    def __init__(self, number: int, value: int, attempt: int, size: int, source: int, target: int, at: int) -> None:
        self.number: int = number
        self.value: int = value
        self.attempt: int = attempt
        self.size: int = size
        self.source: int = source
        self.target: int = target
        self.written: int = at


def number_of(leg: int) -> tuple[int, int]:
    """Return the number of a transfer, and its generation, as its source names it.

    >>> number_of(7), number_of(2 * 2**32 + 7)
    ((7, 0), (7, 2))
    """
    return leg % GENERATION, leg // GENERATION

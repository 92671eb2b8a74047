"""Transfers: copies of replicas through the head, and copies between data servers.

Messages with bytes belong to one link, and are not sent again. After a link has broken, a copy goes on from the last
byte that arrived, in a new `generation`; bytes of an earlier generation are ignored.
"""

from __future__ import annotations

from grainlike.head._peers import Connection
from grainlike.payload import ArrivingReplica
from grainlike.wire import GENERATION

__all__ = ["DirectTransfer", "LinkTransfer", "number_of"]


class LinkTransfer:
    """Copy of a replica through the head: from a worker, or from the program that has the own value, to a worker, to a
    client, or to this process if `target` is 0.
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
        """Number of starts; parts that were sent for an earlier start are dropped."""
        self.begun: bool = False
        """True once the source was asked for bytes, in this generation."""
        self.granted: int = 0
        self.received: int = 0
        self.written: int = 0
        """Positions up to which the source may send, bytes have arrived here, and the target has written."""
        self.paused: bool = False
        self.waits: bool = False
        """`paused` while one end cannot be reached; `waits` while the transfer waits for its turn to get credit."""
        self.memory: ArrivingReplica | None = None
        """Memory for the bytes of a copy to this process; None for other copies."""
        self.client: Connection | None = None
        """Client that is the target, if one is."""
        self.sender: Connection | None = None
        """Client that is the source, if one is."""
        self.mapped: bool = False
        """True if the client maps the worker's file, so that no bytes move."""

    @property
    def leg(self) -> int:
        """Number by which the source knows the transfer, in this generation; the target knows `number`."""
        return self.generation * GENERATION + self.number


class DirectTransfer:
    """Copy from the data server of worker `source` to worker `target`, which has written `written` bytes."""

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
    """Return the number of a transfer and its generation, from the number by which the source knows it.

    >>> number_of(7), number_of(2 * 2**32 + 7)
    ((7, 0), (7, 2))
    """
    return leg % GENERATION, leg // GENERATION

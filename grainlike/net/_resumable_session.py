"""A conversation that outlives its link: what was on the way when the link broke is sent again on the next one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import get_args

from grainlike.errors import ProtocolError
from grainlike.net._byte_link import ByteLink
from grainlike.wire import (
    Ack,
    Beat,
    Buffer,
    ClientRecords,
    Frame,
    Goodbye,
    Message,
    Pulled,
    ReplicaCredit,
    ReplicaPart,
    ResendBuffer,
    SendReplica,
    encode_frame,
)

__all__ = ["NUMBERED", "OF_THE_LINK", "PASSING", "ResumableSession", "way_of"]

NUMBERED, OF_THE_LINK, PASSING = range(3)
"""Ways of messages. PASSING: those about a link, queries, and answers, which pass large values that are being sent.
OF_THE_LINK: the end of a session, records of `logging` for clients, warnings that no journal has, bytes of replicas and
how far they have come; in order, but not numbered and never resent, as the former. NUMBERED: all others.
"""

_QUERIES = ("_fleet", "_history", "_live", "_metrics", "_nested", "_questions")
"""Modules of the wire that have queries, answers, or warnings."""


@cache
def way_of(kind: type[Message]) -> int:
    """Return the way of a kind of message; decided when the first comes or goes: no worker loads what clients ask."""
    if kind in (Beat, Ack):
        return PASSING
    if kind in (Goodbye, ClientRecords, SendReplica, ReplicaPart, ReplicaCredit, Pulled):
        return OF_THE_LINK
    if kind.__module__.rpartition(".")[2] in _QUERIES:
        from grainlike.wire import Answer, Notice, Question

        if kind in (*get_args(Question), *get_args(Answer)):
            return PASSING
        if kind is Notice:
            return OF_THE_LINK
    return NUMBERED


class ResumableSession:
    """Resumable stream: one end of the messages between a head and one incarnation of a worker or a client, from the
    welcome.

    `post` at any time: what is posted while there is no link waits for the next one. Pass to `hear` what each link
    brings.

    Attributes:
        over: reason in the other end's `Goodbye`, once it has sent one; it will not return.
        tells: True if received messages are acknowledged from here; if not, by `tell`.
    """

    def __init__(self, link: ByteLink) -> None:
        self._transcript: ResendBuffer[list[Buffer]] = ResendBuffer()
        self._link = link
        self.over: str | None = None
        self.tells = True

    @property
    def received(self) -> int:
        """Number of messages received."""
        return self._transcript.received

    @property
    def sent(self) -> int:
        """Number of messages sent, on a link or for the next one."""
        return self._transcript.sent_in_all

    @property
    def heard(self) -> int:
        """Number of our messages that the other end has acknowledged."""
        return self._transcript.sent_in_all - len(self._transcript)

    @property
    def unacknowledged(self) -> int:
        """Number of bytes of our messages that the other end has not acknowledged."""
        return self._transcript.size

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message, now or on the next link. The buffers must not change until it has been acknowledged."""
        way = way_of(type(message))
        if way != NUMBERED:
            if isinstance(message, Beat) and self.tells and self._transcript.untold:
                self._link.interject(Ack(self._transcript.acknowledge()))
            if way == PASSING:
                assert not buffers
                self._link.interject(message)
            else:
                self._link.post(message, buffers)
            return
        pieces = encode_frame(message, buffers)
        held = self._link.push(pieces)
        self._transcript.sent(pieces, sum(map(len, pieces)), held=held)

    def enqueue(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a numbered message, as `post` does, at the next `flush` of the link."""
        pieces = encode_frame(message, buffers)
        held = self._link.add(pieces)
        self._transcript.sent(pieces, sum(map(len, pieces)), held=held)

    def hear(self, frames: Sequence[Frame]) -> list[Frame]:
        """Take one read of the link; return what is not about the link itself.

        Raises:
            ProtocolError: the other end acknowledges what was never sent.
        """
        transcript, heard, owes = self._transcript, list[Frame](), False
        for frame in frames:
            message = frame.message
            if isinstance(message, Ack):
                self._acknowledged(message.received)
            elif isinstance(message, Goodbye):
                self.over = message.reason
            else:
                if way_of(type(message)) == NUMBERED:
                    owes = transcript.came(_size(frame))
                heard.append(frame)
        if owes and self.tells:
            self._link.interject(Ack(transcript.acknowledge()))
        return heard

    def tell(self, received: int) -> None:
        """Acknowledge so many messages of the other end."""
        self._link.interject(Ack(received))

    def resume_at(self, received: int, heard: int) -> None:
        """Restore the counts of a replayed moment: messages received, and messages of ours acknowledged."""
        self._transcript.received = received
        self._acknowledged(heard)

    def why_not(self, received: int, sent: int | None = None) -> str | None:
        """Return why the session cannot resume with a far end that has received so many messages; None if it can. It
        can have received `sent` at most, where that is known.
        """
        return self._transcript.why_not(received, sent)

    def go_on(self, link: ByteLink, received: int) -> bool:
        """Resume over another link, whose far end has received so many messages; return False if that cannot be."""
        missed = self._transcript.since(received)
        if missed is None:
            return False
        self._link = link
        for pieces in missed:
            link.push(pieces)
        return True

    def _acknowledged(self, count: int) -> None:
        try:
            self._transcript.acknowledged(count)
        except ValueError as error:
            raise ProtocolError(str(error)) from None


def _size(frame: Frame) -> int:
    """About how many bytes the far end keeps for it."""
    inline = sum(map(len, getattr(frame.message, "data", ())))
    return inline + sum(memoryview(buffer).nbytes for buffer in frame.buffers) if frame.buffers else inline

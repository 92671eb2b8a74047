"""A conversation that outlives its link: what was on the way when the link broke is sent again on the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from grainlike.errors import ProtocolError
from grainlike.net._byte_link import ByteLink
from grainlike.wire import Ack, Answer, Beat, Buffer, Frame, Goodbye, Message, Question, Transcript, encode_frame

__all__ = ["Session"]

_PASSING = frozenset({Beat, Ack, *get_args(Question), *get_args(Answer)})
"""What is said of a link, and what is only asked: it passes values that are large on their way."""

_OF_THE_LINK = _PASSING | {Goodbye}
"""What is said of a link and its ends, and what is only asked: it is not numbered, and never sent again."""


class Session:
    """One end of a conversation between a head and one incarnation of a worker or a client, from the welcome on.

    `post` at any time: what is posted while there is no link waits for the next one. `hear` what each link brings.

    Attributes:
        over: why the other end has said goodbye, once it has; it will not come back.
        tells: whether the other end is told from here what has come; where not, by `tell`.
    """

    def __init__(self, link: ByteLink) -> None:
        self._transcript: Transcript[list[Buffer]] = Transcript()
        self._link = link
        self.over: str | None = None
        self.tells = True

    @property
    def received(self) -> int:
        """How many messages have come."""
        return self._transcript.received

    @property
    def heard(self) -> int:
        """How many of ours the other end has said that it has."""
        return self._transcript.sent_in_all - len(self._transcript)

    def post(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Send a message, now or on the next link. The buffers must not change until it has been acknowledged."""
        if type(message) in _OF_THE_LINK:
            if isinstance(message, Beat) and self.tells and self._transcript.untold:
                self._link.interject(Ack(self._transcript.acknowledge()))
            if type(message) in _PASSING:
                assert not buffers
                self._link.interject(message)
            else:
                self._link.post(message, buffers)
            return
        pieces = encode_frame(message, buffers)
        self._link.push(pieces)
        self._transcript.sent(pieces, sum(map(len, pieces)), held=self._link.holds_large)

    def hear(self, frames: Sequence[Frame]) -> list[Frame]:
        """Take one read of the link; return what is not about the link itself.

        Raises:
            ProtocolError: the other end acknowledges what was never sent.
        """
        transcript, heard = self._transcript, list[Frame]()
        for frame in frames:
            message = frame.message
            if isinstance(message, Ack):
                self._acknowledged(message.received)
            elif isinstance(message, Goodbye):
                self.over = message.reason
            else:
                if type(message) not in _OF_THE_LINK:
                    transcript.came(_size(frame))
                heard.append(frame)
        if self.tells and transcript.owes:
            self._link.interject(Ack(transcript.acknowledge()))
        return heard

    def tell(self, received: int) -> None:
        """Tell the other end that so many of its messages are safe."""
        self._link.interject(Ack(received))

    def resume_at(self, received: int, heard: int) -> None:
        """So many messages had come, and so many of ours had been said to have, when all this happened before."""
        self._transcript.received = received
        self._acknowledged(heard)

    def why_not(self, received: int) -> str | None:
        """Return why it cannot go on with a far end to which so many messages have come; None if it can."""
        return self._transcript.why_not(received)

    def go_on(self, link: ByteLink, received: int) -> bool:
        """Go on over another link, of whose far end so many messages had been heard; False if that cannot be."""
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

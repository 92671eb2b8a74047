"""Resend buffer: lets the two ends of a broken connection continue without a lost or repeated message.

Both ends count the messages, so their numbers need not be sent. Each end keeps the messages that the other has not
acknowledged. After a break each reports how many it has received, and is sent the following ones again. So each message
is delivered once and in order, however often the connection breaks.

What is kept is bounded. If the oldest had to be dropped, the two cannot continue when the connection breaks just then.
But one value alone shall not cause that, however large, nor do messages that the connection holds in memory anyway.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["ACK_BYTES", "ACK_COUNT", "ResendBuffer"]

T = TypeVar("T")

MOST_COUNT = 65_536
MOST_BYTES = 256 * 1024 * 1024
"""The most messages (`MOST_COUNT`), and bytes of them, that one end keeps."""

_SHARE = 16
"""Number of messages that are kept in any case: none counts as more bytes than its share."""

ACK_COUNT = 32
ACK_BYTES = 1024 * 1024
"""Number of messages (`ACK_COUNT`), or bytes of them, after which they are acknowledged; a heartbeat does so as
well.
"""


_NOT_KEPT = "the journal lacks the last messages, as its disk refused to write them, or its machine lost power"


class ResendBuffer(Generic[T]):
    """State of one end of a connection: what it has sent and received.

    Example::

        buffer.sent(frame, size)            # for each message sent
        buffer.came(size)                   # for each message received
        if buffer.owes:
            send_ack(buffer.acknowledge())
        buffer.acknowledged(count)          # for each acknowledgement received
        for frame in buffer.since(count):   # after a break, when the other end has received `count`
            send(frame)
    """

    __slots__ = ("_acknowledged", "_allowed", "_kept", "_told", "_unsaid", "received", "sent_in_all", "size")

    def __init__(self) -> None:
        self.received: int = 0
        """Number of messages received."""
        self.sent_in_all: int = 0
        self.size: int = 0
        """Number of bytes kept; see `_SHARE`."""
        self._acknowledged = 0
        """Number of own messages that the other end has acknowledged."""
        self._allowed = MOST_BYTES
        self._kept: deque[tuple[T, int]] = deque()
        self._told = 0
        self._unsaid = 0

    def __len__(self) -> int:
        return len(self._kept)

    def sent(self, message: T, size: int, *, held: bool = False) -> None:
        """Keep a message that is sent now. `held`: large messages, this or earlier ones, still wait in memory to be
        written.
        """
        size = min(size, MOST_BYTES // _SHARE)
        self.sent_in_all += 1
        self._kept.append((message, size))
        self.size += size
        if held:
            self._allowed = self.size + MOST_BYTES
        elif self.size <= MOST_BYTES:
            self._allowed = MOST_BYTES
        while len(self._kept) > MOST_COUNT or self.size > self._allowed:
            self._forget_oldest()

    def acknowledged(self, count: int) -> None:
        """Drop the first `count` messages: the other end has them. Raises `ValueError` for more than were sent."""
        if count > self.sent_in_all:
            raise ValueError(f"{count} messages were acknowledged, of {self.sent_in_all} sent")
        self._acknowledged = max(self._acknowledged, count)
        first = self.sent_in_all - len(self._kept)
        for _ in range(count - first):
            self._forget_oldest()

    def keeps(self, count: int) -> bool:
        """Return True if all messages after the first `count` are kept, so that the other end can be sent them
        again.
        """
        return self.sent_in_all - len(self._kept) <= count <= self.sent_in_all

    def why_not(self, count: int, sent: int | None = None) -> str | None:
        """Return why the connection cannot continue with an end that has received `count` messages; None if it can.

        `sent` is how many it can have received at most, if those after them were not sent to it yet.
        """
        sent = self.sent_in_all if sent is None else sent
        if count > sent:
            return f"the other end has {count} messages, and only {sent} are known here: {_NOT_KEPT}"
        if self.keeps(count):
            return None
        if count < self._acknowledged:
            return f"the other end has {count} messages, and had acknowledged {self._acknowledged}: {_NOT_KEPT}"
        return "more messages were on the way than are kept"

    def since(self, count: int) -> list[T] | None:
        """Return the messages after the first `count`, to be sent again; None if not all of them are kept."""
        if not self.keeps(count):
            return None
        self.acknowledged(count)
        return [message for message, _ in self._kept]

    def came(self, size: int) -> bool:
        """Count a received message; return what `owes` says then."""
        self.received += 1
        self._unsaid += size
        return self.received - self._told >= ACK_COUNT or self._unsaid >= ACK_BYTES

    @property
    def owes(self) -> bool:
        """True when it is time to acknowledge what was received."""
        return self.received - self._told >= ACK_COUNT or self._unsaid >= ACK_BYTES

    def acknowledge(self) -> int:
        """Return the number of messages received, which is sent to the other end now."""
        self._told, self._unsaid = self.received, 0
        return self.received

    @property
    def untold(self) -> bool:
        """True if messages were received that are not acknowledged yet."""
        return self._told < self.received

    def _forget_oldest(self) -> None:
        self.size -= self._kept.popleft()[1]

"""What two ends of a broken connection need to go on where they were: nothing lost, nothing done twice.

Each end numbers the messages that it sends, silently: both count. It keeps those that the other has not acknowledged.
After a break each says how many have come, and gets what is behind that again. So a message is handed on once, however
often the connection breaks, and in order.

What is kept is bounded. Where the oldest had to be dropped the two cannot go on if the connection breaks just then. But
one value shall not bring it to that, however large, nor do those that the connection holds in memory anyway.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["ACK_BYTES", "ACK_COUNT", "ResendBuffer"]

T = TypeVar("T")

MOST_COUNT = 65_536
MOST_BYTES = 256 * 1024 * 1024
"""The most messages, and bytes of them, that one end keeps."""

_SHARE = 16
"""So many messages are kept in any case: no one counts as more bytes than its share."""

ACK_COUNT = 32
ACK_BYTES = 1024 * 1024
"""After how many messages, or bytes of them, the other end is told that they came; a heartbeat tells it as well."""


_NOT_KEPT = "the journal lacks the last of what was said, for its disk had refused that, or its machine lost power"


class ResendBuffer(Generic[T]):
    """One end's memory of one conversation.

    Example::

        transcript.sent(frame, size)            # for each message sent
        transcript.came(size)                   # for each that came; then, if `transcript.owes`: tell `acknowledge()`
        transcript.acknowledged(count)          # the other end told so
        for frame in transcript.since(count):   # after a break, of which `count` had come
            send(frame)
    """

    __slots__ = ("_acknowledged", "_allowed", "_kept", "_told", "_unsaid", "received", "sent_in_all", "size")

    def __init__(self) -> None:
        self.received = 0
        """How many messages have come."""
        self.sent_in_all = 0
        self.size = 0
        """How many bytes are kept; see `_SHARE`."""
        self._acknowledged = 0
        """How many of ours the other end has said to have."""
        self._allowed = MOST_BYTES
        self._kept: deque[tuple[T, int]] = deque()
        self._told = 0
        self._unsaid = 0

    def __len__(self) -> int:
        return len(self._kept)

    def sent(self, message: T, size: int, *, held: bool = False) -> None:
        """Keep a message that is sent now. `held`: large ones wait in memory to be written, this or earlier ones."""
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
        """The other end has had so many in all. Raises `ValueError` for more than were sent."""
        if count > self.sent_in_all:
            raise ValueError(f"{count} messages are said to have come, of {self.sent_in_all}")
        self._acknowledged = max(self._acknowledged, count)
        first = self.sent_in_all - len(self._kept)
        for _ in range(count - first):
            self._forget_oldest()

    def keeps(self, count: int) -> bool:
        """Whether all is kept that the other end has to be sent again, of which so many have come."""
        return self.sent_in_all - len(self._kept) <= count <= self.sent_in_all

    def why_not(self, count: int) -> str | None:
        """Return why it cannot go on with another end to which so many have come; None if it can."""
        if self.keeps(count):
            return None
        if count > self.sent_in_all:
            return f"{count} messages have come, of {self.sent_in_all} that are known here: {_NOT_KEPT}"
        if count < self._acknowledged:
            return f"{count} messages are known there, of {self._acknowledged} that were acknowledged: {_NOT_KEPT}"
        return "too much was on the way"

    def since(self, count: int) -> list[T] | None:
        """What the other end has to be sent again, of which so many have come; None if not all of it is kept."""
        if not self.keeps(count):
            return None
        self.acknowledged(count)
        return [message for message, _ in self._kept]

    def came(self, size: int) -> None:
        """A message has come."""
        self.received += 1
        self._unsaid += size

    @property
    def owes(self) -> bool:
        """Whether it is time to tell the other end what has come."""
        return self.received - self._told >= ACK_COUNT or self._unsaid >= ACK_BYTES

    def acknowledge(self) -> int:
        """How many have come; the other end is told now."""
        self._told, self._unsaid = self.received, 0
        return self.received

    @property
    def untold(self) -> bool:
        """Whether anything has come of which the other end was not told."""
        return self._told < self.received

    def _forget_oldest(self) -> None:
        self.size -= self._kept.popleft()[1]

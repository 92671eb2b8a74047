"""Budget of one page: how many updates and bytes it is sent within any second.

A window slides over what was sent: a bucket that fills up evenly would let twice as much through in a second that
begins with it full. Updates are few, so that all those of a second are remembered one by one.
"""

from __future__ import annotations

from collections import deque

__all__ = ["BYTES_PER_S", "UPDATES_PER_S", "PageBudget"]

UPDATES_PER_S = 10
BYTES_PER_S = 50_000
"""The most that a page is sent within any second."""

_SPAN_S = 1.0

_FRAME_BYTES = 64
"""Bytes that an update costs beside its text: its name, its ends, and the chunk that carries it."""


class PageBudget:
    """Bound of what a page is sent, in any span of one second; times are of any clock that does not go back.

    A page that has just been opened may get all of its second's bytes in one update.

    Example::

        budget = PageBudget()
        room = budget.room(now)
        if room >= len(text):
            budget.spend(now, len(text))
    """

    def __init__(self) -> None:
        self._sent: deque[tuple[float, int]] = deque()
        self._bytes = 0

    def room(self, now: float) -> int:
        """Return how many bytes an update may have now; 0 where none may be sent yet."""
        while self._sent and self._sent[0][0] <= now - _SPAN_S:
            self._bytes -= self._sent.popleft()[1]
        if len(self._sent) >= UPDATES_PER_S:
            return 0
        return max(0, BYTES_PER_S - self._bytes - _FRAME_BYTES)

    def spend(self, now: float, size: int) -> None:
        """Count an update of `size` bytes."""
        self._sent.append((now, size + _FRAME_BYTES))
        self._bytes += size + _FRAME_BYTES

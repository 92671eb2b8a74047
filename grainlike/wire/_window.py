"""Flow control of streams: how many items and bytes the sender may be ahead of the reader, counted at both ends.

The sender keeps a `Window`. It sends while that is open, so at most `WINDOW_ITEMS` items are on their way or wait for
their reader, of which all but the last have less than `WINDOW_BYTES` together. The reader keeps a `Debt` and returns
credit in portions of half a window. So once it has taken all items received, the sender's window is open: the two never
wait for each other.
"""

from __future__ import annotations

__all__ = ["WINDOW_BYTES", "WINDOW_ITEMS", "Debt", "Window"]

WINDOW_ITEMS = 16
WINDOW_BYTES = 4 * 1024 * 1024


class Window:
    """The sender's side: items sent and not taken yet."""

    __slots__ = ("_items", "_size")

    def __init__(self) -> None:
        self._items = 0
        self._size = 0

    @property
    def open(self) -> bool:
        """True if another item may be sent."""
        return self._items < WINDOW_ITEMS and self._size < WINDOW_BYTES

    def sent(self, size: int) -> None:
        """Count an item of `size` bytes that was sent."""
        self._items += 1
        self._size += size

    def covers(self, items: int, size: int) -> bool:
        """Return True if so many items, of so many bytes together, were sent and not taken."""
        return 0 <= items <= self._items and 0 <= size <= self._size

    def credited(self, items: int, size: int) -> None:
        """Count items that the reader took, and their bytes."""
        self._items -= items
        self._size -= size


class Debt:
    """The reader's side: items taken, for which no credit was given yet."""

    __slots__ = ("_items", "_size")

    def __init__(self) -> None:
        self._items = 0
        self._size = 0

    def took(self, size: int) -> tuple[int, int] | None:
        """Count an item of `size` bytes that was taken; return items and bytes to give credit for, or None if it is not
        time yet.
        """
        self._items += 1
        self._size += size
        if self._items < WINDOW_ITEMS // 2 and self._size < WINDOW_BYTES // 2:
            return None
        items, self._items = self._items, 0
        total, self._size = self._size, 0
        return items, total

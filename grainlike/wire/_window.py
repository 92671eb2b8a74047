"""How far a stream may run ahead of its reader: both ends count the same items and bytes.

The sender keeps a `Window`. It sends while that is open, so at most `WINDOW_ITEMS` items are on their way or wait for
their reader, of which all but the last have less than `WINDOW_BYTES` together. The reader keeps a `Debt` and gives
credit back in portions of half a window. So when it has taken all that came, the sender's window is open: the two never
wait for each other.
"""

from __future__ import annotations

__all__ = ["WINDOW_BYTES", "WINDOW_ITEMS", "Debt", "Window"]

WINDOW_ITEMS = 16
WINDOW_BYTES = 4 * 1024 * 1024


class Window:
    """The sender's side: what was sent and not taken yet."""

    __slots__ = ("_items", "_size")

    def __init__(self) -> None:
        self._items = 0
        self._size = 0

    @property
    def open(self) -> bool:
        """Whether another item may be made."""
        return self._items < WINDOW_ITEMS and self._size < WINDOW_BYTES

    def sent(self, size: int) -> None:
        """An item of `size` bytes left."""
        self._items += 1
        self._size += size

    def credited(self, items: int, size: int) -> None:
        """The reader took so many items, of so many bytes together."""
        self._items -= items
        self._size -= size


class Debt:
    """The reader's side: what was taken and not told of yet."""

    __slots__ = ("_items", "_size")

    def __init__(self) -> None:
        self._items = 0
        self._size = 0

    def took(self, size: int) -> tuple[int, int] | None:
        """An item of `size` bytes was taken. Items and bytes to give credit for, when it is time to."""
        self._items += 1
        self._size += size
        if self._items < WINDOW_ITEMS // 2 and self._size < WINDOW_BYTES // 2:
            return None
        items, self._items = self._items, 0
        total, self._size = self._size, 0
        return items, total

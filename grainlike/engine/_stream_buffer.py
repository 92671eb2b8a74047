"""Buffer of a stream's items until they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import anyio

from grainlike.graph import StreamNode
from grainlike.payload import Payload, load_value
from grainlike.wire import Debt

__all__ = ["Bell", "Inlet", "inlet_of"]


class Inlet:
    """Items of one stream that were received and not taken, oldest first; at most a window of them.

    The producer passes `begin` a function that gives credit when items are taken. The reader's `bell` is set when
    items arrive.
    """

    __slots__ = ("_credit", "_debt", "_items", "bell")

    def __init__(self) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._debt = Debt()
        self._credit: Callable[[int, int], object] | None = None
        self.bell: Callable[[], object] | None = None

    def __bool__(self) -> bool:
        return bool(self._items)

    @property
    def begun(self) -> bool:
        """True if an attempt has brought items: no other attempt may."""
        return self._credit is not None

    def begin(self, credit: Callable[[int, int], object]) -> None:
        """Items will come. `credit(items, size)` is called when so many, of so many bytes, were taken."""
        self._credit = credit

    def put(self, item: Any, size: int) -> None:
        """Bring one item, or its `Payload`, which is unpacked when it is taken."""
        self._items.append((item, size))
        if self.bell is not None:
            self.bell()

    def take(self) -> Any:
        """The oldest item. Raises what unpacking it raises."""
        item, size = self._items.popleft()
        due = self._debt.took(size)
        if due is not None and self._credit is not None:
            self._credit(*due)
        return load_value(item, what="an item of the stream") if isinstance(item, Payload) else item

    def clear(self) -> None:
        """Drop all items: no reader takes them."""
        self._items.clear()


def inlet_of(node: StreamNode) -> Inlet:
    """The inlet of a stream; made at the first question."""
    if node.inlet is None:
        node.inlet = Inlet()
    inlet: Inlet = node.inlet
    return inlet


class Bell:
    """Wake-up of a reader. It does not refer to the reader, so that a dropped reader is collected."""

    __slots__ = ("_rung",)

    def __init__(self) -> None:
        self._rung: anyio.Event | None = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        self._rung = anyio.Event()
        try:
            await self._rung.wait()
        finally:
            self._rung = None

    @property
    def awaited(self) -> bool:
        """True if a reader waits."""
        return self._rung is not None

    def set(self) -> None:
        """Ring."""
        if self._rung is not None:
            self._rung.set()

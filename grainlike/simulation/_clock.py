"""Virtual time: it jumps from one thing that happens to the next, and waits for nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Clock"]


class Clock:
    """What will happen, in order of time; at one moment, in the order in which it was asked for.

    Nothing is ever taken back: who no longer wants a call lets it find nothing to do. `now` is in seconds.
    """

    __slots__ = ("_heap", "_last", "now", "steps")

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._last = 0

    def at(self, time: float, call: Callable[..., None], *arguments: object) -> None:
        """Call it at that time, or now if that has passed."""
        self._last += 1
        heappush(self._heap, (time if time > self.now else self.now, self._last, call, arguments))

    def after(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        """Call it so much later."""
        self.at(self.now + seconds, call, *arguments)

    def run(self, steps: int) -> bool:
        """Let so many things happen; False when nothing will ever happen again."""
        heap = self._heap
        for _ in range(steps):
            if not heap:
                return False
            self.now, _, call, arguments = heappop(heap)
            self.steps += 1
            call(*arguments)
        return True

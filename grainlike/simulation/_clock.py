"""Virtual time: it jumps from one thing that happens to the next, and waits for nothing."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Clock"]

_SOON_S = 0.001

_Entry = tuple[float, int, Callable[..., None], tuple[object, ...]]


class Clock:
    """What will happen, in order of time; at one moment, in the order in which it was asked for.

    Nothing is ever taken back: who no longer wants a call lets it find nothing to do. `now` is in seconds.

    Messages are on the way for a fraction of a millisecond and are most of what happens; the ends of jobs are many, and
    far away. So there are two heaps: what happens soon is in a small one, however much is to happen later.
    """

    __slots__ = ("_last", "_later", "_soon", "now", "steps")

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._soon: list[_Entry] = []
        self._later: list[_Entry] = []
        self._last = 0

    def at(self, time: float, call: Callable[..., None], *arguments: object) -> None:
        """Call it at that time, or now if that has passed."""
        self._last = number = self._last + 1
        now = self.now
        if time < now:
            time = now
        heappush(self._soon if time < now + _SOON_S else self._later, (time, number, call, arguments))

    def after(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        """Call it so much later."""
        self.at(self.now + seconds, call, *arguments)

    def run(self, steps: int) -> bool:
        """Let so many things happen; False when nothing will ever happen again."""
        soon, later = self._soon, self._later
        for _ in range(steps):
            if not soon and not later:
                return False
            heap = later if not soon or (later and later[0] < soon[0]) else soon
            self.now, _, call, arguments = heappop(heap)
            self.steps += 1
            call(*arguments)
        return True

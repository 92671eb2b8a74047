"""Virtual time, which jumps from one event to the next."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

__all__ = ["Clock"]

_SOON_S = 0.001

_Entry = tuple[float, int, Callable[..., None], tuple[object, ...]]


class Clock:
    """Queue of calls in the order of their times; at the same time, in the order in which they were added.

    Calls cannot be cancelled: a call that is no longer wanted has to find nothing to do. `now` is in seconds.

    Most calls are messages, which travel for a fraction of a millisecond; ends of jobs are many, and far in the future.
    So there are two heaps: the one of soon calls stays small, however many are to come later.
    """

    __slots__ = ("_last", "_later", "_soon", "now", "steps")

    def __init__(self) -> None:
        self.now: float = 0.0
        self.steps: int = 0
        self._soon: list[_Entry] = []
        self._later: list[_Entry] = []
        self._last = 0

    def at(self, time: float, call: Callable[..., None], *arguments: object) -> None:
        """Schedule a call at that time, or now if that has passed."""
        self._last = number = self._last + 1
        now = self.now
        if time < now:
            time = now
        heappush(self._soon if time < now + _SOON_S else self._later, (time, number, call, arguments))

    def after(self, seconds: float, call: Callable[..., None], *arguments: object) -> None:
        """Schedule a call `seconds` from now."""
        self.at(self.now + seconds, call, *arguments)

    def run(self, steps: int) -> bool:
        """Make up to `steps` calls; return False once none are left."""
        soon, later = self._soon, self._later
        for _ in range(steps):
            if not soon and not later:
                return False
            heap = later if not soon or (later and later[0] < soon[0]) else soon
            self.now, _, call, arguments = heappop(heap)
            self.steps += 1
            call(*arguments)
        return True

"""What the node's mind is to do later, by lease: what a lease that has ended was to have done is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Literal

from grainlike.scheduler._events import NodeAction, WakeAt
from grainlike.scheduler.node._records import NodeLease

__all__ = ["TimerAction", "Timers"]

TimerAction = Literal["timeout", "bar", "retire", "kill"]
"""End what is overdue; take the rest of a run-list back; give up on coroutines that do not end; SIGKILL."""


class Timers:
    """The deeds of one node, by time. `leases` are the mind's own, live."""

    __slots__ = ("_leases", "_queue", "_wake")

    def __init__(self, leases: Mapping[int, NodeLease]) -> None:
        self._leases = leases
        self._queue: list[tuple[float, int, TimerAction]] = []
        self._wake: float | None = None

    def add(self, at: float, lease: int, action: TimerAction) -> None:
        """Do this at that moment."""
        heappush(self._queue, (at, lease, action))

    def due(self, now: float) -> Iterator[tuple[NodeLease, TimerAction]]:
        """What is to be done now, in order; more may be added meanwhile."""
        self._wake = None
        while self._queue and self._queue[0][0] <= now:
            _, number, action = heappop(self._queue)
            lease = self._leases.get(number)
            if lease is not None:
                yield lease, action

    def wind(self, out: list[NodeAction]) -> None:
        """Ask to be woken for the next of them, unless that was asked already."""
        while self._queue and self._queue[0][1] not in self._leases:
            heappop(self._queue)
        if not self._queue:
            self._wake = None
        elif self._wake is None or self._queue[0][0] < self._wake:
            self._wake = self._queue[0][0]
            out.append(WakeAt(self._wake))

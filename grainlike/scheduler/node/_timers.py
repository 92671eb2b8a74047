"""Timers of the node scheduler, by lease; those of a lease that has ended are dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import inf
from typing import Literal

from grainlike.scheduler._events import WakeAt
from grainlike.scheduler.node._events import NodeAction
from grainlike.scheduler.node._records import NodeLease

__all__ = ["TimerAction", "Timers"]

TimerAction = Literal["timeout", "bar", "retire", "kill"]
"""End overdue jobs; take the rest of a run-list back; retire a runner whose coroutines do not end; send SIGKILL."""


class Timers:
    """Timers of one node. `leases` is the scheduler's own mapping, not a copy."""

    __slots__ = ("_leases", "queue", "wake")

    def __init__(self, leases: Mapping[int, NodeLease]) -> None:
        self._leases = leases
        self.queue: list[tuple[float, int, TimerAction]] = []
        self.wake: float | None = None

    def add(self, at: float, lease: int, action: TimerAction) -> None:
        """Schedule an action for a lease."""
        heappush(self.queue, (at, lease, action))

    def due(self, now: float) -> Iterator[tuple[NodeLease, TimerAction]]:
        """Remove and yield the actions that are due now, in order; more may be added meanwhile."""
        self.wake = None
        while self.queue and self.queue[0][0] <= now:
            _, number, action = heappop(self.queue)
            lease = self._leases.get(number)
            if lease is not None:
                yield lease, action

    def wind(self, out: list[NodeAction], other: float) -> None:
        """Request a wake-up for the next action, or for `other`, unless it was requested already."""
        while self.queue and self.queue[0][1] not in self._leases:
            heappop(self.queue)
        at = min(self.queue[0][0], other) if self.queue else other
        if at == inf:
            self.wake = None
        elif self.wake is None or at < self.wake:
            self.wake = at
            out.append(WakeAt(at))

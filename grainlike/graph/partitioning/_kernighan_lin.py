"""Fewer edges between the parts of a graph, by moving jobs between parts.

Kernighan and Lin's idea, with single jobs in place of pairs, as Fiduccia and Mattheyses have it: in one pass each job
moves at most once, the best move first, also when it makes things worse for the moment; then all is undone that came
after the best moment of the pass. Parts stay numbered so that no job waits for one in a part with a higher number: a
job can only go to parts between those of what it needs and those of what needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

__all__ = ["Cut"]

_PATIENCE = 256
"""After so many moves without a new best moment a pass ends: the rest would be undone."""


class Cut:
    """A graph in parts, to be improved in place. `parts` is numbered as said above, without gaps."""

    def __init__(
        self, needs: Sequence[Sequence[int]], costs: Sequence[float], parts: list[int], k: int, spread: float
    ) -> None:
        self._before = [sorted(set(before)) for before in needs]
        self._after: list[list[int]] = [[] for _ in needs]
        for job, before in enumerate(self._before):
            for need in before:
                self._after[need].append(job)
        self._costs = costs
        self._parts = parts
        self._loads = [0.0] * k
        self._sizes = [0] * k
        for job, part in enumerate(parts):
            self._loads[part] += costs[job]
            self._sizes[part] += 1
        self._most = max([(1 + spread) * sum(costs) / k, *self._loads])
        """What a part may cost."""

    def improve(self, passes: int) -> int:
        """Make passes, until one finds nothing. By how many edges between parts there are fewer now."""
        fewer = 0
        for _ in range(passes):
            gain = self._one_pass()
            fewer += gain
            if not gain:
                break
        return fewer

    def _one_pass(self) -> int:
        """Make one pass; by how many edges between parts there are fewer after it."""
        moves: list[tuple[int, int]] = []
        moved: set[int] = set()
        heap: list[tuple[int, int, int]] = []
        for job in range(len(self._parts)):
            self._offer(heap, job)
        total = best = kept = 0
        while heap and len(moves) - kept < _PATIENCE:
            loss, job, part = heappop(heap)
            if job in moved or not self._may(job, part) or -loss != self._gain(job, part):
                continue
            moves.append((job, self._parts[job]))
            moved.add(job)
            self._move(job, part)
            total -= loss
            if total > best:
                best, kept = total, len(moves)
            for other in (*self._before[job], *self._after[job]):
                if other not in moved:
                    self._offer(heap, other)
        for job, part in reversed(moves[kept:]):
            self._move(job, part)
        return best

    def _offer(self, heap: list[tuple[int, int, int]], job: int) -> None:
        for part in self._choices(job):
            heappush(heap, (-self._gain(job, part), job, part))

    def _choices(self, job: int) -> Iterator[int]:
        """Iterate over parts where a node could gain: the nearest part of what it needs, and of what needs it."""
        here = self._parts[job]
        lowest, highest = self._range(job)
        if self._before[job] and lowest != here:
            yield lowest
        if self._after[job] and highest != here:
            yield highest

    def _range(self, job: int) -> tuple[int, int]:
        parts = self._parts
        lowest = max([parts[need] for need in self._before[job]], default=0)
        highest = min([parts[later] for later in self._after[job]], default=len(self._sizes) - 1)
        return lowest, highest

    def _may(self, job: int, part: int) -> bool:
        lowest, highest = self._range(job)
        here = self._parts[job]
        return (
            part != here
            and lowest <= part <= highest
            and self._sizes[here] > 1
            and self._loads[part] + self._costs[job] <= self._most
        )

    def _gain(self, job: int, part: int) -> int:
        """Return how many edges fewer there are between parts, if a node moves there."""
        parts, here = self._parts, self._parts[job]
        gain = 0
        for other in (*self._before[job], *self._after[job]):
            gain += (parts[other] == part) - (parts[other] == here)
        return gain

    def _move(self, job: int, part: int) -> None:
        here = self._parts[job]
        self._parts[job] = part
        self._sizes[here] -= 1
        self._sizes[part] += 1
        self._loads[here] -= self._costs[job]
        self._loads[part] += self._costs[job]

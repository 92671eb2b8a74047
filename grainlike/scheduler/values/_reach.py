"""Pairs of workers: whether a copy can go directly between two data servers, and which pairs rest after a failure.

A pair is blocked for direct copies if its target could not reach the source's data server. While the pair is blocked,
its copies go through the head. A pair that failed otherwise rests, and copies nothing.
"""

from __future__ import annotations

from grainlike.scheduler._workers import WorkerState

__all__ = ["REST_S", "Reach"]

REST_S = 1.0
"""Seconds for which a pair of workers rests after its first failure; each further failure doubles them."""

REST_MOST_S = 60.0

BLOCKED_S = 60.0
"""Seconds for which a pair makes no direct copies after the target could not reach the source's data server."""

BYTES_PER_S = 100e6
"""Rate that is assumed until a copy has been measured."""

SLOWEST_BYTES_PER_S = 1e5

_Pair = tuple[int, int]
"""Source and target."""


class Reach:
    """Pairs of one head's workers, and the rates of their copies. `workers` is the scheduler's own mapping, not a copy.

    `rests` and `relayed_rate` are known from before. `rests` has the end of the rest of each failed pair, with its
    seconds. `relayed_rate` is the rate of copies through the head; 0.0 if it was not measured.

    `changes` grows when a rate is measured, when a pair fails, and when a pair works again.
    """

    __slots__ = ("_blocked", "_direct_rate", "_relayed_rate", "_rests", "_workers", "changes")

    def __init__(
        self,
        workers: dict[int, WorkerState],
        rests: dict[_Pair, tuple[float, float]] | None = None,
        relayed_rate: float = 0.0,
    ) -> None:
        self._workers = workers
        self._rests = {} if rests is None else rests
        self._blocked: dict[_Pair, float] = {}
        """Time until which a pair copies nothing directly."""
        self._direct_rate = 0.0
        self._relayed_rate = relayed_rate
        self.changes = 0

    # --- where a copy can go -----------------------------------------------------------------------------------------

    def rests_until(self, source: int, target: int, now: float) -> float:
        """Return the time until which a pair rests; 0.0 if the pair does not rest."""
        rest = self._rests.get((source, target))
        return rest[0] if rest is not None and rest[0] > now else 0.0

    def next_end(self, now: float) -> float | None:
        """Return when the next pair has rested; None if no pair rests."""
        return min((until for until, _ in self._rests.values() if until > now), default=None)

    def has_failed(self, source: int, target: int) -> bool:
        """Return True if the last copy of a pair failed."""
        return (source, target) in self._rests

    def is_direct(self, source: int, target: int, now: float) -> bool:
        """Return True if a copy can go between the data servers of two workers, as far as is known."""
        if not (self._workers[source].has_data and self._workers[target].has_data):
            return False
        return self._blocked.get((source, target), 0.0) <= now

    def is_open(self, now: float) -> bool:
        """Return True if no pair rests or is blocked: then only an event changes an answer, and not the time."""
        return not (
            any(until > now for until, _ in self._rests.values())
            or any(until > now for until in self._blocked.values())
        )

    def bytes_per_s(self, *, direct: bool) -> float:
        """Return the measured rate of copies."""
        return (self._direct_rate if direct else self._relayed_rate) or BYTES_PER_S

    @property
    def slowest(self) -> float:
        """The lower of the two rates."""
        return min(self.bytes_per_s(direct=True), self.bytes_per_s(direct=False))

    # --- what happened -----------------------------------------------------------------------------------------------

    def worked(self, source: int, target: int) -> None:
        """Record that a copy of a pair is whole."""
        if self._rests.pop((source, target), None) is not None:
            self.changes += 1

    def measured(self, size: int, seconds: float, *, direct: bool) -> None:
        """Record the seconds that a copy of this size took."""
        rate = max(SLOWEST_BYTES_PER_S, size / seconds)
        before = self._direct_rate if direct else self._relayed_rate
        rate = 0.75 * before + 0.25 * rate if before else rate
        self.changes += 1
        if direct:
            self._direct_rate = rate
        else:
            self._relayed_rate = rate

    def failed(self, source: int, target: int, now: float) -> None:
        """Let a pair rest, because a copy failed."""
        seconds = self._rests.get((source, target), (0.0, REST_S / 2))[1]
        seconds = min(2 * seconds, REST_MOST_S)
        self._rests[source, target] = now + seconds, seconds
        self.changes += 1

    def unreachable(self, source: int, target: int, now: float) -> None:
        """Block a pair for direct copies, because the target could not reach the source's data server."""
        self._blocked[source, target] = now + BLOCKED_S
        self.changes += 1

    def left(self, worker: int) -> None:
        """Forget a worker that is lost."""
        self.changes += 1
        self._rests = {pair: rest for pair, rest in self._rests.items() if worker not in pair}
        self._blocked = {pair: until for pair, until in self._blocked.items() if worker not in pair}

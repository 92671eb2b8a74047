"""Judge's count of what is lost over values that are made again.

Raises `AssertionError` when one of these promises is broken:

1. A value is made again only as long as no more runners and workers were lost over it than its function allows; the
   loss of the value itself is the first.
2. It is given up as soon as one more is lost, and not before.

The count starts again with each loss of the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grainlike.scheduler import MAX_LOSSES
from grainlike.simulation import FunctionPlan, JobPlan
from grainlike.wire import Code, Completed

__all__ = ["Remakes"]


class Remakes:
    """Counts losses of values that are made again, as the head hears of them. `closed`: no other worker may join."""

    def __init__(self, plans: Mapping[int, JobPlan], functions: Sequence[FunctionPlan], *, closed: bool) -> None:
        self._plans = plans
        self._functions = functions
        self._losses: dict[int, int] = {}
        self._assigned: dict[int, tuple[int, int]] = {}
        """Worker and attempt of the last assignment of each of these values, until the head hears of its end."""
        self._closed = closed
        self._unstarted: set[int] = set()
        """Those for which a process could not be started, where no other worker may join: that counts as a loss."""
        self._leased: set[int] = set()
        """Those of them that have begun or are about to, for all that the head has heard."""
        self._broken: dict[int, bool] = {}
        """Those whose job has slots on several workers, of which one was lost: True if that counts as a loss, once the
        attempt has ended.
        """

    def begin(self, value: int) -> None:
        """Count the loss of a value that is to be made again."""
        self._losses[value] = 1

    def end(self, value: int) -> None:
        """Record that a value is made no more."""
        self._losses.pop(value, None)
        self._unstarted.discard(value)
        self._came_back(value)

    def assigned(self, worker: int, value: int, attempt: int) -> None:
        """Check that a value may still be made again."""
        if value in self._losses:
            most = self._most(value)
            assert self._losses[value] <= most, f"value {value} is made again after {self._losses[value]} losses"
            self._assigned[value] = worker, attempt

    def leased(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears that an attempt has its slots."""
        if self._assigned.get(value) == (worker, attempt):
            self._leased.add(value)

    def heard(self, worker: int, completed: Completed) -> None:
        """Record that the head hears how attempts have ended, of a worker that it has not given up."""
        for value, attempt, code in zip(completed.jobs, completed.attempts, completed.codes, strict=True):
            if self._assigned.get(value) == (worker, attempt):
                unstarted = code == Code.UNSTARTED and self._closed and value not in self._broken
                by_itself = code == Code.CRASHED or unstarted
                self._losses[value] += self._broken.get(value, by_itself) and code != Code.SUCCEEDED
                self._came_back(value)
                if unstarted:
                    self._unstarted.add(value)

    def given_up(self, worker: int, *, stops: bool) -> None:
        """Record that the head has given up a worker. If it `stops`, its jobs are not lost over it."""
        for value in [value for value, (at, _) in self._assigned.items() if at == worker]:
            self._losses[value] += value in self._leased and not stops
            self._came_back(value)

    def broken(self, value: int, attempt: int, *, stops: bool) -> None:
        """Record that the head has given up another worker on which an attempt has slots."""
        if value in self._assigned and self._assigned[value][1] == attempt:
            self._broken.setdefault(value, not stops)

    def lost(self, value: int, losses: int) -> None:
        """Check that a value is given up only after more losses than its function allows."""
        known = self._losses[value]
        assert losses == known > self._most(value), f"value {value} is given up after {known} losses, not {losses}"

    def _most(self, value: int) -> int:
        most = self._functions[self._plans[value].fn].losses
        return max(most, MAX_LOSSES - 1) if value in self._unstarted else most

    def _came_back(self, value: int) -> None:
        self._assigned.pop(value, None)
        self._leased.discard(value)
        self._broken.pop(value, None)

"""Judge's records of order: of jobs with the same request, the more urgent are assigned first, then the older."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from grainlike.simulation import Clock, JobPlan
from simtest.judge._patience import Key, key_of

__all__ = ["Order"]


class Order:
    """Jobs of the user's program that were never assigned, by class. Those of a tree do not go by age.

    `plans` and `outcome` are the judge's own mappings.
    """

    def __init__(self, clock: Clock, plans: dict[int, JobPlan], outcome: dict[int, str]) -> None:
        self._clock = clock
        self._plans = plans
        self._outcome = outcome
        self._unassigned: dict[Key, list[tuple[int, int]]] = {}
        """Ages and numbers, the oldest first."""
        self._ages: dict[int, int] = {}
        self._heard_of: dict[int, float] = {}
        self._came_back: set[Key] = set()
        """Classes whose queues have jobs that came back, so that only the head knows their order."""
        self._assigning: set[int] = set()
        """Jobs that leave the queue at this moment."""
        self._planned: list[int] = []
        """Jobs among them for which there is room now."""

    def submitted(self, job: int, age: int) -> Key:
        """Record that a job was accepted, with the number of the oldest job that it needs, or its own; return its
        class.
        """
        key = key_of(self._plans[job])
        self._heard_of[job] = self._clock.now
        self._ages[job] = age
        insort(self._unassigned.setdefault(key, []), (age, job))
        return key

    def front(self, key: Key) -> int | None:
        """Return the first job of a class that was never assigned."""
        queue = self._unassigned.get(key)
        while queue and queue[0][1] in self._outcome:
            del queue[0]
        return queue[0][1] if queue else None

    def came_back(self, job: int) -> None:
        """Record that a job may be queued again, before all that were never assigned."""
        self._came_back.add(key_of(self._plans[job]))

    def assigning(self, jobs: Sequence[int]) -> None:
        """Record that these jobs leave the queue at one moment, in whatever order they are reported."""
        self._assigning = set(jobs)

    def leaves_queue(self, job: int, *, ahead: bool = False) -> None:
        """Check that a job may be assigned now, for the first time or again."""
        key = key_of(self._plans[job])
        first, queue = self.front(key), self._unassigned[key]
        entry = self._ages[job], job
        if entry not in queue:
            self._came_back.add(key)
            return
        assert first == job or first in self._assigning, (
            f"job {job} was assigned before {first}, which asks for the same"
        )
        queue.remove(entry)
        if not ahead:
            self._planned.append(job)

    def decided(self) -> None:
        """Check priorities once the head has performed all actions of an event. Jobs sent ahead are left to
        `Patience`.
        """
        planned, self._planned = self._planned, []
        for job in planned:
            for key in self._unassigned:
                self._check_urgent(job, key)

    def _check_urgent(self, job: int, key: Key) -> None:
        plan = self._plans[job]
        request, priority, isolate = key
        if priority <= plan.priority or (request, isolate) != (plan.request, plan.isolate) or key in self._came_back:
            return
        urgent = self.front(key)
        if urgent is not None and self._heard_of[urgent] < self._clock.now:
            alike = self._plans[urgent].fn == plan.fn
            assert not alike, f"job {job} was assigned before {urgent}, which is more urgent"

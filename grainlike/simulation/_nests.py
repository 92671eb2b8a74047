"""Jobs of jobs at the simulated head: which number is whose child, and which parent is sent its outcome."""

from __future__ import annotations

from typing import Protocol

from grainlike.resources import Request
from grainlike.scheduler import JobsSubmitted
from grainlike.simulation._client import Client
from grainlike.simulation._plans import JobPlan
from grainlike.simulation._witness import Witness

__all__ = ["Call", "Nests"]

Call = tuple[int, JobPlan]
"""The number that its parent gives a job, and the job's plan."""

_Attempt = tuple[int, int, int]


class _Home(Protocol):
    client: Client
    witness: Witness

    def answer(self, worker: int, parent: int, attempt: int, ends: list[tuple[int, bool]]) -> None:
        """Send an attempt of a job the outcomes of its own jobs."""


class Nests:
    """Numbers of jobs that jobs have submitted, and their parents' attempts."""

    def __init__(self, home: _Home) -> None:
        self._home = home
        self._of: dict[int, tuple[_Attempt, int]] = {}
        self._number: dict[tuple[_Attempt, int], int] = {}

    def submit(self, worker: int, parent: int, attempt: int, calls: list[Call]) -> list[JobsSubmitted]:
        """Number the children of an attempt; return the events that submit them to the scheduler."""
        of = (worker, parent, attempt)
        batches: dict[tuple[Request, int, bool], tuple[list[int], list[int]]] = {}
        for child, plan in calls:
            number = self._home.client.next_number()
            self._of[number], self._number[of, child] = (of, child), number
            self._home.witness.submitted(number, plan, parent)
            jobs, fns = batches.setdefault((plan.request, plan.priority, plan.isolate), ([], []))
            jobs.append(number)
            fns.append(plan.fn + 1)
        return [
            JobsSubmitted(request, jobs, fns, priority, isolate, parent=(parent, attempt))
            for (request, priority, isolate), (jobs, fns) in batches.items()
        ]

    def withdraw(self, worker: int, parent: int, attempt: int, children: list[int]) -> list[int]:
        """Return the numbers of those children that have no outcome yet, and drop them."""
        of = (worker, parent, attempt)
        return self.orphaned([self._number[of, child] for child in children if (of, child) in self._number])

    def orphaned(self, jobs: list[int]) -> list[int]:
        """Drop jobs for which no parent waits any more; return those that had one."""
        known = [job for job in jobs if job in self._of]
        for job in known:
            del self._number[self._of.pop(job)]
        return known

    def settled(self, job: int, *, ok: bool) -> None:
        """Send the outcome of a job to its parent, if it has one."""
        if job in self._of:
            (worker, parent, attempt), child = self._of[job]
            self.orphaned([job])
            self._home.answer(worker, parent, attempt, [(child, ok)])

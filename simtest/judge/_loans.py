"""Judge's records of jobs that wait for their own jobs: the cores that they lend, and get again."""

from __future__ import annotations

from grainlike.resources import Allocation
from grainlike.simulation import FunctionPlan, JobPlan
from grainlike.wire import LeaseWait

__all__ = ["Loans", "Waiting"]

Waiting = tuple[int, int]
"""A worker, and a job there that waits."""


class Loans:
    """Jobs that wait (`waiting`). `plans` is the judge's own mapping."""

    def __init__(self, plans: dict[int, JobPlan], functions: tuple[FunctionPlan, ...]) -> None:
        self._plans = plans
        self._functions = functions
        self.waiting: set[Waiting] = set()

    def waits(self, worker: int, job: int) -> None:
        """Record that a job waits."""
        self.waiting.add((worker, job))

    def lent(self, worker: int, wait: LeaseWait, kept: Allocation, *, runs: bool) -> None:
        """Check what a node reports as left of a lease; `runs`: its job has begun and not ended."""
        plan = self._plans[wait.job]
        whole = dict(plan.request.units)
        if wait.lent:
            assert not self._functions[plan.fn].keep, f"job {wait.job} keeps its cores, and they were lent"
            waits = (worker, wait.job) in self.waiting or not runs
            assert waits, f"job {wait.job} runs, and its cores were lent"
            del whole["cores"]
        assert kept.units == whole, f"job {wait.job} holds {kept} of {plan.request} while it waits"

    def went_on(self, worker: int, job: int, told: Allocation, held: Allocation) -> None:
        """Check that a job that continues has all its cores, and was sent the allocation that it holds."""
        self.waiting.remove((worker, job))
        assert held.units == self._plans[job].request.units, f"job {job} went on without its cores"
        assert held == told, f"job {job} was sent {told} and holds {held}"

    def ended(self, worker: int, job: int) -> None:
        """Record that a job runs no more, whether it waited or not."""
        self.waiting.discard((worker, job))

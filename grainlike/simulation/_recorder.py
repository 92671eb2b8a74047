# ruff: noqa: ARG002 - it overrides methods of `Witness` with more arguments than it records
"""Recorder: a witness that keeps every run: where, on which ids, from when to when."""

from __future__ import annotations

from functools import lru_cache

from grainlike.resources import Allocation, Missing, parse_allocation
from grainlike.scheduler import AssignJobs, StartLease
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import JobPlan
from grainlike.simulation._witness import Witness
from grainlike.wire import Code

__all__ = ["AttemptRun", "RunRecorder"]

_allocation = lru_cache(maxsize=4096)(parse_allocation)


class AttemptRun:
    """Run of one attempt of a job. Times are virtual seconds.

    Attributes:
        job: its number at the head.
        worker: the number of the worker, from 1.
        slots: its allocation, as text.
        ready: when its inputs were there, or the attempt before had ended.
        code: how it ended, as its node reported it.
        gang: worker and slots of each node, the one that ran it first; empty for a job on one.
    """

    __slots__ = ("attempt", "began", "code", "ended", "gang", "job", "ready", "slots", "worker")

    def __init__(self, job: int, attempt: int, worker: int, slots: str, ready: float, began: float) -> None:
        self.job: int = job
        self.attempt: int = attempt
        self.worker: int = worker
        self.slots: str = slots
        self.ready: float = ready
        self.began: float = began
        self.ended: float = began
        self.code: Code = Code.SUCCEEDED
        self.gang: tuple[tuple[int, str], ...] = ()

    @property
    def status(self) -> str:
        """Its outcome, in one word."""
        return self.code.name.lower()

    @property
    def allocation(self) -> Allocation:
        """Its allocation, with ids."""
        return _allocation(self.slots)

    @property
    def nodes(self) -> list[tuple[int, Allocation]]:
        """Worker and allocation of each node of a job on several nodes; empty for others."""
        return [(worker, _allocation(slots)) for worker, slots in self.gang]


class RunRecorder(Witness):
    """Keeps all runs, in the order in which they began, and which jobs were refused and why."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.runs: dict[tuple[int, int], AttemptRun] = {}
        self.refusals: dict[int, Missing | None] = {}
        self.closed: set[int] = set()
        """Jobs that have their outcome."""
        self._ready: dict[int, float] = {}
        self._slots: dict[tuple[int, int], str] = {}
        self._gangs: dict[tuple[int, int], tuple[tuple[int, str], ...]] = {}

    def submitted(self, job: int, plan: JobPlan, parent: int = 0, age: int = 0) -> None:
        """Record the time at which a job was ready."""
        super().submitted(job, plan, parent)
        self._ready[job] = self.clock.now

    def refused(self, job: int, why: Missing | None) -> None:
        """Record that a job can never run, and why."""
        super().refused(job, why)
        self.refusals[job] = why
        self.closed.add(job)

    def settled(self, job: int, attempt: int, code: int) -> None:
        """Record that a job has its outcome."""
        super().settled(job, attempt, code)
        self.closed.add(job)

    def lost(self, job: int, losses: int) -> None:
        """Record that a job was given up."""
        super().lost(job, losses)
        self.closed.add(job)

    def assigned(self, action: AssignJobs) -> None:
        """Record the workers and slots of a gang."""
        if action.gang:
            self._gangs[action.jobs[0], action.attempts[0]] = action.gang

    def granted(self, worker: int, action: StartLease) -> None:
        """Record the slots of a lease."""
        super().granted(worker, action)
        self._slots[worker, action.lease] = action.allocation

    def freed(self, worker: int, lease: int) -> None:
        """Drop a lease that has ended."""
        self._slots.pop((worker, lease), None)  # slots that were held for a gang, without a run, were never recorded

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """Record how an attempt ended, as its node reported it."""
        super().told(worker, job, attempt, code)
        run = self.runs.get((job, attempt))
        if run is not None:
            run.code = Code(code)

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """Record that a run began."""
        slots = self._slots[worker, lease]
        run = self.runs[job, attempt] = AttemptRun(job, attempt, worker, slots, self._ready[job], self.clock.now)
        run.gang = self._gangs.get((job, attempt), ())

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """Record that a run ended. Busy amounts are counted by the grant, as a request with a choice does not determine
        them.
        """
        self.last_end = self.clock.now
        run = self.runs[job, attempt]
        run.ended = self._ready[job] = self.clock.now
        seconds = run.ended - run.began
        for name, units in run.allocation.units.items():
            self.busy[name] = self.busy.get(name, 0.0) + units * max(1, len(run.gang)) * seconds

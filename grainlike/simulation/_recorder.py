# ruff: noqa: ARG002 - as a witness it is told more than it writes down
"""A witness that writes down every run: where, on which ids, from when to when."""

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
    """One attempt of a job. Times are virtual seconds.

    Attributes:
        job: its number at the head.
        worker: the number of the worker, from 1.
        slots: what it was given, as text.
        ready: when its inputs were there, or the attempt before had ended.
        code: how it ended, as its node told it.
        gang: worker and slots of each node, the one that ran it first; empty for a job on one.
    """

    __slots__ = ("attempt", "began", "code", "ended", "gang", "job", "ready", "slots", "worker")

    def __init__(self, job: int, attempt: int, worker: int, slots: str, ready: float, began: float) -> None:
        self.job = job
        self.attempt = attempt
        self.worker = worker
        self.slots = slots
        self.ready = ready
        self.began = self.ended = began
        self.code = Code.SUCCEEDED
        self.gang: tuple[tuple[int, str], ...] = ()

    @property
    def status(self) -> str:
        """How it ended, in a word."""
        return self.code.name.lower()

    @property
    def allocation(self) -> Allocation:
        """What it was given, with ids."""
        return _allocation(self.slots)

    @property
    def nodes(self) -> list[tuple[int, Allocation]]:
        """Of a job on several nodes, worker and allocation of each; empty for others."""
        return [(worker, _allocation(slots)) for worker, slots in self.gang]


class RunRecorder(Witness):
    """Keeps all runs, in the order in which they began, and who was refused and why."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.runs: dict[tuple[int, int], AttemptRun] = {}
        self.refusals: dict[int, Missing | None] = {}
        self.closed: set[int] = set()
        """The jobs that have their outcome."""
        self._ready: dict[int, float] = {}
        self._slots: dict[tuple[int, int], str] = {}
        self._gangs: dict[tuple[int, int], tuple[tuple[int, str], ...]] = {}

    def submitted(self, job: int, plan: JobPlan, parent: int = 0) -> None:
        """See `Witness`."""
        super().submitted(job, plan, parent)
        self._ready[job] = self.clock.now

    def refused(self, job: int, why: Missing | None) -> None:
        """See `Witness`."""
        super().refused(job, why)
        self.refusals[job] = why
        self.closed.add(job)

    def settled(self, job: int, attempt: int, code: int) -> None:
        """See `Witness`."""
        super().settled(job, attempt, code)
        self.closed.add(job)

    def lost(self, job: int, losses: int) -> None:
        """See `Witness`."""
        super().lost(job, losses)
        self.closed.add(job)

    def assigned(self, action: AssignJobs) -> None:
        """See `Witness`."""
        if action.gang:
            self._gangs[action.jobs[0], action.attempts[0]] = action.gang

    def granted(self, worker: int, action: StartLease) -> None:
        """See `Witness`."""
        super().granted(worker, action)
        self._slots[worker, action.lease] = action.allocation

    def freed(self, worker: int, lease: int) -> None:
        """See `Witness`."""
        self._slots.pop((worker, lease), None)  # slots that were held for a job which runs elsewhere are not there

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """See `Witness`."""
        super().told(worker, job, attempt, code)
        run = self.runs.get((job, attempt))
        if run is not None:
            run.code = Code(code)

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """See `Witness`."""
        slots = self._slots[worker, lease]
        run = self.runs[job, attempt] = AttemptRun(job, attempt, worker, slots, self._ready[job], self.clock.now)
        run.gang = self._gangs.get((job, attempt), ())

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """See `Witness`. What was busy is counted by the grants, which a request with a choice does not tell."""
        self.last_end = self.clock.now
        run = self.runs[job, attempt]
        run.ended = self._ready[job] = self.clock.now
        seconds = run.ended - run.began
        for name, units in run.allocation.units.items():
            self.busy[name] = self.busy.get(name, 0.0) + units * max(1, len(run.gang)) * seconds

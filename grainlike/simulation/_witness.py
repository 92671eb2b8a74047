# ruff: noqa: ARG002 - what it is told, and makes nothing of, is for the judge
"""Who sees what truly happens, whatever the minds believe: when jobs ran, and how full the nodes were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grainlike.resources import Allocation, Missing
from grainlike.scheduler import AssignJobs, StartLease
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import JobPlan
from grainlike.wire import Code

__all__ = ["Witness"]


class Witness:
    """Takes note of when jobs began and ended; judges nothing (`Referee` does).

    The world calls it: about jobs by their number at the head, about workers by the number of their incarnation.

    Attributes:
        plans: the plan of each job that was submitted.
        begun: when a job began last.
        last_end: when the last job ended.
        busy: unit-seconds that jobs used, by resource.
        seen: how often each kind of thing happened.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.plans: dict[int, JobPlan] = {}
        self.begun: dict[int, float] = {}
        self.last_end = 0.0
        self.busy: dict[str, float] = {}
        self.seen: Counter[str] = Counter()

    @property
    def passed_over(self) -> tuple[float, int]:
        """How long a job was passed over at most, in seconds, and its number."""
        return (0.0, 0)

    # --- workers -----------------------------------------------------------------------------------------------------

    def joined(self, worker: int, offer: Allocation) -> None:
        """An incarnation of a node was let in."""

    def given_up(self, worker: int) -> None:
        """The head has let go of a worker, which may not know it yet."""
        self.seen["worker given up"] += 1

    def died(self, worker: int) -> None:
        """A node's daemon and all its processes are gone."""
        self.seen["worker died"] += 1

    def runner_died(self, worker: int, runner: int, killer: int) -> None:
        """A process is gone; `killer` is the job that killed it, 0 for none."""
        self.seen["runner died"] += 1

    # --- what the head does ------------------------------------------------------------------------------------------

    def submitted(self, job: int, plan: JobPlan) -> None:
        """A job was accepted."""
        self.plans[job] = plan

    def assigned(self, action: AssignJobs) -> None:
        """Jobs leave the head's queue."""

    def settled(self, job: int, attempt: int, code: int) -> None:
        """An awaiter has its answer."""
        self.seen[f"settled {Code(code).name}"] += 1

    def lost(self, job: int, losses: int) -> None:
        """A job was given up."""
        self.seen["lost"] += 1

    def refused(self, job: int, why: Missing | None) -> None:
        """A job can never run; `why` is what the mind said."""
        self.seen["refused"] += 1

    def cancelled(self, job: int) -> None:
        """Nobody wants a job that was not settled; its awaiters have had their answer."""
        self.seen["cancelled"] += 1

    def pending(self, jobs: Sequence[int]) -> None:
        """There was a warning of jobs that nobody can run yet."""
        self.seen["pending"] += 1

    # --- what the nodes do -------------------------------------------------------------------------------------------

    def granted(self, worker: int, action: StartLease) -> None:
        """Ids were given to jobs."""
        self.seen["run-list" if len(action.jobs) > 1 else "lease"] += 1

    def freed(self, worker: int, lease: int) -> None:
        """They were taken back."""

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """A node has said how an attempt ended; 0 is the attempt of one that stays on the node."""
        self.seen[f"told {Code(code).name}" if attempt else "kept"] += 1

    # --- what is true ------------------------------------------------------------------------------------------------

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """A job's first line runs."""
        self.begun[job] = self.clock.now

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """Its last line has run; `CRASHED` when it was torn away."""
        now = self.last_end = self.clock.now
        seconds = now - self.begun[job]
        for name, units in self.plans[job].request.units.items():
            self.busy[name] = self.busy.get(name, 0.0) + units * seconds

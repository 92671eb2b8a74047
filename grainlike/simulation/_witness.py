# ruff: noqa: ARG002 - what it is told, and makes nothing of, is for the judge
"""Who sees what truly happens, whatever the minds believe: when jobs ran, and how full the nodes were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grainlike.resources import Allocation, Missing, Request, parse_allocation
from grainlike.scheduler import AssembleGang, AssignJobs, CancelJobs, Deadlock, StartLease
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import JobPlan
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait

__all__ = ["Witness"]

_TOLD = {int(code): f"told {code.name}" for code in Code}
_SETTLED = {int(code): f"settled {code.name}" for code in Code}


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
        self._chosen: dict[tuple[int, int], Request] = {}
        """What was granted, by worker and job, where the request left a choice."""

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

    def leaving(self, worker: int) -> None:
        """The head has heard that a worker stops."""
        self.seen["worker leaving"] += 1

    def stalled(self, worker: int) -> None:
        """A daemon, or its link, stands still for a while: it hears nothing, or rings no alarm in time."""
        self.seen["silence"] += 1

    def suspected(self, worker: int) -> None:
        """The head has heard nothing of a worker for long, or lost its link."""
        self.seen["worker suspected"] += 1

    def trusted(self, worker: int) -> None:
        """It has heard of it again."""
        self.seen["worker trusted"] += 1

    def quarantined(self, worker: int) -> None:
        """The head gives a worker nothing new for a while, for it failed too often."""
        self.seen["quarantined"] += 1

    def released(self, worker: int) -> None:
        """And does so again."""

    def told_to_stop(self, worker: int) -> None:
        """A daemon was told to stop."""
        self.seen["worker told to stop"] += 1

    def to_be_ended(self, worker: int, jobs: list[int], attempts: list[int]) -> None:
        """A daemon has heard that nobody wants these any more."""

    def terminating(self, worker: int, runner: int) -> None:
        """A process was told to die."""

    def died(self, worker: int) -> None:
        """A node's daemon and all its processes are gone."""
        self.seen["worker died"] += 1

    def runner_died(self, worker: int, runner: int, killer: int) -> None:
        """A process is gone; `killer` is the job that killed it, 0 for none."""
        self.seen["runner died"] += 1

    def headless(self, worker: int) -> None:
        """A daemon has noticed that the head is gone."""
        self.seen["worker without a head"] += 1

    def at_rest(self, worker: int) -> None:
        """A daemon that was to end what it has says that nothing is left."""

    # --- what the head does ------------------------------------------------------------------------------------------

    def submitted(self, job: int, plan: JobPlan, parent: int = 0) -> None:
        """A job was accepted; `parent` is the job that submitted it, 0 for the user."""
        self.plans[job] = plan

    def assigning(self, jobs: Sequence[int]) -> None:
        """These leave the head's queue at one moment, for whatever workers."""

    def assembled(self, action: AssembleGang) -> None:
        """The job of a gang leaves the head's queue; it is assigned when all its workers hold its slots."""
        self.seen["gang"] += 1

    def assigned(self, action: AssignJobs) -> None:
        """Jobs leave the head's queue."""

    def stopping(self, action: CancelJobs) -> None:
        """A worker is told to stop jobs, or to let go of what it holds for them."""

    def heard(self, worker: int, completed: Completed) -> None:
        """The head is told how attempts ended; it may not believe the worker any more."""

    def lost_with_head(self, job: int) -> None:
        """Nobody will ever know what became of a job: that is what its awaiters are told."""
        self.seen["lost with the head"] += 1

    def head_died(self) -> None:
        """The head is gone, and all that it knew."""
        self.seen["head died"] += 1

    def decided(self) -> None:
        """The head has done all that one event led to."""

    def settled(self, job: int, attempt: int, code: int) -> None:
        """An awaiter has its answer."""
        self.seen[_SETTLED[code]] += 1

    def lost(self, job: int, losses: int) -> None:
        """A job was given up."""
        self.seen["lost"] += 1

    def backed_off(self, job: int, seconds: float) -> None:
        """A job failed or was lost, and waits for so long until it is tried again."""
        self.seen["backed off"] += 1

    def refused(self, job: int, why: Missing | None) -> None:
        """A job can never run; `why` is what the mind said."""
        self.seen["refused"] += 1

    def stuck(self, deadlock: Deadlock) -> None:
        """A job can never start, for others wait in a circle; it is failed for that."""
        self.seen["stuck"] += 1

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
        if len(self.plans[action.jobs[0]].request.options) > 1:
            allocation = parse_allocation(action.allocation)
            self._chosen.update(((worker, job), allocation) for job in action.jobs)

    def held(self, worker: int, start: LeaseStart) -> None:
        """Ids are held for a gang."""
        self.seen["hold"] += 1

    def freed(self, worker: int, lease: int) -> None:
        """They were taken back."""

    def lent(self, worker: int, wait: LeaseWait) -> None:
        """The job of a lease waits, or goes on; what it has lent, or has again."""
        self.seen["lent" if wait.lent else "held"] += 1

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """A node has said how an attempt ended; 0 is the attempt of one that stays on the node."""
        self.seen[_TOLD[code] if attempt else "kept"] += 1

    # --- what is true ------------------------------------------------------------------------------------------------

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """A job's first line runs."""
        self.begun[job] = self.clock.now

    def waits(self, worker: int, job: int) -> None:
        """A job waits for jobs of its own."""

    def went_on(self, worker: int, job: int, allocation: str) -> None:
        """And does so no more; it was told that this is its own."""
        self.seen["went on"] += 1

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """Its last line has run; `CRASHED` when it was torn away."""
        now = self.last_end = self.clock.now
        seconds = now - self.begun[job]
        granted = self._chosen.pop((worker, job), None) if self._chosen else None
        request = granted or self.plans[job].request
        for name, units in request.units.items():
            self.busy[name] = self.busy.get(name, 0.0) + units * request.nodes * seconds

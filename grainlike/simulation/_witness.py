# ruff: noqa: ARG002 - arguments that it does not use are for subclasses, such as the judge
"""Witness: observer of what truly happens in a world, whatever the schedulers know: when jobs ran, and how full nodes
were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from grainlike.resources import Allocation, Missing, Request, parse_allocation
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    Deadlock,
    ReplicasDropped,
    ReplicasSpared,
    StartLease,
)
from grainlike.simulation._clock import Clock
from grainlike.simulation._plans import JobPlan
from grainlike.wire import Code, Completed, LeaseStart, LeaseWait

__all__ = ["Witness"]

_TOLD = {int(code): f"told {code.name}" for code in Code}
_SETTLED = {int(code): f"settled {code.name}" for code in Code}


class Witness:
    """Records when jobs began and ended; checks nothing (a subclass may).

    The world calls its methods, with jobs by their number at the head, and workers by the number of their connection.

    Attributes:
        plans: the plan of each job that was submitted.
        begun: when a job began last.
        last_end: when the last job ended.
        busy: unit-seconds that jobs used, by resource.
        seen: number of occurrences of each kind of event.
        moved: bytes of values that were sent from worker to worker.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.plans: dict[int, JobPlan] = {}
        self.own_sizes: dict[int, int] = {}
        self.begun: dict[int, float] = {}
        self.last_end: float = 0.0
        self.busy: dict[str, float] = {}
        self.seen: Counter[str] = Counter()
        self.moved: int = 0
        self._chosen: dict[tuple[int, int], Request] = {}
        """Granted allocations, by worker and job, of requests that leave a choice."""

    @property
    def passed_over(self) -> tuple[float, int]:
        """The longest time for which a job was passed over, in seconds, and its number."""
        return (0.0, 0)

    # --- workers -----------------------------------------------------------------------------------------------------

    def joined(self, worker: int, offer: Allocation) -> None:
        """Record that the head has accepted a worker."""

    def given_up(self, worker: int) -> None:
        """Record that the head has given up a worker, which may not know it yet."""
        self.seen["worker given up"] += 1

    def leaving(self, worker: int) -> None:
        """Record that the head has received that a worker stops."""
        self.seen["worker leaving"] += 1

    def stalled(self, worker: int) -> None:
        """Record that a daemon, or its link, stands still for a while: it receives nothing, or its timers are late."""
        self.seen["silence"] += 1

    def suspected(self, worker: int) -> None:
        """Record that the head suspects a worker, which is silent or has lost its link."""
        self.seen["worker suspected"] += 1

    def trusted(self, worker: int) -> None:
        """Record that the head has received something of a suspected worker again."""
        self.seen["worker trusted"] += 1

    def quarantined(self, worker: int) -> None:
        """Record that the head gives a worker nothing new for a while, as it failed too often."""
        self.seen["quarantined"] += 1

    def released(self, worker: int) -> None:
        """Record that a worker's quarantine is over."""

    def told_to_stop(self, worker: int) -> None:
        """Record that a daemon was asked to stop."""
        self.seen["worker told to stop"] += 1

    def to_be_ended(self, worker: int, jobs: list[int], attempts: list[int]) -> None:
        """Record that a daemon has received the cancellation of these attempts."""

    def terminating(self, worker: int, runner: int) -> None:
        """Record that a runner's process was asked to die."""

    def died(self, worker: int) -> None:
        """Record that a node's daemon and all its processes are gone."""
        self.seen["worker died"] += 1

    def runner_died(self, worker: int, runner: int, killer: int) -> None:
        """Record that a runner's process is gone; `killer` is the job that killed it, 0 for none."""
        self.seen["runner died"] += 1

    def headless(self, worker: int) -> None:
        """Record that a daemon has noticed that the head is gone."""
        self.seen["worker without a head"] += 1

    def at_rest(self, worker: int) -> None:
        """Record that a daemon that is to stop has no jobs and leases left."""

    # --- the head ----------------------------------------------------------------------------------------------------

    def submitted(self, job: int, plan: JobPlan, parent: int = 0, age: int = 0) -> None:
        """Record that a job was accepted; `parent` is the job that submitted it, 0 for the user."""
        self.plans[job] = plan

    def assigning(self, jobs: Sequence[int]) -> None:
        """Record that these jobs leave the head's queue at one moment, for whatever workers."""

    def assembled(self, action: AssembleGang) -> None:
        """Record that a gang's job leaves the head's queue; it is assigned when all its workers hold its slots."""
        self.seen["gang"] += 1

    def assigned(self, action: AssignJobs) -> None:
        """Record that jobs leave the head's queue."""

    def stopping(self, action: CancelJobs) -> None:
        """Record that a worker is sent a cancellation of jobs, or of slots that it holds for them."""

    def heard(self, worker: int, completed: Completed) -> None:
        """Record that the head receives how attempts ended; it may have given the worker up."""

    def leased(self, worker: int, job: int, attempt: int) -> None:
        """Record that the head hears that an attempt has its slots, which counts."""

    def lost_with_head(self, job: int) -> None:
        """Record that a job is lost for its awaiters, as the head has died."""
        self.seen["lost with the head"] += 1

    def head_died(self) -> None:
        """Record that the head is gone, with all its state."""
        self.seen["head died"] += 1

    def decided(self) -> None:
        """Record that the head has performed all actions of one event."""

    def settled(self, job: int, attempt: int, code: int) -> None:
        """Record that a job's awaiter has its outcome."""
        self.seen[_SETTLED[code]] += 1

    def lost(self, job: int, losses: int) -> None:
        """Record that a job was given up after too many losses."""
        self.seen["lost"] += 1

    def backed_off(self, job: int, seconds: float) -> None:
        """Record that a job failed or was lost, and waits for `seconds` until it is tried again."""
        self.seen["backed off"] += 1

    def refused(self, job: int, why: Missing | None) -> None:
        """Record that a job can never run; `why` is the scheduler's reason."""
        self.seen["refused"] += 1

    def stuck(self, deadlock: Deadlock) -> None:
        """Record that a job was failed for a deadlock."""
        self.seen["stuck"] += 1

    def cancelled(self, job: int) -> None:
        """Record that a job without an outcome was cancelled; its awaiters have had their answer."""
        self.seen["cancelled"] += 1

    def pending(self, jobs: Sequence[int]) -> None:
        """Record a warning about jobs that no worker can run yet."""
        self.seen["pending"] += 1

    # --- values that stay --------------------------------------------------------------------------------------------

    def needs(self, job: int, values: Sequence[int]) -> None:
        """Record which values a job needs that is about to be accepted."""

    def let_go(self, value: int) -> None:
        """Record that the client refers to a value no more."""

    def wanted(self, value: int) -> None:
        """Record that the client wants the bytes of a value."""

    def given(self, value: int) -> None:
        """Record that the client has the bytes of a value."""

    def value_lost(self, value: int) -> None:
        """Record that the client hears that a value is lost."""
        self.seen["value lost"] += 1

    def input_lost(self, job: int, value: int) -> None:
        """Record that a job can never run, as a value is lost."""
        self.seen["input lost"] += 1

    def takes_along(self, job: int, values: Sequence[int]) -> None:
        """Record that a job has these values of the client's own in its arguments."""
        self.seen["takes along"] += 1

    def unfit(self, job: int) -> None:
        """Record that a job can never run, as its inputs fit into no store."""
        self.seen["unfit"] += 1

    def lacked_room(self, worker: int, job: int, attempt: int) -> None:
        """Record that a worker has no room for the value of a job, which fails for that."""
        self.seen["lacked room"] += 1

    def homeless(self, job: int) -> None:
        """Record that the value of a job is not made elsewhere, after it has found no room."""
        self.seen["homeless"] += 1

    def unpaid(self, job: int) -> None:
        """Record that a job is given up that waits for an overdraft which nothing pays back."""
        self.seen["unpaid"] += 1

    def made(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears of a value that stays at a worker, and counts."""
        self.seen["value"] += 1

    def revived(self, job: int) -> None:
        """Record that a job is queued to make its value again."""
        self.seen["revived"] += 1

    def copying(self, source: int, target: int, value: int, attempt: int, size: int, *, relayed: bool) -> None:
        """Record that a value is to be copied from worker to worker, through the head if it is `relayed`."""
        self.seen["copy" if relayed else "direct copy"] += 1
        self.moved += size

    def copied(
        self, source: int, target: int, value: int, attempt: int, *, whole: bool, unreachable: bool = False
    ) -> None:
        """Record that the head hears how a copy has ended; one that was `unreachable` found no way to its source."""
        self.seen["unreachable"] += unreachable

    def added(self, value: int, size: int) -> None:
        """Record that the client has a value of its own, of so many bytes."""
        self.own_sizes[value] = size

    def size_of(self, value: int) -> int:
        """Return the bytes of a value."""
        own = self.own_sizes.get(value)
        return self.plans[value].size if own is None else own

    def own_freed(self, value: int) -> None:
        """The client hears that nothing needs a value of its own."""
        self.seen["own freed"] += 1

    def sparing(self, action: ReplicasSpared) -> None:
        """Record that a worker is told which replicas it may give up, or no longer."""

    def unheard(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head will not hear of a replica, as it has stopped the copy that was whole by then."""
        self.seen["unheard"] += 1

    def evicted(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker has given up a spare replica."""
        self.seen["evicted"] += 1

    def is_used(self, worker: int, value: int) -> bool:
        """Return True if a job that runs at a worker uses a value there."""
        return False

    def replicating(self, value: int, copies: int) -> None:
        """Record that the client asks for replicas of a value, 0 for one at every worker."""
        self.seen["replicate"] += 1

    def replicated(self, value: int) -> None:
        """Record that the client hears that a value has its replicas."""
        self.seen["replicated"] += 1

    def serves(self, worker: int) -> None:
        """Record that others can get values of a worker directly."""

    def limited(self, worker: int, store: int, overdraft: int | None, scratch: int = 0) -> None:
        """Record how many bytes of values a worker may keep in memory and on disk, and may have beyond these; None for
        any number.
        """

    def exceeds(self, worker: int, over: int) -> None:
        """Record that the head hears by how many bytes a worker exceeds what it may keep."""
        self.seen["overdraft"] += bool(over)

    def draining(self, worker: int) -> None:
        """Record that a worker is to end when its jobs have."""
        self.seen["draining"] += 1

    def let_off(self, worker: int) -> None:
        """Record that a worker which drains is told to end."""
        self.seen["let off"] += 1

    def giving(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker is to give a value to the client."""
        self.seen["give"] += 1

    def dropping(self, action: ReplicasDropped) -> None:
        """Record that a worker is sent which replicas to remove."""

    def stored(self, worker: int, value: int, attempt: int, *, is_output: bool) -> None:
        """Record that a worker has a value, whole: a job there gave it, or it was copied."""

    def removed(self, worker: int, value: int, attempt: int) -> None:
        """Record that a worker has removed a value."""

    def damaged(self, worker: int, value: int, attempt: int) -> None:
        """Record that a value is damaged at a worker."""
        self.seen["damage"] += 1

    def heard_gone(self, worker: int, value: int, attempt: int) -> None:
        """Record that the head hears that a worker has lost a value, which it may have again by now."""

    # --- the nodes ---------------------------------------------------------------------------------------------------

    def granted(self, worker: int, action: StartLease) -> None:
        """Record that ids were granted to jobs."""
        self.seen["run-list" if len(action.jobs) > 1 else "lease"] += 1
        if len(self.plans[action.jobs[0]].request.options) > 1:
            allocation = parse_allocation(action.allocation)
            self._chosen.update(((worker, job), allocation) for job in action.jobs)

    def held(self, worker: int, start: LeaseStart) -> None:
        """Record that ids are held for a gang."""
        self.seen["hold"] += 1

    def freed(self, worker: int, lease: int) -> None:
        """Record that a lease, or hold, has ended and its ids are free."""

    def lent(self, worker: int, wait: LeaseWait) -> None:
        """Record that the job of a lease waits, or continues, and what it has lent, or has again."""
        self.seen["lent" if wait.lent else "held"] += 1

    def told(self, worker: int, job: int, attempt: int, code: int) -> None:
        """Record that a node has reported how an attempt ended; attempt 0 marks a job that stays on the node."""
        self.seen[_TOLD[code] if attempt else "kept"] += 1

    # --- the runners -------------------------------------------------------------------------------------------------

    def began(self, worker: int, lease: int, job: int, attempt: int) -> None:
        """Record that a job begins to run."""
        self.begun[job] = self.clock.now

    def waits(self, worker: int, job: int) -> None:
        """Record that a job waits for jobs of its own."""

    def went_on(self, worker: int, job: int, allocation: str) -> None:
        """Record that a job waits no more, and which allocation it was sent."""
        self.seen["went on"] += 1

    def ended(self, worker: int, lease: int, job: int, attempt: int, code: Code) -> None:
        """Record that a job runs no more; `CRASHED` if its process died."""
        now = self.last_end = self.clock.now
        seconds = now - self.begun[job]
        granted = self._chosen.pop((worker, job), None) if self._chosen else None
        request = granted or self.plans[job].request
        for name, units in request.units.items():
            self.busy[name] = self.busy.get(name, 0.0) + units * request.nodes * seconds

"""Runners of one node: which of them are free, which get no more jobs, and how they are ended.

There is at most one *shared* runner that takes leases, for coroutines, and as many processes for one lease at a time as
there are such leases; they are kept for the next. The time limit of a job begins when its process can begin it: the
start of a process does not count, but may not last for ever (`START_S`). The slots of a runner that is *terminating*
are not free until it is gone. A shared one in which a job ignores that it was stopped is *retired*: it keeps the jobs
that it has, and another takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from grainlike.scheduler.node._events import (
    KillRunner,
    NodeAction,
    RunnerKind,
    RunnerRetired,
    SpawnRunner,
    StopJobs,
    TerminateRunner,
)
from grainlike.scheduler.node._lending import Lending
from grainlike.scheduler.node._records import NodeJob, NodeLease, NodeRunner
from grainlike.scheduler.node._timers import Timers
from grainlike.wire import StopReason

__all__ = ["GRACE_S", "Runners"]

GRACE_S = 5.0
"""Seconds from SIGTERM to SIGKILL."""

START_S = 60.0
"""Seconds added to a job's time limit while its process has not reported that it can begin it."""

SOFT_STOP_S = 0.05
"""Seconds that a process with several tiny jobs may take to skip a cancelled one before a barrier is raised for it."""


class Runners:
    """All runners of one node. `killable`: the shared one is a process, which can be killed."""

    __slots__ = ("_all", "_idle", "_killable", "_last", "_lending", "_shared", "_timers", "grace_s", "reason")

    def __init__(self, lending: Lending, timers: Timers, *, killable: bool) -> None:
        self._lending = lending
        self._timers = timers
        self._killable = killable
        self._all: dict[int, NodeRunner] = {}
        self._idle: list[NodeRunner] = []
        self._shared: NodeRunner | None = None
        self._last = 0
        self.grace_s: float | None = None
        """Seconds that jobs which are ended have, if that is not `GRACE_S`."""
        self.reason = StopReason.UNSAID
        """The reason that jobs which are ended from now on are told."""

    @property
    def _grace_s(self) -> float:
        return GRACE_S if self.grace_s is None else self.grace_s

    def shared(self, out: list[NodeAction]) -> NodeRunner:
        """Return the runner that takes coroutines."""
        if self._shared is None:
            self._shared = self._spawn("shared", out)
        return self._shared

    def own(self, out: list[NodeAction]) -> NodeRunner:
        """Return a runner for one lease at a time that has none."""
        return self._idle.pop() if self._idle else self._spawn("own", out)

    def _spawn(self, kind: RunnerKind, out: list[NodeAction]) -> NodeRunner:
        self._last += 1
        runner = self._all[self._last] = NodeRunner(self._last, kind)
        out.append(SpawnRunner(runner.id, kind))
        return runner

    def answered(self, number: int) -> None:
        """Record that a runner has acknowledged a stop."""
        if number in self._all:
            self._all[number].answers = True

    def limit(self, lease: NodeLease, now: float) -> None:
        """Start the time limit of a lease now, with `START_S` more if its process is not known to be up."""
        assert lease.limit_s is not None
        lease.due = now + lease.limit_s + (0.0 if lease.runner.ready else START_S)
        self._timers.add(lease.due, lease.id, "timeout")

    def clock(self, number: int, now: float, *, ready: bool) -> None:
        """Record that a runner's process is up, or is being replaced: the time limits of its leases start again."""
        runner = self._all.get(number)
        if runner is not None:
            runner.ready = ready
            for lease in runner.leases.values():
                if lease.limit_s is not None:
                    self.limit(lease, now)

    def released(self, runner: NodeRunner, out: list[NodeAction]) -> None:
        """Record that a lease of a runner has ended."""
        if runner.kind == "own":
            self._idle.append(runner)
        if runner.retired:
            self.end_retired(runner, out)

    def gone(self, number: int) -> NodeRunner | None:
        """Remove and return a runner that is gone; None for one that is not known."""
        runner = self._all.pop(number, None)
        if runner is None:
            return None
        if runner is self._shared:
            self._shared = None
        if runner in self._idle:
            self._idle.remove(runner)
        return runner

    def stop(self, lease: NodeLease, jobs: Iterable[NodeJob], now: float, out: list[NodeAction]) -> None:
        """Stop jobs of a process that has others too."""
        runner = lease.runner
        out.append(StopJobs(runner.id, [job.id for job in jobs], self.reason))
        if runner.kind == "own":
            self._timers.add(now + SOFT_STOP_S, lease.id, "bar")
        else:
            runner.answers = False
            self._timers.add(now + self._grace_s, lease.id, "retire")

    def terminate(self, lease: NodeLease, now: float, out: list[NodeAction]) -> None:
        """End the process of a lease, and the jobs in it."""
        runner = lease.runner
        if not runner.terminating:
            runner.terminating = True
            self._lending.forget(lease)
            out.append(TerminateRunner(runner.id, self.reason))
            self._timers.add(now + self._grace_s, lease.id, "kill")

    def retire(self, runner: NodeRunner, stalled: Iterable[NodeJob], out: list[NodeAction]) -> None:
        """Give a shared runner no more jobs: the `stalled` ones continue, though stopped, and keep their slots."""
        runner.retired = True
        if runner is self._shared:
            self._shared = None
        out.append(RunnerRetired(runner.id, [job.fn_id for job in stalled]))

    def end_retired(self, runner: NodeRunner, out: list[NodeAction]) -> None:
        """Kill a retired runner once all of its jobs were stopped, or at once when its event loop is blocked."""
        if not runner.retired or runner.terminating:
            return
        worth = [job for lease in runner.leases.values() for job in lease.jobs.values() if job.stopped is None]
        if not runner.leases or (self._killable and (not worth or not runner.answers)):
            runner.terminating = True
            for lease in runner.leases.values():
                self._lending.forget(lease)
            out.append(KillRunner(runner.id))

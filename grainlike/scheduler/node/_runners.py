"""Runners of one node: which of them are free, which get no more jobs, and how they are ended.

There is at most one *shared* runner that takes leases, for coroutines, and as many processes for one lease at a time as
there are such leases; they are kept for the next. The time limit of a job begins when its process can begin it: the
start of a process does not count, but may not last for ever (`START_S`). The slots of a runner that is *terminating*
are not free until it is gone; nor is the memory of devices that an idle one may hold. A shared one in which a job
ignores that it was stopped is *retired*: it keeps the jobs that it has, and another takes its place.

A library of devices keeps what a job has used, and its context, for the next. So a process counts as holding what its
last lease with devices had of them, until it is gone. A lease with devices takes an idle process that holds just these,
whose context serves again. Before it begins, others that hold memory of its devices are ended, and gone: all of them
where it has whole devices; where it has a share, as far as they and what is granted exceed the device. One of them that
holds no more than is granted need not be waited for: the lease is given to it, and its process is replaced before that
begins. Leases without devices leave these processes alone. So of each device, idle processes hold no more than is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import inf

from grainlike.resources import Allocation, Grant, Ledger
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


class _DeviceMemory:
    """Idle processes of one node that may hold memory of devices, and those of them that were told to end."""

    __slots__ = ("_idle", "_leaving", "_ledger")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._idle: list[NodeRunner] = []
        """In the order in which they came free."""
        self._leaving: dict[int, NodeRunner] = {}

    def came_free(self, runner: NodeRunner) -> None:
        """Add a process whose lease has ended."""
        self._idle.append(runner)

    def gone(self, runner: NodeRunner) -> None:
        """Remove a process that is gone."""
        if self._leaving.pop(runner.id, None) is None and runner in self._idle:
            self._idle.remove(runner)

    def take(self, shares: Mapping[int, int]) -> NodeRunner | None:
        """Remove and return the idle process that a lease with these devices is given; None if there is none for it."""
        runner = self._best(shares)
        if runner is not None:
            self._idle.remove(runner)
        return runner

    def _best(self, shares: Mapping[int, int]) -> NodeRunner | None:
        """Return one that holds just these, else one that holds a part of them, and would have to end anyway."""
        last_first = self._idle[::-1]
        same = (runner for runner in last_first if runner.devices == shares)
        return next(same, None) or next((runner for runner in last_first if self._is_too_much(runner, shares)), None)

    def _is_too_much(self, runner: NodeRunner, shares: Mapping[int, int]) -> bool:
        """Return True if an idle process holds memory of these shares alone, and these leave less of it, when granted.

        What one holds beyond them may be granted to others before it is replaced.
        """
        within = all(held <= shares.get(one, 0) for one, held in runner.devices.items())
        return within and any(self._held(one, self._idle) > self._ledger.left_of_device(one) for one in runner.devices)

    def leave(self, shares: Mapping[int, int], *, one_stays: bool) -> list[NodeRunner]:
        """Return the idle processes that have to end before a lease begins to which these shares are granted.

        They count as leaving from now on. With `one_stays` the lease is given one that `take` returns.
        """
        spared = self._best(shares) if one_stays else None
        told: list[NodeRunner] = []
        for one in shares:
            left = self._ledger.left_of_device(one)
            for runner in [idle for idle in self._idle if one in idle.devices and idle is not spared]:
                if self._held(one, self._idle, but=spared) <= left:
                    break
                self._idle.remove(runner)
                told.append(runner)
        self._leaving.update((runner.id, runner) for runner in told)
        return told

    def is_free(self, shares: Mapping[int, int], *, one_stays: bool) -> bool:
        """Return True if a lease to which these shares are granted need not wait for the end of processes."""
        spared = self._best(shares) if one_stays else None
        holders = [*self._idle, *self._leaving.values()]
        return all(self._held(one, holders, but=spared) <= self._ledger.left_of_device(one) for one in shares)

    def _held(self, device: int, runners: Iterable[NodeRunner], but: NodeRunner | None = None) -> int:
        return sum(runner.devices.get(device, 0) for runner in runners if runner is not but)

    def check(self) -> None:
        """Raise `AssertionError` unless the rule holds."""
        for one in self._ledger.capacity.gpus:
            held, left = self._held(one, self._idle), self._ledger.left_of_device(one)
            assert held <= left, f"idle processes may hold {held} of device {one}, of which {left} is free"
        assert all(runner.devices and not runner.terminating for runner in self._idle)


class Runners:
    """All runners of one node. `killable`: the shared one is a process, which can be killed."""

    __slots__ = (
        "_all", "_device_memory", "_idle", "_killable", "_last", "_lending", "_shared", "_timers",
        "grace_s", "leaving", "reason",
    )  # fmt: skip

    def __init__(self, lending: Lending, timers: Timers, ledger: Ledger, *, killable: bool) -> None:
        self._lending = lending
        self._timers = timers
        self._killable = killable
        self._all: dict[int, NodeRunner] = {}
        self._idle: list[NodeRunner] = []
        """Those that have had no devices."""
        self._device_memory = _DeviceMemory(ledger)
        self.leaving: deque[tuple[float, int]] = deque()
        """When idle ones that were told to end are killed."""
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

    def own(self, grant: Grant, out: list[NodeAction], *, devices: bool) -> NodeRunner:
        """Return a runner for one lease at a time that has none; one with `devices` is given what `make_room` left."""
        warm = self._device_memory.take(_shares_of(grant.allocation)) if devices else None
        if warm is not None:
            return warm
        return self._idle.pop() if self._idle else self._spawn("own", out)

    def make_room(self, grant: Grant, now: float, out: list[NodeAction], *, starts: bool = True) -> bool:
        """End idle processes that may hold memory of the devices of a grant; return True if there are none any more.

        `starts`: a lease begins on it now, and is given one of them, or is refused; else slots are held for a gang.
        """
        shares = _shares_of(grant.allocation)
        for runner in self._device_memory.leave(shares, one_stays=starts):
            runner.terminating = True
            out.append(TerminateRunner(runner.id, self.reason))
            self.leaving.append((now + self._grace_s, runner.id))
        return self._device_memory.is_free(shares, one_stays=starts)

    def hold_devices(self, runner: NodeRunner, grant: Grant) -> bool:
        """Record that a runner is given devices; return True if it may hold other memory than these of its own."""
        before, runner.devices = runner.devices, _shares_of(grant.allocation)
        return bool(before) and before != runner.devices

    @property
    def kills_at(self) -> float:
        """When the next idle process is killed that does not end."""
        return self.leaving[0][0] if self.leaving else inf

    def kill_overdue(self, now: float, out: list[NodeAction]) -> None:
        """Kill idle processes that were told to end, and have not."""
        while self.kills_at <= now:
            out.append(KillRunner(self.leaving.popleft()[1]))

    def _spawn(self, kind: RunnerKind, out: list[NodeAction]) -> NodeRunner:
        self._last += 1
        runner = self._all[self._last] = NodeRunner(self._last, kind)
        out.append(SpawnRunner(runner.id, kind))
        return runner

    def answered(self, number: int) -> None:
        """Record that a runner has acknowledged a stop."""
        if number in self._all:
            self._all[number].answers = True

    def limit(self, lease: NodeLease, now: float, least_s: float = 0.0) -> None:
        """Start now the time limit of a lease's first unended job, if that has one, with `START_S` more if its process
        is not known to be up. It passes after `least_s` at the earliest.
        """
        lease.clocked, lease.due = next((job for job in lease.unended() if not job.gone), None), inf
        if lease.clocked is not None and lease.clocked.limit_s is not None:
            limit_s = max(lease.clocked.limit_s, least_s)
            lease.due = now + limit_s + (0.0 if lease.runner.ready else START_S)
            self._timers.add(lease.due, lease.id, "timeout")

    def limit_again(self, number: int, now: float, *, ready: bool) -> None:
        """Record that a runner's process is up, or is being replaced: the time limits of its leases start again."""
        runner = self._all.get(number)
        if runner is not None:
            runner.ready = ready
            for lease in runner.leases.values():
                if lease.clocked is not None:
                    self.limit(lease, now)

    def released(self, runner: NodeRunner, out: list[NodeAction]) -> None:
        """Record that a lease of a runner has ended."""
        if runner.devices:
            self._device_memory.came_free(runner)
        elif runner.kind == "own":
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
        if runner.devices:
            self._device_memory.gone(runner)
        if self.leaving:
            self.leaving = deque(pair for pair in self.leaving if pair[1] != number)
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

    def check(self) -> None:
        """Raise `AssertionError` unless what idle processes may hold of devices is free, and each is idle once."""
        self._device_memory.check()
        assert not any(runner.devices or runner.leases or runner.terminating for runner in self._idle)


def _shares_of(allocation: Allocation) -> dict[int, int]:
    """Return how much of each device an allocation has, in nano-units."""
    devices = allocation.gpus
    return dict.fromkeys(devices, allocation.units["gpus"] // len(devices)) if devices else {}

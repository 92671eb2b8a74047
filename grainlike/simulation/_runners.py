"""Simulated runner processes: they run what they are given, answer, and die. They contain no policy.

They imitate what a node scheduler can observe: one run-list at a time and the shared-memory claims of an *own* runner,
many at once in a *shared* one, outcomes that are collected for a millisecond and lost with the process, and SIGTERM
that a job may ignore.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Protocol

from grainlike.scheduler import ResumeJob, StartLease
from grainlike.simulation._channel import Channel
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.simulation._lease import RunList
from grainlike.simulation._nests import Call
from grainlike.simulation._plans import JobPlan, Network
from grainlike.simulation._witness import Witness
from grainlike.wire import Code, Completed

__all__ = ["Home", "OwnRunner", "Runner", "SharedRunner"]

_NO_BARRIER = 1 << 30
_IDLE = -1


class Home(Protocol):
    """The daemon as its runners use it."""

    worker: int
    rate: float
    clock: Clock
    dice: Dice
    network: Network
    witness: Witness

    def lacks(self, job: int) -> list[int]:
        """Return the values that a job needs and that are not here."""
        ...

    def needs_room(self, job: int) -> bool:
        """Return True if a job's value needs room before the job has ended."""
        ...

    def runner_asks(self, runner: int, job: int, attempt: int) -> None:
        """Handle that a job's value needs room."""

    def runner_says(self, runner: int, completed: Completed) -> None:
        """Handle outcomes that came through the pipe."""

    def runner_calls(self, runner: int, job: int, attempt: int, calls: list[Call]) -> None:
        """Handle jobs that a job submits."""

    def runner_withdraws(self, job: int, attempt: int, children: list[int]) -> None:
        """Handle that a job cancels some of its own jobs."""

    def runner_awaits(self, runner: int, job: int, attempt: int, heard: int) -> None:
        """Handle that a job waits for its own jobs, and has received `heard` outcomes."""

    def runner_goes_on(self, runner: int, job: int, attempt: int, heard: int) -> None:
        """Handle that a job need not wait any more."""

    def runner_answered(self, runner: int) -> None:
        """Handle that a shared runner has acknowledged a stop: its event loop is not blocked."""

    def runner_ready(self, runner: int) -> None:
        """Handle that a runner is about to begin its first job, or the first one with a time limit."""

    def runner_gone(self, runner: int, how: str, started: int, *, never_spawned: bool = False) -> None:
        """Handle that the process was reaped."""


class _Nest:
    """State of a job that submits jobs: the current batch, and the jobs of it that it waits for."""

    __slots__ = ("batch", "begun", "children", "failed", "heard", "index", "lease", "left", "waits")

    def __init__(self, lease: RunList, begun: float) -> None:
        self.lease = lease
        self.index = lease.index
        self.begun = begun
        self.batch = 0
        self.children = 0
        self.left: set[int] = set()
        self.heard = 0
        self.waits = False
        self.failed = False


class Runner(ABC):
    """Base of both kinds of runner. Messages to a dead one are lost, as bytes in a broken pipe are."""

    __slots__ = ("_clock", "_inbox", "_nests", "_outbox", "alive", "home", "ready", "runner", "since", "started", "up")

    def __init__(self, home: Home, runner: int) -> None:
        self.home = home
        self.runner = runner
        self.alive = True
        self.up = False
        self.ready = False
        self.started = _IDLE
        self.since: float | None = None
        """True time at which the job at `started` was claimed, if it has a time limit."""
        self._clock = home.clock
        self._inbox = Channel(home.clock, home.dice, home.network.pipe)
        self._outbox = Channel(home.clock, home.dice, home.network.pipe)
        self._inbox.hold()
        self._nests: dict[int, _Nest] = {}

    def come_up(self) -> None:
        """Start: the process is up and reads its pipe."""
        if self.alive:
            self.up = True
            self._inbox.release()

    def run(self, action: StartLease) -> None:
        """Send a run-list."""
        if self.alive:
            self._inbox.send(self._take, action)

    def stop(self, jobs: list[int]) -> None:
        """Send a cancellation."""
        if self.alive:
            self._inbox.send(self._stop, jobs)

    def outcomes(self, parent: int, attempt: int, ends: list[tuple[int, bool]]) -> None:
        """Send outcomes of a job's own jobs."""
        if self.alive:
            self._inbox.send(self._hear_outcomes, parent, attempt, ends)

    def resume(self, action: ResumeJob) -> None:
        """Send that a job may continue."""
        if self.alive:
            self._inbox.send(self._go_on_with, action)

    def room_told(self, job: int, attempt: int, has_room: bool) -> None:
        """Send whether there is room for a job's value."""
        if self.alive:
            self._inbox.send(self._placed, job, attempt, has_room)

    def bar(self) -> None:  # noqa: B027 - only some kinds have barriers
        """Keep the runner from starting more jobs."""

    def unbar(self) -> None:  # noqa: B027 - see `bar`
        """Let a new run-list start."""

    def terminate(self) -> None:
        """Receive SIGTERM."""
        self.die("SIGTERM")

    def die(self, how: str, killer: int = 0) -> None:
        """End the process. What it had written is still read; then the daemon sees the end."""
        if not self.alive:
            return
        gone = partial(self.home.runner_gone, never_spawned=not self.up)
        self._vanish(killer)
        self._outbox.send(gone, self.runner, how, self.started)

    def vanish(self) -> None:
        """End the process together with the daemon: nothing more is read."""
        if self.alive:
            self._vanish(0)
            self._outbox.cut()

    def _vanish(self, killer: int) -> None:
        self.alive = False
        self._inbox.cut()
        for lease in self._lists():
            if lease.running:
                lease.running = False
                self.home.witness.ended(self.home.worker, lease.lease, lease.job, lease.attempt, Code.CRASHED)
        self.home.witness.runner_died(self.home.worker, self.runner, killer)

    # --- differences between the kinds -------------------------------------------------------------------------------

    @abstractmethod
    def _lists(self) -> list[RunList]:
        """Return the current run-lists."""

    @abstractmethod
    def _take(self, action: StartLease) -> None:
        """Receive a lease."""

    @abstractmethod
    def _stop(self, jobs: list[int]) -> None:
        """Cancel jobs in this runner."""

    @abstractmethod
    def _go_on(self, lease: RunList) -> None:
        """Start the next job of the run-list, or end it."""

    def _tell_ready(self) -> None:
        """Report once that a job begins; a process that came up late was not ready before."""
        if not self.ready:
            self.ready = True
            self._outbox.send(self.home.runner_ready, self.runner)

    # --- one job -----------------------------------------------------------------------------------------------------

    def _begin(self, lease: RunList) -> JobPlan:
        home, job = self.home, lease.job
        plan = home.witness.plans[job]
        lease.running = True
        home.witness.began(home.worker, lease.lease, job, lease.attempt)
        if plan.calls:
            nest = self._nests[job] = _Nest(lease, self._clock.now)
            self._clock.after(plan.seconds / (len(plan.calls) + 1), self._call, job, nest)
        else:
            self._clock.after(plan.seconds, self._end, lease, lease.index, self._clock.now)
        return plan

    def _end(self, lease: RunList, index: int, begun: float) -> None:
        """End the job at `index` in its planned way, unless it has ended otherwise."""
        if not self.alive or not lease.running or lease.index != index:
            return
        job, attempt = lease.job, lease.attempt
        plan = self.home.witness.plans[job]
        if attempt <= plan.kills:
            self.die("SIGSEGV", killer=job)
        else:
            self._ran(lease, Code.FAILED if attempt <= plan.raises else Code.SUCCEEDED, begun)

    # --- jobs of its own ---------------------------------------------------------------------------------------------

    def _call(self, job: int, nest: _Nest) -> None:
        """Submit the next batch, and wait for it."""
        if not self.alive or self._nests.get(job) is not nest:
            return
        plans = self.home.witness.plans[job].calls[nest.batch]
        calls = [(nest.children + at, plan) for at, plan in enumerate(plans)]
        nest.children += len(plans)
        nest.left = {child for child, _ in calls}
        nest.waits = True
        self._outbox.send(self.home.runner_calls, self.runner, job, nest.lease.attempt, calls)
        self._outbox.send(self.home.runner_awaits, self.runner, job, nest.lease.attempt, nest.heard)
        self.home.witness.waits(self.home.worker, job)

    def _hear_outcomes(self, job: int, attempt: int, ends: list[tuple[int, bool]]) -> None:
        nest = self._nests.get(job)
        if nest is None or nest.lease.attempt != attempt:
            return
        nest.heard += len(ends)
        nest.left.difference_update(child for child, _ in ends)
        nest.failed = nest.failed or not all(ok for _, ok in ends)
        if nest.failed:
            self._withdraw(job, nest)
        if not nest.waits:
            return
        if nest.left:
            self._outbox.send(self.home.runner_awaits, self.runner, job, attempt, nest.heard)
        else:
            nest.waits = False
            self._outbox.send(self.home.runner_goes_on, self.runner, job, attempt, nest.heard)

    def _withdraw(self, job: int, nest: _Nest) -> None:
        if nest.left:
            self._outbox.send(self.home.runner_withdraws, job, nest.lease.attempt, sorted(nest.left))
            nest.left.clear()

    def _go_on_with(self, action: ResumeJob) -> None:
        nest = self._nests.get(action.job)
        if nest is None or nest.lease.attempt != action.attempt:
            return
        self.home.witness.went_on(self.home.worker, action.job, action.allocation)
        plan = self.home.witness.plans[action.job]
        nest.batch += 1
        seconds = plan.seconds / (len(plan.calls) + 1)
        if nest.failed:
            self._ran(nest.lease, Code.FAILED, nest.begun)
        elif nest.batch < len(plan.calls):
            self._clock.after(seconds, self._call, action.job, nest)
        else:
            self._clock.after(seconds, self._end, nest.lease, nest.index, nest.begun)

    def _interrupt(self, lease: RunList) -> None:
        """Cancel the running job, which reacts as planned."""
        plan = self.home.witness.plans[lease.job]
        if plan.on_stop != "goes on":
            nest = self._nests.pop(lease.job, None)
            if nest is not None:
                self._withdraw(lease.job, nest)
            code = Code.CANCELLED if plan.on_stop == "ends" else Code.SUCCEEDED
            stop = self.home.network.stop
            clean_up = self.home.dice.between(stop.least, stop.most)
            self._clock.after(clean_up, self._interrupted, lease, lease.index, code)

    def _interrupted(self, lease: RunList, index: int, code: Code) -> None:
        if self.alive and lease.running and lease.index == index:
            if lease.places:
                self._ended(lease, Code.CANCELLED, self._clock.now)
            else:
                self._ran(lease, code, self._clock.now)

    def _ran(self, lease: RunList, code: Code, begun: float) -> None:
        """End the job at `index`, or let its value wait for room first."""
        if code != Code.SUCCEEDED or not self.home.needs_room(lease.job):
            self._ended(lease, code, begun)
        elif not lease.places:
            lease.places = True
            lease.began_at = begun
            self._outbox.send(self.home.runner_asks, self.runner, lease.job, lease.attempt)
            self._placing()

    def _placing(self) -> None:  # noqa: B027 - see `bar`
        """Handle that a job waits for room from now on."""

    def _placed(self, job: int, attempt: int, has_room: bool) -> None:
        for lease in self._lists():
            if lease.places and (lease.job, lease.attempt) == (job, attempt):
                self._ended(lease, Code.SUCCEEDED if has_room else Code.FAILED, lease.began_at)
                return

    def _ended(self, lease: RunList, code: Code, begun: float) -> None:
        lease.places = False
        now, home, job = self._clock.now, self.home, lease.job
        if self._nests:
            self._nests.pop(job, None)
        home.witness.ended(home.worker, lease.lease, job, lease.attempt, code)
        lease.ran(code, begun, (now - begun) * home.rate)
        if lease.due(now):
            self._flush(lease)
        self._go_on(lease)

    def _flush(self, lease: RunList) -> None:
        completed = lease.take(self._clock.now)
        if completed is not None:
            self._outbox.send(self.home.runner_says, self.runner, completed)


class OwnRunner(Runner):
    """Runner of plain functions: one run-list at a time, the next job claimed in memory shared with the daemon."""

    __slots__ = ("_asked", "_barrier", "_current", "_queue")

    def __init__(self, home: Home, runner: int) -> None:
        super().__init__(home, runner)
        self._queue: list[RunList] = []
        self._current: RunList | None = None
        self._barrier = _NO_BARRIER
        self._asked = False

    def bar(self) -> None:
        self._barrier = self.started + 1

    def unbar(self) -> None:
        self._barrier = _NO_BARRIER

    def terminate(self) -> None:
        self._asked = True
        if self._current is None or not self.up:
            self.die("SIGTERM")
        elif self._current.running:
            self._interrupt(self._current)

    def _lists(self) -> list[RunList]:
        return [self._current] if self._current is not None else []

    def _take(self, action: StartLease) -> None:
        if action.limit is not None:
            self._tell_ready()
        self._queue.append(RunList(action, self._clock.now))
        if self._current is None:
            self._next()

    def _next(self) -> None:
        if self._queue:
            self._current = self._queue.pop(0)
            self._go_on(self._current)

    def _stop(self, jobs: list[int]) -> None:
        for lease in [*self._lists(), *self._queue]:
            lease.stop(jobs)

    def _go_on(self, lease: RunList) -> None:
        while lease.index < lease.end:
            self.started, self.since = lease.index, self._clock.now if lease.limited else None
            if self._asked or lease.index >= self._barrier:
                lease.hand_back(lease.index)
            elif lease.job in lease.stopped:
                lease.skip()
            elif self.home.lacks(lease.job):
                lease.miss()
            else:
                self._begin(lease)
                return
        self._flush(lease)
        rest = self.home.network.rest
        if rest.most:
            self._clock.after(self.home.dice.between(rest.least, rest.most), self._rest)
        else:
            self._rest()

    def _rest(self) -> None:
        if not self.alive:
            return
        self._current, self.started = None, _IDLE
        if self._asked:
            self.die("SIGTERM")
        else:
            self._next()


class SharedRunner(Runner):
    """Runner of coroutines: every run-list is a task. A job that awaits hands back those behind it."""

    __slots__ = ("_task_of", "_tasks", "_unanswered")

    def __init__(self, home: Home, runner: int) -> None:
        super().__init__(home, runner)
        self._tasks: dict[int, RunList] = {}
        self._task_of: dict[int, RunList] = {}
        self._unanswered = False

    def _lists(self) -> list[RunList]:
        return list(self._tasks.values())

    def _take(self, action: StartLease) -> None:
        self._tell_ready()
        lease = self._tasks[action.lease] = RunList(action, self._clock.now)
        self._task_of.update(dict.fromkeys(lease.jobs, lease))
        self._go_on(lease)

    def _stop(self, jobs: list[int]) -> None:
        for job in jobs:
            lease = self._task_of.get(job)
            if lease is not None and job not in lease.stopped:
                lease.stop([job])
                awaits = lease.places or self.home.witness.plans[lease.job].awaits
                if lease.running and lease.job in lease.stopped and awaits:
                    self._interrupt(lease)
        self._unanswered = True
        self._answer()

    def _answer(self) -> None:
        """Acknowledge a stop, as soon as no job blocks the event loop."""
        plans = self.home.witness.plans
        running = (lease for lease in self._lists() if lease.running)
        if self._unanswered and all(lease.places or plans[lease.job].awaits for lease in running):
            self._unanswered = False
            self._outbox.send(self.home.runner_answered, self.runner)

    def _placing(self) -> None:
        self._answer()

    def _ended(self, lease: RunList, code: Code, begun: float) -> None:
        super()._ended(lease, code, begun)
        self._answer()

    def _go_on(self, lease: RunList) -> None:
        while lease.index < lease.end:
            if lease.job in lease.stopped:
                lease.skip()
                continue
            if self.home.lacks(lease.job):
                lease.miss()
                continue
            if self._begin(lease).awaits:
                self._flush(lease)  # not with those that have ended before it: only its function is one that awaits
                lease.suspended()
                self._flush(lease)
            return
        self._flush(lease)
        del self._tasks[lease.lease]
        for job in lease.jobs:
            if self._task_of.get(job) is lease:
                del self._task_of[job]

"""The body of one node, without the waiting: the same `NodeMind`, imitated runners, a channel each way."""

from __future__ import annotations

from typing import Protocol

from grainlike.scheduler import (
    BarrierHeld,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeMind,
    RaiseBarrier,
    RunnerCompleted,
    RunnerGone,
    SpawnRunner,
    StartLease,
    StopJobs,
    TellCompleted,
    TellEnded,
    TellStarted,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.simulation._channel import Channel
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.simulation._plans import Faults, Network, NodePlan
from grainlike.simulation._runners import OwnRunner, Runner, SharedRunner
from grainlike.simulation._witness import Witness
from grainlike.wire import Completed, LeaseStart

__all__ = ["Daemon", "Stage"]

BARRIER_S = 0.002
"""How long a barrier stands before what a runner has claimed is believed."""


class Stage(Protocol):
    """What the bodies need of the world around them."""

    clock: Clock
    dice: Dice
    network: Network
    faults: Faults
    witness: Witness

    def noted(self, who: str, event: object, actions: list[NodeAction], mind: NodeMind) -> None:
        """A mind has answered."""

    def report(self, worker: int, started: list[LeaseStart], completed: list[Completed], ended: list[int]) -> None:
        """A report has come through the channel to the head."""


class Daemon:
    """One incarnation of one node. `up` is its channel to the head.

    A frozen daemon hears everything later, in order; a dead one hears nothing.
    """

    def __init__(self, stage: Stage, worker: int, plan: NodePlan) -> None:
        self.worker = worker
        self.plan = plan
        self.rate = plan.rate
        self.clock = stage.clock
        self.dice = stage.dice
        self.network = stage.network
        self.witness = stage.witness
        self.mind = NodeMind(plan.offer)
        self.up = Channel(stage.clock, stage.dice, stage.network.link)
        self.runners: dict[int, Runner] = {}
        self.alive = True
        self.frozen = False
        self._stage = stage
        self._name = f"worker {worker}"
        self._missed: list[NodeEvent] = []
        self._alarm: float | None = None
        self._started: list[LeaseStart] = []
        self._completed: list[Completed] = []
        self._ended: list[int] = []

    # --- what is heard -----------------------------------------------------------------------------------------------

    def hear(self, event: NodeEvent) -> None:
        """Take a message of the head, or what happened here."""
        if self.frozen:
            self._missed.append(event)
        elif self.alive:
            self._tell(event)

    def runner_says(self, runner: int, completed: Completed) -> None:
        """See `Home`."""
        self.hear(RunnerCompleted(runner, completed))

    def runner_gone(self, runner: int, how: str, started: int) -> None:
        """See `Home`."""
        self.hear(RunnerGone(runner, how, started))

    def thaw(self) -> None:
        """Hear what was missed."""
        self.frozen = False
        missed, self._missed = self._missed, []
        for event in missed:
            self.hear(event)

    def die(self) -> None:
        """SIGKILL: its runners die with it."""
        self.alive = self.frozen = False
        for runner in self.runners.values():
            runner.vanish()
        self.witness.died(self.worker)

    def local(self, true: float) -> float:
        """What its clock shows."""
        return self.plan.offset + self.plan.rate * true

    # --- what the mind says ------------------------------------------------------------------------------------------

    def _tell(self, event: NodeEvent, not_before: float = float("-inf")) -> None:
        if isinstance(event, RunnerGone):
            self.runners.pop(event.runner, None)
        actions = self.mind.handle(event, max(self.local(self.clock.now), not_before))
        self._stage.noted(self._name, event, actions, self.mind)
        for action in actions:
            self._act(action)
        self._report()

    def _act(self, action: NodeAction) -> None:
        match action:
            case StartLease():
                self.witness.granted(self.worker, action)
                runner = self.runners[action.runner]
                runner.unbar()
                runner.run(action)
            case TellStarted():
                self._started.append(action.start)
            case TellCompleted(completed=completed):
                self._completed.append(completed)
                for job, attempt, code in zip(completed.jobs, completed.attempts, completed.codes, strict=True):
                    self.witness.told(self.worker, job, attempt, code)
            case TellEnded():
                self.witness.freed(self.worker, action.lease)
                self._ended.append(action.lease)
            case SpawnRunner():
                self._spawn(action)
            case StopJobs():
                self.runners[action.runner].stop(action.jobs)
            case RaiseBarrier():
                self.runners[action.runner].bar()
                self.clock.after(BARRIER_S, self._barrier_stood, action)
            case TerminateRunner():
                self.runners[action.runner].terminate()
            case KillRunner():
                self.runners[action.runner].die("SIGKILL")
            case WakeAt():
                self._wake(action.at)

    def _report(self) -> None:
        if self._started or self._completed or self._ended:
            self.up.send(self._stage.report, self.worker, self._started, self._completed, self._ended)
            self._started, self._completed, self._ended = [], [], []

    # --- runners -----------------------------------------------------------------------------------------------------

    def _spawn(self, action: SpawnRunner) -> None:
        runner = (SharedRunner if action.kind == "shared" else OwnRunner)(self, action.runner)
        self.runners[action.runner] = runner
        spawn = self.network.spawn
        seconds = self.dice.between(spawn.least, spawn.most) if spawn.most > spawn.least else spawn.least
        if self.dice.chance(self._stage.faults.spawn_fails) and self.clock.now < self._stage.faults.until:
            self.clock.after(seconds, runner.die, "no process could be started")
        else:
            self.clock.after(seconds, runner.come_up)

    def _barrier_stood(self, action: RaiseBarrier) -> None:
        if not self.alive:
            return
        if self.frozen:  # a daemon that is stopped looks later
            self.clock.after(BARRIER_S, self._barrier_stood, action)
            return
        runner = self.runners.get(action.runner)
        if runner is not None and runner.started >= 0:
            self.hear(BarrierHeld(action.runner, action.lease, runner.started))

    # --- time --------------------------------------------------------------------------------------------------------

    def _wake(self, at: float) -> None:
        if self._alarm is None or at < self._alarm:
            self._alarm = at
            self.clock.at((at - self.plan.offset) / self.plan.rate, self._ring, at)

    def _ring(self, at: float) -> None:
        if self._alarm != at or not self.alive:
            return
        if self.frozen:
            self.clock.after(0.1, self._ring, at)
            return
        self._alarm = None
        self._tell(Ticked(), not_before=at)

"""Simulated daemon: the driver of one node without real waiting, around the real `NodeScheduler`, with simulated
runners and a channel each way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from grainlike.scheduler import (
    BarrierHeld,
    JobAwaits,
    JobGoesOn,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeScheduler,
    NodeStopped,
    RaiseBarrier,
    ResumeJob,
    RunnerAnswered,
    RunnerCompleted,
    RunnerGone,
    RunnerReady,
    SpawnRunner,
    StartLease,
    StopJobs,
    TellCompleted,
    TellEnded,
    TellHeld,
    TellStarted,
    TellWaits,
    TerminateRunner,
    Ticked,
    WakeAt,
)
from grainlike.simulation._clock import Clock
from grainlike.simulation._dice import Dice
from grainlike.simulation._nests import Call
from grainlike.simulation._plans import Faults, Network, NodePlan
from grainlike.simulation._runners import OwnRunner, Runner, SharedRunner
from grainlike.simulation._voice import Voice
from grainlike.simulation._witness import Witness
from grainlike.wire import Cancel, Code, Completed, LeaseStart, LeaseWait, Need

if TYPE_CHECKING:  # few worlds have it, and a command that runs none of these loads less
    from grainlike.simulation._store import SimulatedStore

__all__ = ["Daemon", "Stage", "Transfer"]

BARRIER_S = 0.002
"""Seconds for which a barrier stands before the position that a runner has claimed is reported."""


_LONG_AGO = float("-inf")


class Stage(Protocol):
    """The world as daemons use it."""

    clock: Clock
    dice: Dice
    network: Network
    faults: Faults
    witness: Witness

    def noted(self, who: str, event: object, actions: list[NodeAction], scheduler: NodeScheduler) -> None:
        """Record one step of a scheduler."""

    def report(
        self,
        worker: int,
        started: list[LeaseStart],
        completed: list[Completed],
        ended: list[int],
        waits: list[LeaseWait],
    ) -> None:
        """Deliver a report to the head."""

    def nested(self, worker: int, parent: int, attempt: int, calls: list[Call]) -> None:
        """Deliver to the head the jobs that a job submits."""

    def withdrawn(self, worker: int, parent: int, attempt: int, children: list[int]) -> None:
        """Deliver to the head which of its own jobs a job cancels."""

    def leaving(self, worker: int) -> None:
        """Deliver to the head that a worker stops."""


class Transfer(NamedTuple):
    """Copy of a value that was asked for. It is known by its identity: a later one may be equal to it."""

    source: int
    target: int
    value: int
    attempt: int
    size: int


class Daemon:
    """A node's daemon, from its start to its death. `up` is its channel to the head.

    A frozen daemon handles everything later, in order; a dead one handles nothing.
    """

    __slots__ = (
        "_alarm",
        "_asked",
        "_completed",
        "_ended",
        "_missed",
        "_name",
        "_nests",
        "_offset",
        "_refused",
        "_stage",
        "_started",
        "_waits",
        "_when_idle",
        "alive",
        "clock",
        "coming",
        "dice",
        "frozen",
        "may_keep",
        "needs",
        "network",
        "on_departure",
        "on_stored",
        "over",
        "plan",
        "rate",
        "rooms",
        "runners",
        "scheduler",
        "spares",
        "store",
        "up",
        "used_at",
        "witness",
        "worker",
    )

    def __init__(self, stage: Stage, worker: int, plan: NodePlan) -> None:
        self.worker: int = worker
        self.plan: NodePlan = plan
        self.rate: float = plan.rate
        self._offset = plan.offset
        self.clock: Clock = stage.clock
        self.dice: Dice = stage.dice
        self.network: Network = stage.network
        self.witness: Witness = stage.witness
        self.scheduler: NodeScheduler = NodeScheduler(plan.offer)
        self.up: Voice = Voice(stage.clock, stage.dice, stage.network.link, lasts=bool(stage.faults.blink))
        self.runners: dict[int, Runner] = {}
        self.store: set[tuple[int, int]] = set()
        """Values that stay here, with the attempts that made them."""
        self.spares: set[tuple[int, int]] = set()
        """Those of them that it may give up."""
        self.used_at: dict[tuple[int, int], float] = {}
        """When each that came, or that a job used, came or was used last."""
        self.coming: dict[tuple[int, int], Transfer] = {}
        """Copies that have room here, by what they bring."""
        self.over: int = 0
        """Bytes that it has beyond what it may keep."""
        self.on_stored: Callable[[Daemon], None] | None = None
        """Function that looks at what it keeps, if that is limited."""
        self.may_keep: Callable[[Daemon, int], bool] | None = None
        """Function that says whether it has room for so many bytes of a job, if that is limited."""
        self.rooms: SimulatedStore | None = None
        """Its store, if that has the real scheduler."""
        self._asked: dict[tuple[int, int], int] = {}
        """Runners of the jobs whose values asked for room and have not come, by job and attempt."""
        self._refused: set[tuple[int, int]] = set()
        """Those that have none."""
        self.needs: dict[int, list[Need]] = {}
        self.alive: bool = True
        self.frozen: bool = False
        self._stage = stage
        self._name = f"worker {worker}"
        self._missed: list[Callable[[], None]] = []
        self._nests: dict[int, int] = {}
        """Runners of jobs that have submitted jobs, by job."""
        self._alarm: float | None = None
        self._started: list[LeaseStart] = []
        self._completed: list[Completed] = []
        self._ended: list[int] = []
        self._waits: list[LeaseWait] = []
        self._when_idle: Callable[[Daemon], None] | None = None
        self.on_departure: Callable[[Daemon], None] | None = None
        """Function that stops it when the head says that it may end."""

    # --- messages received -------------------------------------------------------------------------------------------

    def hear(self, event: NodeEvent) -> None:
        """Handle a message of the head, or an event of this node."""
        if self.frozen:
            self._missed.append(partial(self.hear, event))
        elif self.alive:
            self._tell(event)

    def depart(self) -> None:
        """Handle that the head tells it to end."""
        if self.frozen:
            self._missed.append(self.depart)
        elif self.alive and self.on_departure is not None:
            self.on_departure(self)

    def outcomes(self, parent: int, attempt: int, ends: list[tuple[int, bool]]) -> None:
        """Pass outcomes of a job's own jobs to its runner."""
        if self.frozen:
            self._missed.append(partial(self.outcomes, parent, attempt, ends))
        elif self.alive:
            runner = self.runners.get(self._nests.get(parent, 0))
            if runner is not None:
                runner.outcomes(parent, attempt, ends)

    def runner_calls(self, runner: int, job: int, attempt: int, calls: list[Call]) -> None:
        """Send the jobs that a job submits to the head."""
        if self.frozen:
            self._missed.append(partial(self.runner_calls, runner, job, attempt, calls))
        elif self.alive:
            self._nests[job] = runner
            self.up.send(self._stage.nested, self.worker, job, attempt, calls)

    def runner_withdraws(self, job: int, attempt: int, children: list[int]) -> None:
        """Send the head which of its own jobs a job cancels."""
        if self.frozen:
            self._missed.append(partial(self.runner_withdraws, job, attempt, children))
        elif self.alive:
            self.up.send(self._stage.withdrawn, self.worker, job, attempt, children)

    def runner_awaits(self, runner: int, job: int, attempt: int, heard: int) -> None:
        """Handle that a job waits for its own jobs."""
        self.hear(JobAwaits(runner, job, attempt, heard))

    def runner_goes_on(self, runner: int, job: int, attempt: int, heard: int) -> None:
        """Handle that a job need not wait any more."""
        self.hear(JobGoesOn(runner, job, attempt, heard))

    def runner_says(self, runner: int, completed: Completed) -> None:
        """Handle outcomes from a runner; mark exceptions after which a job is not tried again."""
        if Code.FAILED in completed.codes:
            plans = self.witness.plans
            ends = zip(completed.jobs, completed.attempts, completed.codes, strict=True)
            failed = [job for job, at, code in ends if code == Code.FAILED and (job, at) not in self._refused]
            final = [job for job in failed if plans[job].final]
            completed = replace(completed, final=final)
        completed = self._keep_values(completed)
        self.hear(RunnerCompleted(runner, completed))

    def runner_answered(self, runner: int) -> None:
        """Handle that the shared runner has acknowledged a stop."""
        self.hear(RunnerAnswered(runner))

    def runner_ready(self, runner: int) -> None:
        """Handle that a runner's process is up."""
        self.hear(RunnerReady(runner))

    def runner_gone(self, runner: int, how: str, started: int, *, never_spawned: bool = False) -> None:
        """Handle the end of a runner's process."""
        self.hear(RunnerGone(runner, how, started, never_ran=never_spawned, never_spawned=never_spawned))

    def needs_room(self, job: int) -> bool:
        """Return True if a job's value needs room before the job has ended."""
        return self.rooms is not None and self.witness.plans[job].size > 0

    def runner_asks(self, runner: int, job: int, attempt: int) -> None:
        """Ask the store for room for a job's value, and tell the runner."""
        self.when_thawed(partial(self._ask, runner, job, attempt))

    def _ask(self, runner: int, job: int, attempt: int) -> None:
        if self.rooms is not None and runner in self.runners:
            self._asked[job, attempt] = runner
            told = partial(self._room_told, runner, job, attempt)
            self.rooms.ask((job, attempt), self.witness.plans[job].size, told, is_output=True)
            self.witness.seen["waits for room"] += (job, attempt) in self.rooms.scheduler.late

    def _room_told(self, runner: int, job: int, attempt: int, has_room: bool) -> None:
        if not has_room:
            self._refused.add((job, attempt))
        if runner in self.runners:
            self.runners[runner].room_told(job, attempt, has_room)

    def _return_rooms(self, runner: int) -> None:
        """Return the rooms of values that a runner can write no more."""
        for replica in [replica for replica, asker in self._asked.items() if asker == runner]:
            self._return_room(replica)

    def _return_room(self, replica: tuple[int, int]) -> None:
        if self._asked.pop(replica, 0) and self.rooms is not None:
            self._refused.discard(replica)
            self.rooms.returned(replica)

    def when_thawed(self, call: Callable[[], None]) -> None:
        """Call a function now, or once this daemon is not frozen any more."""
        if self.frozen:
            self._missed.append(partial(self.when_thawed, call))
        elif self.alive:
            call()

    def drop(self, replicas: list[tuple[int, int]]) -> None:
        """Remove replicas."""
        if self.frozen:
            self._missed.append(partial(self.drop, replicas))
        elif self.alive:
            gone = [replica for replica in replicas if replica in self.store]
            self.store.difference_update(replicas)
            self.spares.difference_update(replicas)
            for value, attempt in replicas:
                self.witness.removed(self.worker, value, attempt)
            if self.rooms is not None:
                self.rooms.removed(gone)
            self.look_at_store()

    def spare(self, replicas: list[tuple[int, int]], is_spare: bool) -> None:
        """Take notice of which replicas may be given up, or no longer."""
        if self.frozen:
            self._missed.append(partial(self.spare, replicas, is_spare))
        elif is_spare:
            self.spares.update(self.store.intersection(replicas))
            self._tell_spare(replicas, is_spare=True)
            self.look_at_store()
        else:
            self.spares.difference_update(replicas)
            self._tell_spare(replicas, is_spare=False)

    def _tell_spare(self, replicas: list[tuple[int, int]], *, is_spare: bool) -> None:
        if self.rooms is not None and self.alive:
            self.rooms.spare(replicas, is_spare=is_spare)

    def least_used(self) -> list[tuple[int, int]]:
        """Return the replicas that it may give up, the least recently used first."""
        return sorted(self.spares, key=lambda replica: (self.used_at.get(replica, 0.0), replica))

    def look_at_store(self) -> None:
        """Look at what is kept here, as that has changed. A frozen daemon does so once it goes on."""
        if self.on_stored is not None and self.alive:
            self.on_stored(self)

    def lacks(self, job: int) -> list[int]:
        """Return the values that a job needs and that are not here."""
        return [need.value for need in self.needs.get(job, ()) if (need.value, need.attempt) not in self.store]

    def _keep_values(self, completed: Completed) -> Completed:
        """Store the values that stay, as far as there is room; name those that were missing."""
        plans = self.witness.plans
        if self.may_keep is not None:
            completed = self._turn_away(completed, self.may_keep)
        elif self._asked:
            completed = self._with_wanted(completed)
        rows = list(zip(completed.jobs, completed.attempts, completed.codes, strict=True))
        sizes = [plans[job].size if code == Code.SUCCEEDED else 0 for job, _, code in rows]
        gone = [value for job, _, code in rows if code == Code.INPUT_GONE for value in self.lacks(job)]
        if not (any(sizes) or gone):
            return completed
        for (job, attempt, _), size in zip(rows, sizes, strict=True):
            if size and self.alive:
                self.store.add((job, attempt))
                if self.rooms is not None:
                    self._asked.pop((job, attempt))
                    self.rooms.written((job, attempt))
                self.witness.stored(self.worker, job, attempt, is_output=True)
        return replace(completed, sizes=sizes if any(sizes) else [], gone=gone)

    def _with_wanted(self, completed: Completed) -> Completed:
        """Return room that will not be filled, and say which jobs failed for want of room."""
        wanted = dict[int, int]()
        for job, attempt, code in zip(completed.jobs, completed.attempts, completed.codes, strict=True):
            if (job, attempt) in self._refused:
                self.witness.seen["refused room"] += 1
                if code == Code.FAILED:
                    wanted[job] = self.witness.plans[job].size
                    self.witness.lacked_room(self.worker, job, attempt)
            if code != Code.SUCCEEDED:
                self._return_room((job, attempt))
        return replace(completed, wanted=wanted) if wanted else completed

    def _turn_away(self, completed: Completed, may_keep: Callable[[Daemon, int], bool]) -> Completed:
        """Fail the jobs for whose values there is no room."""
        codes, wanted = list(completed.codes), dict[int, int]()
        kept = 0
        for row, job in enumerate(completed.jobs):
            size = self.witness.plans[job].size if codes[row] == Code.SUCCEEDED else 0
            if size and not may_keep(self, kept + size):
                codes[row], wanted[job] = Code.FAILED, size
                self.witness.lacked_room(self.worker, job, completed.attempts[row])
            else:
                kept += size
        return replace(completed, codes=codes, wanted=wanted) if wanted else completed

    def _drop_untold(self, said: Completed) -> None:
        """Remove the values of attempts that do not count here any more."""
        told = {
            (job, attempt)
            for completed in self._completed
            for job, attempt, size in zip(completed.jobs, completed.attempts, completed.sizes, strict=False)
            if size
        }
        stale = zip(said.jobs, said.attempts, said.sizes, strict=True)
        self.drop([(job, attempt) for job, attempt, size in stale if size and (job, attempt) not in told])

    def thaw(self) -> None:
        """Continue (SIGCONT): handle what was missed."""
        self.frozen = False
        missed, self._missed = self._missed, []
        for call in missed:
            call()
        self.look_at_store()

    def stop(self, when_idle: Callable[[Daemon], None]) -> None:
        """Stop (SIGTERM): announce it and end all jobs; `when_idle` is called when nothing is left."""
        self._when_idle = when_idle
        self.witness.told_to_stop(self.worker)
        self.up.send(self._stage.leaving, self.worker)
        self._tell(NodeStopped())

    def lose_head(self, when_idle: Callable[[Daemon], None], patience: float) -> None:
        """Stop because the link has ended, or was silent for too long: end all jobs, with no head to report to.

        `when_idle` is called when nothing is left, or after `patience` seconds.
        """
        if self.frozen:
            self._missed.append(partial(self.lose_head, when_idle, patience))
        elif self.alive:
            self._when_idle = when_idle
            self.clock.after(patience, when_idle, self)
            self.witness.headless(self.worker)
            self._tell(NodeStopped())

    def die(self) -> None:
        """Die (SIGKILL), and all runners with it."""
        self.alive = self.frozen = False
        for runner in self.runners.values():
            runner.vanish()
        self.witness.died(self.worker)

    def local(self, true: float) -> float:
        """Return the time on this node's clock."""
        return self._offset + self.rate * true

    # --- actions of the scheduler ------------------------------------------------------------------------------------

    def _tell(self, event: NodeEvent, not_before: float = _LONG_AGO) -> None:
        if type(event) is RunnerGone:
            self.runners.pop(event.runner, None)
            self._return_rooms(event.runner)
        elif type(event) is Cancel:
            self.witness.to_be_ended(self.worker, event.jobs, event.attempts)
        now = self.local(self.clock.now)
        actions = self.scheduler.handle(event, now if now > not_before else not_before)
        self._stage.noted(self._name, event, actions, self.scheduler)
        for action in actions:
            self._act(action)
        if type(event) is RunnerCompleted and event.completed.sizes:
            self._drop_untold(event.completed)
        self.look_at_store()
        self._report()
        if self._when_idle is not None and self.scheduler.idle:
            call, self._when_idle = self._when_idle, None
            self.witness.at_rest(self.worker)
            call(self)

    def _act(self, action: NodeAction) -> None:
        # The most frequent actions stand first.
        match action:
            case StartLease():
                self.witness.granted(self.worker, action)
                if action.needs:
                    self.needs.update(zip(action.jobs, action.needs, strict=True))
                    used = [(need.value, need.attempt) for row in action.needs for need in row]
                    self.used_at.update(dict.fromkeys(used, self.clock.now))
                    if self.rooms is not None:
                        self.rooms.used(action.lease, used)
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
                if self.rooms is not None:
                    self.rooms.ended_use(action.lease)
            case TellHeld():
                self.witness.held(self.worker, action.start)
                self._started.append(action.start)
            case TellWaits():
                self.witness.lent(self.worker, action.wait)
                self._waits.append(action.wait)
            case ResumeJob():
                self.runners[action.runner].resume(action)
            case SpawnRunner():
                self._spawn(action)
            case StopJobs():
                self.runners[action.runner].stop(action.jobs)
            case RaiseBarrier():
                self.runners[action.runner].bar()
                self.clock.after(BARRIER_S, self._barrier_stood, action)
            case TerminateRunner():
                self._terminating(action.runner).terminate()
            case KillRunner():
                self._terminating(action.runner).die("SIGKILL")
            case WakeAt():
                self._wake(action.at)

    def _terminating(self, number: int) -> Runner:
        runner = self.runners[number]
        if runner.alive:  # its process may be dead already, and the daemon not know it yet
            self.witness.terminating(self.worker, number)
        return runner

    def _report(self) -> None:
        if self._started or self._completed or self._ended or self._waits:
            told = (self._started, self._completed, self._ended, self._waits)
            self.up.send(self._stage.report, self.worker, *told)
            self._started, self._completed, self._ended, self._waits = [], [], [], []

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
        if self.frozen:  # a frozen daemon looks later
            self.clock.after(BARRIER_S, self._barrier_stood, action)
            return
        runner = self.runners.get(action.runner)
        if runner is not None and runner.started >= 0:
            ran_s = 0.0 if runner.since is None else self.rate * (self.clock.now - runner.since)
            self.hear(BarrierHeld(action.runner, action.lease, runner.started, ran_s))

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

"""Simulated head: the driver of the real `HeadScheduler` without real waiting, with a channel to each worker and a
client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    FetchReplicas,
    FunctionDefined,
    GiveValues,
    HeadAction,
    HeadEvent,
    HeadScheduler,
    InputsLost,
    InputsTravel,
    InputsUnfit,
    JobsBackedOff,
    JobsCancelled,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsPending,
    JobsRequeued,
    JobsRevived,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    OutputsUnfit,
    OverdraftUnpaid,
    OwnValuesFreed,
    ReleaseWorker,
    ReplicasDropped,
    ReplicasSpared,
    ReplicasUnfit,
    ReplicationReached,
    RetractJobs,
    ShapesForgotten,
    Ticked,
    ValueAction,
    ValuesForgotten,
    ValuesLost,
    WakeAt,
    WorkerDrained,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerQuarantined,
    WorkerReleased,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.simulation._client import Client
from grainlike.simulation._clock import Clock
from grainlike.simulation._daemon import Daemon
from grainlike.simulation._dice import Dice
from grainlike.simulation._nests import Call, Nests
from grainlike.simulation._plans import Faults, Network, Workload
from grainlike.simulation._value_driver import ValueDriver
from grainlike.simulation._voice import Voice
from grainlike.simulation._witness import Witness
from grainlike.wire import (
    Assign,
    Cancel,
    ClassSpec,
    Code,
    Completed,
    Define,
    FunctionSpec,
    Hold,
    LeaseStart,
    LeaseWait,
    Retract,
    Undefine,
)

__all__ = ["SimulatedHead", "SimulatedWorker"]


class _HeadStage(Protocol):
    clock: Clock
    seed: int
    dice: Dice
    network: Network
    faults: Faults
    witness: Witness
    workload: Workload

    def noted(self, who: str, event: object, actions: list[HeadAction], scheduler: HeadScheduler) -> None:
        """Record one step of a scheduler."""


class SimulatedWorker:
    """A worker at the simulated head: the channel `down` to it, and the functions and classes that it was sent."""

    __slots__ = ("classes", "daemon", "down", "functions")

    def __init__(self, daemon: Daemon, down: Voice) -> None:
        self.daemon = daemon
        self.down = down
        self.functions: set[int] = set()
        self.classes: set[int] = set()


class SimulatedHead:
    """Gives events to the scheduler, and performs its actions at the workers and the client. A dead one does
    nothing.
    """

    def __init__(self, stage: _HeadStage, *, closed: bool) -> None:
        self.clock: Clock = stage.clock
        self.witness: Witness = stage.witness
        self.scheduler: HeadScheduler = HeadScheduler(closed=closed, seed=stage.seed)
        self.client: Client = Client(self, stage.workload)
        self.peers: dict[int, SimulatedWorker] = {}
        self.alive: bool = True
        self.values: ValueDriver = ValueDriver(self, stage.seed, stage.network, stage.faults)
        self._nests = Nests(self)
        self._stage = stage
        self._alarm: float | None = None
        self._suspects: set[int] = set()

    def start(self) -> None:
        """Define the functions, and start the client."""
        for number, function in enumerate(self._stage.workload.functions, 1):
            told = FunctionDefined(
                number, function.retries, function.losses, function.backoff, on_timeout=function.on_timeout
            )
            self._tell(told)
        self.client.start()

    def die(self) -> None:
        """Die (SIGKILL). Messages that it had sent still arrive; jobs without an outcome are lost for the client."""
        self.alive = False
        self.values.die()
        self.peers.clear()
        self._suspects.clear()
        self.client.lose_head()
        self.witness.head_died()

    # --- from the client ---------------------------------------------------------------------------------------------

    @property
    def members(self) -> dict[int, SimulatedWorker]:
        """The connected workers."""
        return self.peers

    def tell(self, event: HeadEvent) -> None:
        """Give the scheduler an event, while the head is alive."""
        if self.alive:
            self._tell(event)

    def submit(self, batches: list[JobsSubmitted]) -> None:
        """Accept jobs."""
        for batch in batches[:-1]:
            self._tell(replace(batch, more=True))
        for batch in batches[-1:]:
            self._tell(batch)

    def cancel(self, jobs: list[int]) -> None:
        """Cancel jobs."""
        self._tell(JobsCancelled(jobs))

    # --- from workers ------------------------------------------------------------------------------------------------

    def join(self, daemon: Daemon) -> None:
        """Accept a worker."""
        down = Voice(self.clock, self._stage.dice, self._stage.network.link, lasts=bool(self._stage.faults.blink))
        down.answers(daemon.up)
        self.peers[daemon.worker] = SimulatedWorker(daemon, down)
        self.witness.joined(daemon.worker, daemon.plan.offer)
        plan = daemon.plan
        if plan.has_data:
            self.witness.serves(daemon.worker)
        store, scratch = -1, 0
        if plan.store is not None and plan.scratch is not None:
            store, scratch = plan.store, plan.scratch
            self.values.open_store(daemon)
            self.witness.limited(daemon.worker, store, None, scratch)
        elif plan.store is not None:
            store, daemon.on_stored = plan.store, self.values.look_at_store
            daemon.may_keep = None if plan.overdraft is None else self.values.may_keep
            self.witness.limited(daemon.worker, store, plan.overdraft)
        columns = daemon.worker, f"n{daemon.worker}", plan.offer
        self._tell(WorkerJoined(*columns, has_data=plan.has_data, store=store, scratch=scratch))

    def suspect(self, worker: int, *, broke: bool) -> None:
        """Suspect a worker that is silent, or whose link has broken, unless it was given up before."""
        if worker in self.peers and worker not in self._suspects:
            self._suspects.add(worker)
            self.witness.suspected(worker)
            self._tell(WorkerSuspected(worker, broke))

    def heard(self, worker: int) -> None:
        """End the suspicion of a worker."""
        if worker in self._suspects:
            self._suspects.discard(worker)
            self.witness.trusted(worker)
            self._tell(WorkerHeard(worker))

    def leave(self, worker: int, reason: str) -> None:
        """Give a worker up."""
        if self.peers.pop(worker, None) is not None:
            self._suspects.discard(worker)
            self.witness.given_up(worker)
            self.values.left(worker)
            self._tell(WorkerLost(worker, reason))

    def leaving(self, worker: int) -> None:
        """Handle that a worker stops, unless it was given up before."""
        if worker in self.peers:
            self.witness.leaving(worker)
            self._tell(WorkerLeaving(worker))

    def drain(self, worker: int) -> None:
        """Let a worker end when its jobs have."""
        if worker in self.peers:
            self.witness.draining(worker)
            self._tell(WorkerDrained(worker))

    def report(
        self,
        worker: int,
        started: list[LeaseStart],
        completed: list[Completed],
        ended: list[int],
        waits: list[LeaseWait],
    ) -> None:
        """Handle a report, also of a worker that was given up."""
        if not self.alive:
            return
        for heard in completed:
            self.witness.heard(worker, heard)
        self._tell(WorkerReported(worker, started, completed, ended, waits))

    # --- from jobs that await ----------------------------------------------------------------------------------------

    def nested(self, worker: int, parent: int, attempt: int, calls: list[Call]) -> None:
        """Accept jobs that a job submits; ignore them from a worker that was given up."""
        if worker in self.peers:
            for batch in self._nests.submit(worker, parent, attempt, calls):
                self._tell(batch)

    def withdrawn(self, worker: int, parent: int, attempt: int, children: list[int]) -> None:
        """Cancel those of its own jobs that a job cancels."""
        if not self.alive:
            return
        jobs = self._nests.withdraw(worker, parent, attempt, children)
        for job in jobs:
            self.witness.cancelled(job)
        self._tell(JobsCancelled(jobs))

    def answer(self, worker: int, parent: int, attempt: int, ends: list[tuple[int, bool]]) -> None:
        """Send an attempt of a job the outcomes of its own jobs."""
        peer = self.peers.get(worker)
        if peer is not None:
            peer.down.send(peer.daemon.outcomes, parent, attempt, ends)

    # --- actions of the scheduler ------------------------------------------------------------------------------------

    def _tell(self, event: HeadEvent) -> None:
        actions = self.scheduler.handle(event, self.clock.now)
        self._stage.noted("head", event, actions, self.scheduler)
        if actions:
            self.witness.assigning([job for action in actions if type(action) is AssignJobs for job in action.jobs])
            for action in actions:
                self._act(action)
            self.witness.decided()
        self.client.submit_ready()

    def _act(self, action: HeadAction) -> None:
        # The most frequent actions stand first.
        match action:
            case JobsMoved() | JobsRequeued():
                pass
            case JobsStarted(worker=worker, start=start, rows=rows):
                for row in rows:
                    self.witness.leased(worker, start.jobs[row], start.attempts[row])
            case AssignJobs():
                self._assign(action)
            case JobsSettled():
                self._settle(action)
            case AssembleGang():
                self._assemble(action)
            case RetractJobs():
                self._post(action.worker, Retract(action.jobs, action.attempts))
            case CancelJobs():
                self.witness.stopping(action)
                self._post(action.worker, Cancel(action.jobs, action.attempts))
            case JobsLost():
                self._each(action.jobs, lambda job: self.witness.lost(job, action.losses))
            case WorkerQuarantined():
                self.witness.quarantined(action.worker)
            case WorkerReleased():
                self.witness.released(action.worker)
            case JobsBackedOff():
                for job in action.jobs:
                    self.witness.backed_off(job, action.seconds)
            case JobsUnsatisfiable():
                self._each(action.jobs, lambda job: self.witness.refused(job, action.missing))
            case JobsPending():
                self.witness.pending([job.id for cls in self._waiting(action) for job in cls])
            case JobsDeadlocked():
                if action.failed:
                    self.witness.stuck(action.deadlock)
                    self._settled(action.deadlock.job, ok=False)
            case JobsOrphaned():
                for job in self._nests.orphaned(action.jobs):
                    self.witness.cancelled(job)
            case ShapesForgotten():
                self._undefine(action.shapes)
            case WakeAt():
                self._wake(action.at)
            case ReleaseWorker():
                self.witness.let_off(action.worker)
                peer = self.peers[action.worker]
                peer.down.send(peer.daemon.depart)
            case _:
                self._act_on_values(action)

    def _act_on_values(self, action: ValueAction) -> None:
        match action:
            case FetchReplicas():
                self.values.fetch(action)
            case GiveValues():
                self.values.give(action)
            case ReplicasDropped():
                self.values.drop(action)
            case ReplicasSpared():
                self.values.spare(action)
            case ReplicationReached():
                for value in action.values:
                    self.witness.replicated(value)
                    self.client.replicated(value)
            case JobsRevived():
                for job in action.jobs:
                    self.witness.revived(job)
            case ValuesLost():
                for value in action.values:
                    self.witness.value_lost(value)
                    self.client.gave_up(value)
            case InputsLost():
                self._each(action.jobs, lambda job: self.witness.input_lost(job, action.value))
            case InputsTravel():
                for job, values in zip(action.jobs, action.values, strict=True):
                    self.witness.takes_along(job, values)
            case InputsUnfit():
                if action.failed:
                    self._each(action.jobs, self.witness.unfit)
                else:
                    self.witness.pending(action.jobs)
            case OutputsUnfit():
                self._each(action.jobs, self.witness.homeless)
            case OverdraftUnpaid():
                self._each(action.jobs, self.witness.unpaid)
            case OwnValuesFreed():
                self.values.freed(action)
            case ValuesForgotten():
                self.values.forget(action.values)
            case ReplicasUnfit():
                pass

    def _waiting(self, action: JobsPending) -> list[list[_Numbered]]:
        return [[*cls.live()] for cls in self.scheduler.classes.values() if cls.request == action.request]

    def _settle(self, action: JobsSettled) -> None:
        completed = action.completed
        for row in action.rows:
            job, code = completed.jobs[row], completed.codes[row]
            if completed.sizes and completed.sizes[row]:
                self.client.stayed(job)
            self.witness.settled(job, completed.attempts[row], code)
            if completed.sizes and completed.sizes[row]:
                self.witness.made(action.worker, job, completed.attempts[row])
            self._settled(job, ok=code == Code.SUCCEEDED)

    def _each(self, jobs: list[int], note: Callable[[int], None]) -> None:
        for job in jobs:
            note(job)
            self._settled(job, ok=False)

    def _settled(self, job: int, *, ok: bool) -> None:
        self.client.settled(job, ok=ok)
        self._nests.settled(job, ok=ok)

    def _assemble(self, action: AssembleGang) -> None:
        self.witness.assembled(action)
        for worker in action.workers:
            self._define(worker, action.cls, [])
            self._post(worker, Hold(action.cls, [action.job], [action.attempt]))

    def _assign(self, action: AssignJobs) -> None:
        self.witness.assigned(action)
        self._define(action.worker, action.cls, action.fns)
        blank = [b""] * len(action.jobs)
        columns = action.jobs, action.attempts, action.fns, blank
        self._post(
            action.worker,
            Assign(
                action.cls, action.ahead, *columns, [], action.hard_s, action.memory, action.ages, list(action.needs)
            ),
        )

    def _define(self, worker: int, cls: int, fns: list[int]) -> None:
        peer = self.peers[worker]
        fresh = [fn for fn in dict.fromkeys(fns) if fn not in peer.functions]
        classes: list[ClassSpec] = []
        if cls not in peer.classes:
            shape = self.scheduler.shapes[cls]
            classes.append(ClassSpec(shape.id, str(shape.request), shape.isolate))
        if fresh or classes:
            peer.functions.update(fresh)
            peer.classes.add(cls)
            plans = self._stage.workload.functions
            specs = [
                FunctionSpec(fn, b"%d" % fn, (f := plans[fn - 1]).name, f.is_async, f.timeout, keep=f.keep)
                for fn in fresh
            ]
            self._post(worker, Define(specs, classes))

    def _undefine(self, shapes: list[int]) -> None:
        for worker, peer in self.peers.items():
            gone = sorted(peer.classes.intersection(shapes))
            if gone:
                peer.classes.difference_update(gone)
                self._post(worker, Undefine([], gone))

    def _post(self, worker: int, message: Assign | Cancel | Define | Hold | Retract | Undefine) -> None:
        peer = self.peers[worker]
        peer.down.send(peer.daemon.hear, message)

    # --- time --------------------------------------------------------------------------------------------------------

    def _wake(self, at: float) -> None:
        if self._alarm is None or at < self._alarm:
            self._alarm = at
            self.clock.at(at, self._ring, at)

    def _ring(self, at: float) -> None:
        if self._alarm == at and self.alive:
            self._alarm = None
            self._tell(Ticked())


class _Numbered(Protocol):
    id: int

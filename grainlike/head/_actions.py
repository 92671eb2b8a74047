"""Perform the actions of the head's scheduler: assign jobs to workers, and report their progress to clients."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import astuple, replace

from grainlike.errors import StoreFullError, UnsatisfiableError, ValueLostError, WorkerLostError
from grainlike.graph import State
from grainlike.head._attempts import AttemptEnds
from grainlike.head._errors import LAYOUT, name_of, refusal, why_stuck
from grainlike.head._history import JobHistory
from grainlike.head._logs import LogRouter
from grainlike.head._nested import RelayedJob, ReplyTo
from grainlike.head._peers import WorkerConnection
from grainlike.head._program_values import ProgramValues
from grainlike.head._results import ResultHandler
from grainlike.head._shared_memory import ObjectStore
from grainlike.head._state import HeadState
from grainlike.head.values._mover import ValueMover
from grainlike.jobs import Job, Observer, Placement, slots_of
from grainlike.resources import shown_amounts
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    CopiesLost,
    FetchReplicas,
    FunctionsDropped,
    GiveValues,
    HeadAction,
    InputsLost,
    InputsTravel,
    InputsUnfit,
    JobsBackedOff,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsPending,
    JobsRequeued,
    JobsRevived,
    JobsSettled,
    JobsStarted,
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
    ValueAction,
    ValuesForgotten,
    ValuesLost,
    WakeAt,
    WorkerQuarantined,
    WorkerReleased,
)
from grainlike.wire import (
    Assign,
    Began,
    Cancel,
    ClassSpec,
    Depart,
    Gang,
    Hold,
    LeaseStart,
    NodeSpec,
    Notice,
    Parcel,
    Retract,
    SpareReplicas,
    Warned,
    fit_together,
    nbytes_of,
    pack_parcels,
    plain_column,
    split_by_bytes,
)

__all__ = ["ActionExecutor"]

logger = logging.getLogger("grainlike")

_RUNNING = State.RUNNING
_TRAVELS: Callable[[Job], Any] = attrgetter("travels")


def _no_pools(job: int) -> str:  # noqa: ARG001 - as where there are pools
    return ""


class ActionExecutor:
    """Performs the actions of the scheduler in `state`. It decides nothing.

    `settling` ends the jobs that the scheduler rejects, `object_store` stores the large arguments, `logs` tracks where
    jobs run, `history` how they ended, `values` which values are lost, `mover` copies what stays at workers, and
    `alarm(at)` schedules a tick at that time on the head's clock.
    """

    def __init__(
        self,
        state: HeadState,
        settling: ResultHandler,
        observers: Sequence[Observer],
        object_store: ObjectStore,
        logs: LogRouter,
        history: JobHistory,
        values: ProgramValues,
        mover: ValueMover,
        alarm: Callable[[float], None],
    ) -> None:
        self._state = state
        self._mover = mover
        self._settling = settling
        self._observers = observers
        self._object_store = object_store
        self._logs = logs
        self._history = history
        self._values = values
        self._alarm = alarm
        self.ends = AttemptEnds()
        """Ends of attempts that the head hears of now."""
        self._shortfall: Callable[[int], str | None] = _no_pools

    def ask_pools(self, shortfall: Callable[[int], str | None]) -> Callable[[int, str], None]:
        """Have `shortfall` asked what pools of workers lack for a job; None: one would serve it; empty: there are none.

        Return a function that warns the client that submitted a job, of what does not follow from the head's inputs.
        """
        self._shortfall = shortfall
        return self._notify

    def act(self, action: HeadAction) -> None:
        """Perform an action; those that need what a report brought are the head's."""
        # The most frequent actions stand first: each class pattern that does not match costs an isinstance call.
        match action:
            case AssignJobs():
                self._assign(action)
            case WakeAt():
                self._alarm(action.at)
            case AssembleGang():
                self._assemble(action)
            case CancelJobs():
                self._post(action.worker, Cancel(action.jobs, action.attempts))
            case RetractJobs():
                self._post(action.worker, Retract(action.jobs, action.attempts))
            case FetchReplicas() | GiveValues() | ReplicasDropped():
                self._mover.act(action)
            case WorkerQuarantined():
                self._quarantined(self._state.peers[action.worker], action.why)
            case WorkerReleased():
                self._quarantined(self._state.peers[action.worker], "")
            case ReleaseWorker():
                self._post(action.worker, Depart(kill=False))
            case ShapesForgotten():
                for peer in self._state.peers.values():
                    peer.undefine_classes(action.shapes)
            case JobsMoved():
                self._moved(action)
            case JobsBackedOff():
                self._wait_again(action.jobs, action.seconds)
            case JobsRequeued():
                self._wait_again(action.jobs)
            case JobsPending():
                self._warn(action)
            case JobsOrphaned():
                self._history.unwanted(self._state.nested.forget(action.jobs))
            case JobsLost():
                self._lost(action)
            case JobsUnsatisfiable():
                self._unsatisfiable(action)
            case JobsDeadlocked():
                self._deadlocked(action)
            case JobsStarted() | JobsSettled():
                raise AssertionError("only a report starts or settles jobs")
            case _:
                self._act_on_values(action)

    def _act_on_values(self, action: ValueAction) -> None:
        """Perform an action about values that stay at workers, but for those that are the mover's."""
        match action:
            case JobsRevived():
                self._settling.revive(action.jobs, by_copy=action.by_copy)
            case CopiesLost():
                for value in action.values:
                    self._state.kept.lose_copy(value)
            case ValuesForgotten():
                self._settling.forget(action.values)
                self._mover.forget(action.values)
            case OwnValuesFreed():
                self._values.freed(action.values)
            case ReplicasSpared(worker=worker, values=values, attempts=attempts, is_spare=is_spare):
                self._post(worker, SpareReplicas(values, attempts, is_spare))
            case ReplicasUnfit():
                self._few_replicas(action)
            case ReplicationReached():
                self._values.replicated(action.values)
            case ValuesLost():
                self._values.lost(action.values, action.why)
            case InputsLost():
                lost = self._values.error(action.value, action.why)
                self._settling.end(action.jobs, lambda _: ValueLostError(*lost.args))
            case InputsTravel():
                self._values.travel(action, self._object_store)
            case InputsUnfit():
                self._unfit(action)
            case OutputsUnfit():
                words = action.why
                self._settling.end(action.jobs, lambda job: StoreFullError(f"{self.ends.message_of(job.id)}; {words}"))
            case OverdraftUnpaid(jobs=jobs, why=why):
                words = f"there is no room for the inputs of {name_of(self._state.jobs[jobs[0]])}: {why}"
                self._settling.end(jobs, lambda _: StoreFullError(words))

    def drop_functions(self, now: float) -> None:
        """Drop functions that can be called no more, here and at workers, if a sweep for such is due."""
        state = self._state
        if state.functions.sweep_is_due(state.scheduler.jobs, state.last_job):
            dropped = state.functions.sweep(state.jobs, state.scheduler.jobs, state.last_job, state.held_functions)
            if dropped:
                state.scheduler.handle(FunctionsDropped(dropped), now)
                for peer in state.peers.values():
                    peer.undefine(dropped)

    def _quarantined(self, peer: WorkerConnection, why: str) -> None:
        """A worker that fails again and again gets nothing new for a while; without `why`, that is over."""
        if why:
            logger.warning("worker %s gets no jobs for now: %s", peer.name, why)
        for observer in self._observers:
            observer.quarantined(peer, why)

    def _post(self, worker: int, message: Cancel | Depart | Retract | SpareReplicas) -> None:
        self._state.peers[worker].post(message)

    def _assemble(self, action: AssembleGang) -> None:
        for worker in action.workers:
            peer = self._state.peers[worker]
            peer.define([], self._class_spec(action.cls))
            peer.post(Hold(action.cls, [action.job], [action.attempt]))
        self._state.jobs[action.job].assigned(self._state.peers[action.workers[0]].name, action.attempt)

    def _class_spec(self, number: int) -> ClassSpec:
        shape = self._state.scheduler.shapes[number]
        return ClassSpec(shape.id, str(shape.request), shape.isolate)

    def _assign(self, action: AssignJobs) -> None:
        peer = self._state.peers[action.worker]
        if not peer.has(action.fns, action.cls):
            shipments = [self._state.functions.shipment(fn) for fn in dict.fromkeys(action.fns)]
            peer.define(shipments, self._class_spec(action.cls))
        if action.gang:
            members = ((self._state.peers[worker], allocation) for worker, allocation in action.gang)
            nodes = [NodeSpec(member.name, member.link.host, allocation) for member, allocation in members]
            peer.post(Gang(action.jobs[0], action.attempts[0], nodes))
        jobs = list(map(self._state.jobs.__getitem__, action.jobs))
        placement = Placement(peer.name, action.attempts[0])
        for job, attempt in zip(jobs, action.attempts, strict=True):
            if job.placement is None:  # `assigned` without its call: most jobs are sent to one worker, once
                if placement.attempt != attempt:
                    placement = Placement(peer.name, attempt)
                job.placement = placement
            else:
                job.assigned(peer.name, attempt)
        # One column of bytes for most batches: through `_assign_in_parts` a no-op job costs 10.9 Python and 36.5 C
        # calls instead of 9.9 and 29.6.
        data = self._plain_column(peer, jobs)
        if data is None:
            parcels = self._object_store.parcels_for(peer.hello, [job.parcel for job in jobs])
            self._assign_in_parts(peer, action, parcels)
        else:
            self._state.counters.sent += sum(map(len, data))
            columns = action.jobs, action.attempts, action.fns, data
            needs, ages = list(action.needs), action.ages
            message = Assign(action.cls, action.ahead, *columns, [], action.hard_s, action.memory, ages, needs)
            peer.post(message)
        if self._logs.listeners:
            self._logs.assigned(peer, jobs)

    def _plain_column(self, peer: WorkerConnection, jobs: Sequence[Job]) -> list[bytes] | None:
        """Return the arguments of jobs that are small and have no buffers, as they mostly are; None for others."""
        packed = list(map(_TRAVELS, jobs))
        if set(map(type, packed)) != {bytes}:
            return None
        if not self._object_store.passes_on(peer.hello):
            return plain_column(self._object_store.parcels_for(peer.hello, [job.parcel for job in jobs]))
        return packed if fit_together(packed) else None

    def _assign_in_parts(self, peer: WorkerConnection, action: AssignJobs, parcels: Sequence[Parcel]) -> None:
        for first, last in split_by_bytes(parcels):
            part = slice(first, last)
            data, counts, buffers = pack_parcels(parcels[part])
            self._state.counters.sent += sum(map(nbytes_of, parcels[part]))
            columns = action.jobs[part], action.attempts[part], action.fns[part], data
            memory, ages, needs = action.memory[part], action.ages[part], list(action.needs[part])
            message = Assign(action.cls, action.ahead, *columns, counts, action.hard_s, memory, ages, needs)
            peer.post(message, buffers)

    def started(self, action: JobsStarted, skew: float) -> None:
        """Record that jobs run, as reported by a worker whose clock is `skew` seconds behind ours."""
        start = action.start
        began: list[Job] = []
        slots, at = start.allocation, start.at + skew
        assigned: Placement | None = None
        placement: Placement | None = None
        for job in map(self._state.jobs.get, map(start.jobs.__getitem__, action.rows)):
            if job is not None:
                node = job.node
                if placement is None or job.placement is not assigned:
                    before, assigned = assigned, job.placement
                    assert assigned is not None
                    if before is None or placement is None or astuple(before) != astuple(assigned):
                        placement = replace(assigned, slots=slots, began=at)
                job.placement = placement
                if node is not None:
                    node.state = _RUNNING
                else:
                    began.append(job)
        if start.memory:
            self._narrow(start)
        for reply_to, jobs in _of_clients(began) if began else ():
            children, attempts = [job.child for job in jobs], [job.attempt for job in jobs]
            workers, slots_each = [job.worker or "" for job in jobs], [job.slots or "" for job in jobs]
            reply_to.post(Began(children, attempts, workers, slots_each))

    def _narrow(self, start: LeaseStart) -> None:
        """Record the slots of jobs that asked for less memory than their lease has."""
        for number, attempt, slots in slots_of(start):
            job = self._state.jobs.get(number)
            if job is not None and job.attempt == attempt and (placement := job.own_placement()) is not None:
                placement.slots = slots

    def _moved(self, action: JobsMoved) -> None:
        """Record the slots of a job that goes on, on other ones than before."""
        placement = self._state.jobs[action.job].own_placement()
        assert placement is not None
        placement.slots = action.allocation

    def _wait_again(self, numbers: list[int], seconds: float | None = None) -> None:
        """Mark requeued jobs pending, and notify their clients."""
        waiting = [self._state.jobs[number] for number in numbers]
        if self._history.listener is not None:
            self._history.listener.requeued(waiting, seconds)
        for job in waiting:
            ended = self.ends.of(job, *self._history.moment())
            if ended is not None:
                self._history.tried(job.id, ended)
            job.waits_again(seconds)
        for reply_to, jobs in _of_clients(waiting):
            children, attempts = [job.child for job in jobs], [job.attempt for job in jobs]
            reply_to.post(Began(children, attempts, [""] * len(jobs), [""] * len(jobs)))

    def _warn(self, action: JobsPending) -> None:
        """Log that jobs wait for resources that no worker offers; notify the client that submitted them, too."""
        pools = self._shortfall(action.job)
        if pools is None:
            return  # such a worker is about to come
        why = LAYOUT if action.missing is None else action.missing.why
        if action.missing is not None and action.missing.nearest is None:
            start = "" if pools else ": `grainlike worker start` starts one, `grainlike up` has a batch system do so"
            why = f"none is connected{start}"
        jobs = "1 job waits" if action.waiting == 1 else f"{action.waiting} jobs wait"
        words = f"{jobs} for a worker that can give {shown_amounts(str(action.request))}: {why}"
        words = f"{words}. {pools}" if pools else words
        logger.warning("%s", words)
        self._tell_clients(action.job, words)

    def _tell_clients(self, number: int, words: str) -> None:
        for reply_to, relayed in _of_clients([self._state.jobs[number]]):
            reply_to.post(Warned(words, relayed[0].child))
        self._values.clients.warn(number, words)  # it may run again for a value, and is no call that they wait for

    def _notify(self, number: int, words: str) -> None:
        """Warn the client that submitted a job; a replay of the inputs does not, so the message has no number."""
        for reply_to, relayed in _of_clients([self._state.jobs[number]]):
            reply_to.post(Notice(words, relayed[0].child))
        owner = self._state.owners.of(number)
        if owner is not None:
            owner.post(Notice(words))

    def _unfit(self, action: InputsUnfit) -> None:
        """End jobs whose inputs fit into no store, or warn of them where one may come that is large enough."""
        name = name_of(self._state.jobs[action.jobs[0]])
        if action.failed:
            why = f"{name} can never run: {action.why}"
            self._settling.end(action.jobs, lambda _: UnsatisfiableError(why))
            return
        words = f"{name} (job {action.jobs[0]}) waits for a worker with a larger store: {action.why}"
        logger.warning("%s", words)
        self._tell_clients(action.jobs[0], words)

    def _few_replicas(self, action: ReplicasUnfit) -> None:
        """Warn that a value has fewer replicas than it is to have; warn the client that owns it, too."""
        ended = self._history.find(action.value)
        whose = f"value {action.value}" if ended is None else f"the value of {ended.name} (job {action.value})"
        words = f"{whose} has fewer replicas than it is to have, until a worker with a larger store joins: {action.why}"
        logger.warning("%s", words)
        self._values.clients.warn(action.value, words)

    def _unsatisfiable(self, action: JobsUnsatisfiable) -> None:
        why = refusal(action.missing, self._state.peers.values())
        self._settling.end(action.jobs, lambda _: UnsatisfiableError(why))

    def _deadlocked(self, action: JobsDeadlocked) -> None:
        why = why_stuck(action.deadlock, self._state.jobs)
        if not action.failed:
            logger.warning("%s", why)
            return
        self._settling.end([action.deadlock.job], lambda _: UnsatisfiableError(why))

    def _lost(self, action: JobsLost) -> None:
        def lost(job: Job) -> WorkerLostError:
            often = "" if action.losses == 1 else f" {action.losses} times"
            how = "had given items when it was lost" if job.streamed else f"was lost{often}"
            return WorkerLostError(f"{name_of(job)} {how}: {action.reason}")

        self._settling.end(action.jobs, lost)


def _of_clients(jobs: Iterable[Job]) -> Iterable[tuple[ReplyTo, list[RelayedJob]]]:
    """Return the jobs that clients have submitted, grouped by client."""
    found: dict[ReplyTo, list[RelayedJob]] = {}
    for job in jobs:
        if isinstance(job, RelayedJob) and not job.attempt_of[1]:
            found.setdefault(job.reply_to, []).append(job)
    return found.items()

"""The body of the head: carries events to the mind and its actions to the workers. It decides nothing.

Everything here is synchronous and runs in the home's event loop: a batch of frames goes in, the mind answers, messages
are posted, outcomes are handed to the engine. Waiting is for the links, the door and one alarm.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from grainlike.errors import JobTimeoutError, UnsatisfiableError, WorkerLostError
from grainlike.executor._functions import Functions
from grainlike.executor._gangs import gang_refusal
from grainlike.executor._job import Job
from grainlike.executor._workers import Peer, WorkerInfo
from grainlike.graph import Node, Place, State
from grainlike.net import Link
from grainlike.payload import Payload, dump_arguments, load_error, load_value
from grainlike.resources import EMPTY, Allocation, Request
from grainlike.scheduler import (
    AssignJobs,
    CancelJobs,
    Explanation,
    FunctionDefined,
    HeadAction,
    HeadEvent,
    HeadMind,
    JobsCancelled,
    JobsLost,
    JobsPending,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobsUnsatisfiable,
    RetractJobs,
    Ticked,
    WakeAt,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
)
from grainlike.wire import (
    BATCH_BYTES,
    BUFFER_COUNTS,
    Assign,
    Beat,
    Buffer,
    Cancel,
    ClassSpec,
    Code,
    Completed,
    Frame,
    Hello,
    Leaving,
    Parcel,
    Report,
    Retract,
    pack_parcels,
    unpack_parcels,
)

__all__ = ["Head", "Outcomes"]

logger = logging.getLogger("grainlike")

_LAYOUT = "the amounts are there, but on no worker in the layout that is asked for (see pack=)"


class Outcomes(Protocol):
    """Who hears how jobs ended; the engine. It only takes note: what follows is done after the mind's actions are."""

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""


class Head:
    """One head: a mind, its workers, its live jobs. `alarm(at)` asks for a `tick` at that monotonic time."""

    def __init__(self, outcomes: Outcomes, *, closed: bool, alarm: Callable[[float], None]) -> None:
        self.peers: dict[int, Peer] = {}
        self._mind = HeadMind(closed=closed)
        self._outcomes = outcomes
        self._alarm = alarm
        self._functions = Functions()
        self._jobs: dict[int, Job] = {}
        self._last_job = 0
        self._last_worker = 0

    @property
    def quiet(self) -> bool:
        """True when no job is anywhere, not even one that was cancelled and has not ended yet."""
        return not self._mind.jobs

    def workers(self) -> list[WorkerInfo]:
        """The workers that are here, in the order in which they came."""
        now = time.monotonic()
        return [peer.info(now, self._mind.running(peer.number)) for peer in self.peers.values()]

    def explain(self, node: Node) -> Explanation:
        """Where a placeholder stands and what it waits for."""
        request = node.request if node.request is not None else EMPTY
        if node.finished or node.state is State.LAZY:
            return Explanation(0, node.state.label, 0, request)
        waiting = tuple(dep.function.name for dep in node.deps if not dep.finished)
        if waiting:
            return Explanation(0, "inputs", 0, request, inputs=waiting)
        job = node.record
        if not isinstance(job, Job):
            return Explanation(0, "opening" if node.place is Place.REMOTE else "local", 0, request)
        found = self._mind.explain(job.job, time.monotonic())
        return found if found is not None else Explanation(job.job, node.state.label, job.attempt, request)

    # --- from the engine ---------------------------------------------------------------------------------------------

    def submit(self, nodes: Iterable[Node]) -> None:
        """Make jobs of nodes whose arguments are there. What cannot travel fails at once, alone."""
        batches: dict[tuple[Request, int, bool], tuple[list[int], list[int]]] = {}
        for node in nodes:
            job = self._make_job(node)
            if job is not None:
                options = node.function.options
                assert node.request is not None
                key = (node.request, options.priority, options.isolate)
                jobs, fns = batches.setdefault(key, ([], []))
                jobs.append(job.job)
                fns.append(job.fn)
        for (request, priority, isolate), (jobs, fns) in batches.items():
            self._tell(JobsSubmitted(request, jobs, fns, priority, isolate))

    def _make_job(self, node: Node) -> Job | None:
        try:
            _refuse_gangs(node)
            fn = self._number(node)
            args, kwargs = node.arguments()
            payload = dump_arguments(args, kwargs, what=node.function.name).detached()
        except Exception as error:  # noqa: BLE001 - whatever the user's objects raise belongs to this job's awaiters
            self._outcomes.failed(node, error)
            return None
        self._last_job += 1
        job = Job(self._last_job, fn, node, (bytes(payload.data), payload.buffers))
        self._jobs[job.job] = job
        node.record = job
        return job

    def _number(self, node: Node) -> int:
        """The number of the node's function, which the mind knows from now on, whatever becomes of this job."""
        fn, fresh = self._functions.number(node.function)
        if fresh:
            self._tell(FunctionDefined(fn, node.function.options.retries))
        return fn

    def cancel(self, nodes: Iterable[Node]) -> None:
        """Stop the jobs of nodes that nobody wants; their awaiters have had their answer."""
        numbers: list[int] = []
        for node in nodes:
            job = node.record
            if isinstance(job, Job) and self._jobs.pop(job.job, None) is not None:
                job.close()
                numbers.append(job.job)
        if numbers:
            self._tell(JobsCancelled(numbers))

    # --- from workers ------------------------------------------------------------------------------------------------

    def join(self, hello: Hello, offer: Allocation, name: str, link: Link) -> Peer:
        """Take in a worker that has proved itself, with what it offers, under a free name."""
        self._last_worker += 1
        peer = Peer(self._last_worker, name, link, hello, offer, time.monotonic())
        self.peers[peer.number] = peer
        self._tell(WorkerJoined(peer.number, peer.name, peer.offer))
        return peer

    def free_name(self, name: str) -> str:
        """Two workers of one name are two workers: the second gets a number."""
        taken = {peer.name for peer in self.peers.values()}
        names: Iterator[str] = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)

    def leave(self, peer: Peer, reason: str) -> None:
        """A worker is gone; what it held is tried elsewhere."""
        if self.peers.pop(peer.number, None) is not None:
            self._tell(WorkerLost(peer.number, reason))

    def hear(self, peer: Peer, frames: Sequence[Frame]) -> None:
        """Take what one read of a worker's link brought."""
        peer.heard = time.monotonic()
        for message, buffers in frames:
            match message:
                case Report():
                    self._report(peer, message, buffers)
                case Beat():
                    peer.beats += 1
                case Leaving():
                    logger.info("worker %s is leaving: %s", peer.name, message.reason)
                    peer.leaving = True
                    self._tell(WorkerLeaving(peer.number))
                case _:
                    logger.warning("worker %s sent %s, which workers do not send", peer.name, type(message).__name__)

    def _report(self, peer: Peer, report: Report, buffers: Sequence[Buffer]) -> None:
        parcels: dict[int, list[Parcel]] = {}
        at = 0
        for completed in report.completed:
            count = sum(completed.counts)
            parcels[id(completed)] = unpack_parcels(completed.data, completed.counts, buffers[at : at + count])
            at += count
            if completed.receipt is not None:
                peer.receipts[completed.lease] = completed.receipt
        skew = time.monotonic() - report.sent_at
        event = WorkerReported(peer.number, report.started, report.completed, report.ended)
        for action in self._mind.handle(event, time.monotonic()):
            if isinstance(action, JobsSettled):
                self._settle(peer, action.completed, action.rows, parcels[id(action.completed)], skew)
            elif isinstance(action, JobsStarted):
                self._started(action, skew)
            else:
                self._act(action)
        for lease in report.ended:
            peer.receipts.pop(lease, None)

    # --- what the mind says ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """The moment of the last alarm has come."""
        self._tell(Ticked())

    def _tell(self, event: HeadEvent) -> None:
        for action in self._mind.handle(event, time.monotonic()):
            self._act(action)

    def _act(self, action: HeadAction) -> None:
        match action:
            case AssignJobs():
                self._assign(action)
            case CancelJobs():
                self._post(action.worker, Cancel(action.jobs, action.attempts))
            case RetractJobs():
                self._post(action.worker, Retract(action.jobs, action.attempts))
            case JobsLost():
                self._lost(action)
            case JobsUnsatisfiable():
                for job in self._ending(action.jobs):
                    self._fail(job, UnsatisfiableError(_LAYOUT if action.missing is None else str(action.missing)))
            case JobsPending():
                jobs = "1 job waits" if action.waiting == 1 else f"{action.waiting} jobs wait"
                why = _LAYOUT if action.missing is None else action.missing.why
                logger.warning("%s for a worker that can give %s: %s", jobs, action.request, why)
            case WakeAt():
                self._alarm(action.at)
            case JobsStarted() | JobsSettled():
                raise AssertionError("only a report starts or settles jobs")

    def _post(self, worker: int, message: Cancel | Retract) -> None:
        self.peers[worker].post(message)

    def _assign(self, action: AssignJobs) -> None:
        peer = self.peers[action.worker]
        shape = self._mind.shapes[action.cls]
        spec = ClassSpec(shape.shape, str(shape.request), shape.isolate)
        peer.define([self._functions.shipment(fn) for fn in dict.fromkeys(action.fns)], spec)
        jobs = [self._jobs[number] for number in action.jobs]
        for job, attempt in zip(jobs, action.attempts, strict=True):
            job.assigned(peer.name, attempt)
        for first, last in _slices(jobs):
            parcels = [job.parcel for job in jobs[first:last] if job.parcel is not None]
            data, counts, buffers = pack_parcels(parcels)
            part = slice(first, last)
            peer.post(
                Assign(
                    action.cls,
                    action.ahead,
                    action.jobs[part],
                    action.attempts[part],
                    action.fns[part],
                    data,
                    counts,
                    action.hard_s,
                ),
                buffers,
            )

    def _started(self, action: JobsStarted, skew: float) -> None:
        start = action.start
        for row in action.rows:
            job = self._jobs.get(start.jobs[row])
            if job is not None and job.node is not None:
                job.slots, job.began = start.allocation, start.at + skew
                job.node.state = State.RUNNING

    def _settle(self, peer: Peer, completed: Completed, rows: list[int], parcels: list[Parcel], skew: float) -> None:
        for row in rows:
            job = self._jobs.pop(completed.jobs[row], None)
            node = job.node if job is not None else None
            if job is None or node is None:
                continue
            wall = completed.wall[row]
            job.used = (wall, completed.cpu[row], completed.rss[row])
            job.receipt_spec = peer.receipts.get(completed.lease)
            job.began = completed.begun[row] + skew
            job.ended = job.began + wall
            job.close()
            self._outcome(job, node, Code(completed.codes[row]), parcels[row])

    def _outcome(self, job: Job, node: Node, code: Code, parcel: Parcel) -> None:
        payload = Payload(parcel[0], tuple(parcel[1]))
        if code is Code.SUCCEEDED:
            try:
                value = load_value(payload)
            except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this job's error
                error.add_note(job.note)
                self._outcomes.failed(node, error)
            else:
                self._outcomes.succeeded(node, value)
            return
        self._outcomes.failed(node, _error(job, node, code, payload))

    def _lost(self, action: JobsLost) -> None:
        for job in self._ending(action.jobs):
            name = job.node.function.name if job.node is not None else "job"
            self._fail(
                job, WorkerLostError(f"{name} was running {action.losses} times when it was lost: {action.reason}")
            )

    def _ending(self, numbers: Iterable[int]) -> Iterator[Job]:
        for number in numbers:
            job = self._jobs.pop(number, None)
            if job is not None:
                yield job

    def _fail(self, job: Job, error: Exception) -> None:
        node = job.node
        if job.worker is not None:
            error.add_note(job.note)
        job.close()
        if node is not None:
            self._outcomes.failed(node, error)


def _limit(job: Job, node: Node) -> str:
    """Which of a job's time limits it was that ended it: the shorter one."""
    timeout = node.function.options.timeout
    walltime = job.allocation.walltime if job.allocation is not None else None
    if timeout is not None and (walltime is None or timeout <= walltime):
        return f"its timeout of {timeout:g} s"
    return "the walltime that its group has learned" if walltime is None else f"its walltime of {walltime:g} s"


def _refuse_gangs(node: Node) -> None:
    refusal = None if node.request is None else gang_refusal(node.request)
    if refusal is not None:
        raise UnsatisfiableError(refusal)


def _error(job: Job, node: Node, code: Code, payload: Payload) -> BaseException:
    if code in (Code.FAILED, Code.OUT_OF_MEMORY):
        return load_error(payload, job.note)
    error: Exception
    if code is Code.TIMED_OUT:
        error = JobTimeoutError(f"{node.function.name} ran past {_limit(job, node)}")
    else:
        error = WorkerLostError(f"{node.function.name} was stopped by its worker ({code.name.lower()})")
    error.add_note(job.note)
    return error


def _slices(jobs: Sequence[Job]) -> Iterator[tuple[int, int]]:
    """Cut a batch so that the small payloads, and the number of large ones, stay well under the limits of a frame."""
    first = size = 0
    for at, job in enumerate(jobs):
        size += len(job.parcel[0]) + BUFFER_COUNTS * len(job.parcel[1]) if job.parcel is not None else 0
        if size > BATCH_BYTES and at > first:
            yield first, at
            first, size = at, 0
    yield first, len(jobs)

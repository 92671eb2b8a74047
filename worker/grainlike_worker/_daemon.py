"""The body of one node: carries messages to the mind and its actions to runners. It decides nothing, and never runs or
unpickles user code.

One loop, all of it synchronous but the waiting: a batch of frames from the head or a runner goes in, the mind answers,
runners are served first, and then one report tells the head of everything at once.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import time
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from grainlike.errors import GrainlikeError, HeadLostError, ProtocolError
from grainlike.net import Alarm, Link
from grainlike.payload import serializer_versions
from grainlike.resources import Allocation
from grainlike.scheduler import (
    GRACE_S,
    BarrierHeld,
    KillRunner,
    NodeAction,
    NodeEvent,
    NodeMind,
    NodeStopped,
    RaiseBarrier,
    RunnerAnswered,
    RunnerCompleted,
    RunnerGone,
    RunnerRetired,
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
from grainlike.wire import (
    BATCH_BYTES,
    BUFFER_COUNTS,
    PROTOCOL,
    Assign,
    Beat,
    Buffer,
    Cancel,
    Completed,
    Define,
    Dialer,
    Frame,
    FunctionSpec,
    Hello,
    LeaseStart,
    Leaving,
    Parcel,
    Report,
    Retract,
    Run,
    Setup,
    Stop,
    Welcome,
    pack_parcels,
    unpack_parcels,
)
from grainlike_worker._probe import logical_in, topology
from grainlike_worker._runner_link import RunnerBody, RunnerKind, RunnerMaker, runner_at_home, runner_in_process

__all__ = ["serve_daemon", "serve_embedded"]

logger = logging.getLogger("grainlike.worker")

BARRIER_S = 0.002
"""How long a barrier stands before what a runner has claimed is believed: far longer than a write takes to be seen."""

LOST_S = 30.0
"""A head that has been silent for this long is lost."""

FAREWELL_S = 1.0
"""How long a worker that stops tries to get its last words out."""


async def serve_daemon(
    link: Link, offer: Allocation, *, name: str, secret: bytes, stop: anyio.Event | None = None
) -> None:
    """Be a worker at the other end of `link`, with all jobs in processes of their own, until the head says goodbye.

    When `stop` is set, it takes no more jobs, ends those it has as a cancellation would, hands them back, and returns.

    Raises:
        HeadLostError: the head fell silent, or the connection broke before it let us in.
        AuthenticationError, VersionMismatchError: one of the two ends refused the other.
    """
    mind = NodeMind(offer, topology())
    await _Daemon(link, mind, _hello(name, offer), secret, runner_in_process).run(stop)


async def serve_embedded(link: Link, offer: Allocation, *, name: str, secret: bytes) -> None:
    """The same inside a user's process, with coroutines in the calling loop."""
    mind = NodeMind(offer, topology(), mortal=False)
    await _Daemon(link, mind, _hello(name, offer), secret, runner_at_home).run()


class _Daemon:
    def __init__(self, link: Link, mind: NodeMind, hello: Hello, secret: bytes, make_runner: RunnerMaker) -> None:
        self._link = link
        self._mind = mind
        self._make_runner = make_runner
        self._handshake = Dialer(secret, hello)
        self._welcome: Welcome | None = None
        self._heard = time.monotonic()
        self._tasks: TaskGroup
        self._runners: dict[int, RunnerBody] = {}
        self._functions: dict[int, tuple[FunctionSpec, Buffer]] = {}
        self._parcels: dict[int, Parcel] = {}
        self._alarm = Alarm(self._ring)
        self._report = _ReportDraft()
        self._idle = anyio.Event()

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Serve until the link ends, or `stop` is set; then end every runner and wait until it is gone."""
        error: GrainlikeError | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._alarm.run)
            tasks.start_soon(self._beat)
            if stop is not None:
                tasks.start_soon(self._stop_at, stop)
            self._link.post(self._handshake.start())
            try:
                await self._link.run(self._hear)
            except GrainlikeError as refusal:
                error = refusal
            tasks.cancel_scope.cancel()
        if error is not None:
            raise error
        if self._welcome is None:
            raise HeadLostError(f"the head at {self._link.peer} ended the connection: {self._link.reason}")

    async def _stop_at(self, stop: anyio.Event) -> None:
        await stop.wait()
        if self._welcome is not None:
            self._idle = anyio.Event()
            self._link.post(Leaving("it was told to stop"))
            self._tell(NodeStopped())
            self._flush()
            # The mind kills what does not end within its grace time; this only bounds what nobody foresaw.
            with anyio.move_on_after(GRACE_S + FAREWELL_S):
                await self._idle.wait()
            await self._link.drain(FAREWELL_S)
        self._link.close("told to stop")

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _hear(self, frames: list[Frame]) -> None:
        """Take one read of the head's link."""
        self._heard = time.monotonic()
        for frame in frames:
            if self._welcome is None:
                self._greet(frame)
            else:
                self._obey(frame)
        self._flush()

    def _greet(self, frame: Frame) -> None:
        for reply in self._handshake.receive(frame.message):
            self._link.post(reply)
        self._welcome = self._handshake.welcome
        if self._welcome is not None:
            logger.info("joined cluster %s as worker %s", self._welcome.cluster, self._welcome.name)
        if self._handshake.proved and not self._link.trusted:
            self._link.trust()

    def _obey(self, frame: Frame) -> None:
        message, buffers = frame
        match message:
            case Define():
                self._functions.update(
                    (spec.fn, (spec, data)) for spec, data in zip(message.functions, buffers, strict=True)
                )
                self._tell(message)
            case Assign():
                parcels = unpack_parcels(message.data, message.counts, buffers)
                self._parcels.update(zip(message.jobs, parcels, strict=True))
                self._tell(message)
            case Cancel() | Retract():
                self._tell(message)
            case Beat():
                pass
            case _:
                raise ProtocolError(f"{type(message).__name__} is nothing that a head says to a worker")

    def _hear_runner(self, runner: int) -> Callable[[list[Frame]], None]:
        def hear(frames: list[Frame]) -> None:
            for message, buffers in frames:
                match message:
                    case Completed():
                        self._tell(RunnerCompleted(runner, message), buffers)
                    case Beat():
                        self._tell(RunnerAnswered(runner))
                    case _:
                        raise ProtocolError(f"{type(message).__name__} is nothing that a runner says")
            self._flush()

        return hear

    # --- what the mind says ------------------------------------------------------------------------------------------

    def _tell(self, event: NodeEvent, buffers: Sequence[Buffer] = ()) -> None:
        for action in self._mind.handle(event, time.monotonic()):
            self._act(action, buffers)
        if self._mind.idle:
            self._idle.set()

    def _act(self, action: NodeAction, buffers: Sequence[Buffer]) -> None:
        match action:
            case StartLease():
                self._start(action)
            case TellStarted():
                self._report.started.append(action.start)
            case TellCompleted():
                self._completed(action, buffers)
            case TellEnded():
                self._report.ended.append(action.lease)
            case SpawnRunner():
                self._spawn(action)
            case StopJobs():
                self._runners[action.runner].post(Stop(action.jobs))
            case RaiseBarrier():
                self._runners[action.runner].bar()
                self._tasks.start_soon(self._hold_barrier, action)
            case TerminateRunner():
                self._runners[action.runner].terminate()
            case KillRunner():
                self._runners[action.runner].kill()
            case RunnerRetired():
                names = sorted({self._functions[fn][0].name for fn in action.fns})
                logger.warning(
                    "%s: cancelled, and goes on all the same; it keeps its slots, and its runner gets no more jobs",
                    ", ".join(names),
                )
            case WakeAt():
                self._alarm.set(action.at)

    def _start(self, action: StartLease) -> None:
        runner = self._runners[action.runner]
        fresh = [fn for fn in dict.fromkeys(action.fns) if fn not in runner.defined]
        if fresh:
            runner.defined.update(fresh)
            shipments = [self._functions[fn] for fn in fresh]
            runner.post(Define([spec for spec, _ in shipments], []), [data for _, data in shipments])
        data, counts, buffers = pack_parcels([self._parcels[job] for job in action.jobs])
        runner.unbar()
        runner.post(
            Run(
                action.lease,
                action.allocation,
                action.jobs,
                action.attempts,
                action.fns,
                action.deadlines,
                data,
                counts,
            ),
            buffers,
        )

    def _completed(self, action: TellCompleted, buffers: Sequence[Buffer]) -> None:
        completed = action.completed
        for job, attempt in zip(completed.jobs, completed.attempts, strict=True):
            if attempt:  # rows of attempt 0 are handed back inside this node, and told of later
                self._parcels.pop(job, None)
        self._report.completed.append(completed)
        if action.forwarded:
            self._report.buffers.extend(buffers)
        self._report.size += sum(map(len, completed.data)) + BUFFER_COUNTS * len(buffers)
        if self._report.size > BATCH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Tell the head everything at once."""
        if self._report:
            self._link.post(self._report.message(time.monotonic()), self._report.buffers)
            self._report = _ReportDraft()

    # --- runners -----------------------------------------------------------------------------------------------------

    def _spawn(self, action: SpawnRunner) -> None:
        assert self._welcome is not None
        number = action.runner
        runner = self._make_runner(action.kind, lambda pid: logger.debug("runner %d is process %d", number, pid))
        self._runners[number] = runner
        runner.post(Setup(self._welcome.name, self._welcome.paths))
        self._tasks.start_soon(self._tend, number, runner, action.kind)

    async def _tend(self, number: int, runner: RunnerBody, kind: RunnerKind) -> None:
        """See a runner through its life; say when it is gone."""
        how = await runner.run(self._hear_runner(number))
        logger.info("%s runner %d ended: %s", kind, number, how)
        del self._runners[number]
        self._tell(RunnerGone(number, how, runner.started()))
        self._flush()

    async def _hold_barrier(self, action: RaiseBarrier) -> None:
        await anyio.sleep(BARRIER_S)
        runner = self._runners.get(action.runner)
        started = runner.started() if runner is not None else -1
        if started >= 0:  # else the lease has just ended, and its last outcomes are on their way
            self._tell(BarrierHeld(action.runner, action.lease, started))
            self._flush()

    # --- time --------------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._tell(Ticked())
        self._flush()

    async def _beat(self) -> None:
        """Show the head that we live, whatever jobs do; give it up when it does not."""
        number = 0
        doubt = False
        while not (doubt and time.monotonic() - self._heard >= LOST_S):
            # This loop may have been blocked (the embedded worker's is the user's): a silence needs a second look.
            doubt = time.monotonic() - self._heard >= LOST_S
            if self._welcome is not None:
                number += 1
                self._link.post(Beat(number))
            await anyio.sleep(self._welcome.heartbeat_s if self._welcome is not None else 1.0)
        logger.warning("the head has been silent for %g s; giving it up", LOST_S)
        self._link.close(f"the head was silent for {LOST_S:g} s")


class _ReportDraft:
    """What the head is to be told at the end of this turn."""

    __slots__ = ("buffers", "completed", "ended", "size", "started")

    def __init__(self) -> None:
        self.started: list[LeaseStart] = []
        self.completed: list[Completed] = []
        self.ended: list[int] = []
        self.buffers: list[Buffer] = []
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self.started or self.completed or self.ended)

    def message(self, now: float) -> Report:
        return Report(now, self.started, self.completed, self.ended)


def _hello(name: str, offer: Allocation) -> Hello:
    return Hello(
        role="worker",
        nonce=secrets.token_bytes(32),
        protocol_low=PROTOCOL,
        protocol_high=PROTOCOL,
        python=platform.python_version(),
        serializers=serializer_versions(),
        name=name,
        incarnation=secrets.token_hex(8),
        pid=os.getpid(),
        offer=str(offer),
        logical=list(logical_in(offer)),
    )

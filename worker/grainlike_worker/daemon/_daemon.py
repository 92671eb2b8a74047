"""Driver of one node: carries messages to the scheduler and its actions to runners. It decides nothing, and never runs
or unpickles user code.

One loop, all of it synchronous but the waiting: a batch of frames from the head or a runner goes in, the scheduler
answers, and one report tells the head of everything at once. It leaves before the leases that it tells of; only after
the frames of a runner leases go first, for that one waits for the next.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from itertools import compress
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike.errors import GrainlikeError, HeadLostError, ProtocolError
from grainlike.eventloop import Alarm, stays
from grainlike.net import Link
from grainlike.scheduler import (
    GRACE_S,
    AssignSized,
    BarrierHeld,
    CoresTaken,
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
    RunnerKind,
    RunnerReady,
    RunnerRenewed,
    RunnerRetired,
    SpawnRunner,
    StartApart,
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
from grainlike.subprocesses import CoreLocks, NoCoreLocks
from grainlike.wire import (
    LOST_S,
    Assign,
    Awaits,
    Beat,
    Blocked,
    Buffer,
    Cancel,
    Completed,
    ConnectingHandshake,
    Credit,
    Define,
    Depart,
    DropReplicas,
    Follow,
    Frame,
    FunctionSpec,
    Gang,
    GoesOn,
    Hello,
    Hold,
    Items,
    Leaving,
    Message,
    Outcomes,
    Output,
    OutputStream,
    Parcel,
    PullReplica,
    Ready,
    Renew,
    ReplicaCredit,
    ReplicaPart,
    Resumed,
    Retract,
    Room,
    Run,
    SendReplica,
    Setup,
    SpareReplicas,
    Stop,
    StopReason,
    StopTransfer,
    Submit,
    TimeLeft,
    Undefine,
    Welcome,
    Withdraw,
    nbytes_of,
    pack_parcels,
    plain_column,
    unpack_parcels,
)
from grainlike_worker.daemon._core_locks import UsedCores
from grainlike_worker.daemon._hostfiles import HostFiles
from grainlike_worker.daemon._keeper import KeeperClient
from grainlike_worker.daemon._output import LIVE_S, Outputs, Show, Tap
from grainlike_worker.daemon._record_relay import RecordRelay
from grainlike_worker.daemon._report import ReportDraft, StreamRelay
from grainlike_worker.daemon._runner_watch import HaltedWatch, watched
from grainlike_worker.daemon._runners import RunnerBody, RunnerMaker
from grainlike_worker.daemon._stops import EndTimer, IdleTimer
from grainlike_worker.daemon._transfers import ReplicaTransfers
from grainlike_worker.store._relay import StoreRelay
from grainlike_worker.store._replicas import WorkerReplicas

if TYPE_CHECKING:  # it needs what waits on sockets, of which an embedded worker has none
    from grainlike_worker.daemon._data_process import DataProcess

__all__ = ["_Daemon"]

logger = logging.getLogger("grainlike.worker")

BARRIER_S = 0.002
"""How long a barrier stands before what a runner has claimed is believed: far longer than a write takes to be seen."""

LOOK_S = 0.01
"""Seconds for which the cores of other programs stay known: to ask costs a system call or two."""

_MANAGERS = "multiprocessing.managers"
"""Where this is loaded there may be managers whose proxies go to jobs."""

GOODBYE_S = 1.0
"""How long a worker that stops tries to get its last words out."""


class _Daemon:
    def __init__(
        self,
        link: Link,
        scheduler: NodeScheduler,
        hello: Hello,
        make_runner: RunnerMaker,
        *,
        show: Show | None,
        context: str = "",
        locks: CoreLocks | None = None,
        in_program: bool = False,
        keeper: KeeperClient | None = None,
        replicas: WorkerReplicas | None = None,
        data: DataProcess | None = None,
    ) -> None:
        self._link = link
        self._scheduler = scheduler
        self._cores = UsedCores(locks if locks is not None else NoCoreLocks(), lingers=not in_program)
        self._in_program, self._keeper = in_program, keeper
        self._keyed: set[int] = set()
        """The runners that have been given the program's key of `multiprocessing`."""
        self._looked, self._taken = -LOOK_S, 0
        self._make_runner, self._context = make_runner, context
        self._handshake = ConnectingHandshake(hello)
        self._welcome: Welcome | None = None
        self._heard = time.monotonic()
        self._tasks: TaskGroup
        self._runners: dict[int, RunnerBody] = {}
        self._begun: list[RunnerBody] = []
        """Those that were given leases, which have not left yet."""
        self._functions: dict[int, tuple[FunctionSpec, Buffer]] = {}
        self._parcels: dict[int, Parcel] = {}
        self._nests: dict[int, int] = {}
        """The runners of the jobs that have submitted jobs."""
        self._gangs: dict[int, Gang] = {}
        self._host_files, self._halted = HostFiles(), HaltedWatch(self._say)
        self._alarm = Alarm(self._ring)
        self._report = ReportDraft()
        self._relay = StreamRelay(self._say)
        self._outputs = Outputs(self._say, self._parcels, show)
        self._replicas = replicas if replicas is not None else WorkerReplicas(None)
        self._transfers = ReplicaTransfers(self._replicas, self._say, data)
        self._store = StoreRelay(self._replicas, self._say, scheduler, self._parcels)
        self._records = RecordRelay(self._say, link.unacknowledged, in_program=in_program)
        self._idle: anyio.Event | None = None
        self._idle_timer: IdleTimer | None = None
        self._end: EndTimer | None = None
        self._leaving = False

    def stops_by(self, idle: IdleTimer | None, end: EndTimer | None) -> None:
        """Tell `idle` when jobs come and go, and `end` when the head changes the time that is left."""
        self._idle_timer, self._end = idle, end

    def link_returned(self) -> None:
        """The link to the head has broken, and there is another."""
        self._transfers.link_returned()
        self._store.link_returned()
        self._halted.tell_again()

    async def run(self, stop: anyio.Event | None = None) -> None:
        """Serve until the link ends, or `stop` is set; then end every runner and wait until it is gone."""
        try:
            with closing(self._outputs), closing(self._transfers):
                await self._serve(stop)
        finally:
            self._host_files.remove_all()

    async def _serve(self, stop: anyio.Event | None) -> None:
        error: GrainlikeError | None = None
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._replicas.start = tasks.start_soon
            tasks.start_soon(self._alarm.run)
            tasks.start_soon(self._cores.run)
            tasks.start_soon(self._beat)
            tasks.start_soon(self._transfers.run)
            if stop is not None:
                tasks.start_soon(self._stop_at, stop)
            self._link.post(self._handshake.hello)
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
        await self._leave()

    async def _depart(self, *, kill: bool) -> None:
        """The head wants us to end: at once, or when no job is left."""
        while not (kill or self._scheduler.idle):
            self._idle = idle = anyio.Event()
            await idle.wait()
        await self._leave()

    async def _leave(self) -> None:
        """Take no more jobs, end those that are here, and hang up."""
        if self._leaving:
            return
        self._leaving = True
        if self._welcome is not None:
            self._idle = idle = anyio.Event()
            over = self._end if self._end is not None and self._end.over else None
            grace_s = GRACE_S if over is None else over.grace_s
            self._say(Leaving("it was told to stop" if over is None else "its time is over"))
            self._tell(NodeStopped(grace_s, StopReason.UNSAID if over is None else StopReason.WALLTIME))
            self._flush()
            # The scheduler kills what does not end within its grace time; this only bounds what was not foreseen.
            with anyio.move_on_after(grace_s + GOODBYE_S):
                await idle.wait()
            await self._link.drain(GOODBYE_S)
        self._link.close("told to stop")

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _hear(self, frames: list[Frame]) -> None:
        """Take one read of the head's link."""
        self._heard = time.monotonic()
        if self._heard - self._looked >= LOOK_S:
            self._look_at_cores()
        for frame in frames:
            if self._welcome is None:
                self._greet(frame)
            else:
                self._obey(frame)
        self._flush()

    def _greet(self, frame: Frame) -> None:
        self._handshake.receive(frame.message)
        self._welcome = self._handshake.welcome
        if self._welcome is not None:
            logger.info("joined cluster %s as worker %s", self._welcome.cluster, self._welcome.name)

    def _obey(self, frame: Frame) -> None:
        message, buffers = frame
        match message:
            case Define():
                shipments = zip(message.functions, buffers, strict=True)
                self._functions.update((spec.fn, (spec, data)) for spec, data in shipments)
                self._tell(message)
            case Undefine():
                self._undefine(message)
            case Assign():
                parcels = unpack_parcels(message.data, message.counts, buffers)
                self._parcels.update(zip(message.jobs, parcels, strict=True))
                self._tell(AssignSized(message, list(map(nbytes_of, parcels))) if message.counts else message)
            case Gang():
                self._gangs[message.job] = message
            case Cancel() | Retract() | Hold():
                self._tell(message)
            case Credit():
                self._credit(message)
            case Depart():
                self._tasks.start_soon(partial(self._depart, kill=message.kill))
            case TimeLeft():
                if self._end is not None:
                    self._end.tell(message.left_s, message.grace_s)
            case Outcomes():
                runner = self._runners.get(self._nests.get(message.parent, 0))
                if runner is not None:
                    runner.post(message, buffers)
            case Beat():
                pass
            case ReplicaPart() | ReplicaCredit() | SendReplica() | PullReplica() | StopTransfer():
                self._transfers.hear(message, buffers)
            case DropReplicas() | SpareReplicas():
                self._store.hear(message)
            case Follow():
                self._follow(message)
            case _:
                raise ProtocolError(f"{type(message).__name__} is nothing that a head says to a worker")

    def _undefine(self, message: Undefine) -> None:
        """Drop functions, here and in the runners that have them, and request classes, which the scheduler has."""
        for fn in message.functions:
            self._functions.pop(fn, None)
        self._tell(message)
        for runner in self._runners.values():
            known = runner.defined.intersection(message.functions)
            if known:
                runner.defined -= known
                runner.post(Undefine(sorted(known), []))

    def _follow(self, message: Follow) -> None:
        if not message.on:
            self._outputs.unfollow(message.job, message.follower)
            return
        for runner in self._runners.values():
            runner.drain()
        if self._outputs.follow(message.job, message.follower):
            self._tasks.start_soon(self._pulse)

    async def _pulse(self) -> None:
        """While a client follows a job, tell what waits to be told."""
        while self._outputs.pulse():  # noqa: ASYNC110 - it is time that is waited for
            await anyio.sleep(LIVE_S)

    def _hear_runner(self, runner: int, tap: Tap) -> Callable[[list[Frame]], None]:
        body = self._runners[runner]

        def hear(frames: list[Frame]) -> None:
            body.drain()
            for message, buffers in frames:
                match message:
                    case Completed():
                        self._tell(RunnerCompleted(runner, message), buffers)
                        if message.sizes:
                            self._replicas.only_told(message)
                    case Beat():
                        self._tell(RunnerAnswered(runner))
                    case Ready():
                        self._tell(RunnerReady(runner))
                    case Renew():
                        self._tell(RunnerRenewed(runner))
                    case Items():
                        self._relay.up(runner, message, buffers)
                    case Output():
                        for stream, data in zip(message.streams, message.data, strict=True):
                            tap.told(message.job, message.attempt, OutputStream(stream), data)
                    case Submit():
                        self._nests[message.parent] = runner
                        self._say(message, buffers)
                    case Withdraw():
                        self._say(message)
                    case Awaits(job=job, attempt=attempt, heard=heard):
                        self._tell(JobAwaits(runner, job, attempt, heard))
                    case GoesOn(job=job, attempt=attempt, heard=heard):
                        self._tell(JobGoesOn(runner, job, attempt, heard))
                    case Room():
                        self._store.give_room(message, self._runners[runner].post)
                    case _:
                        raise ProtocolError(f"{type(message).__name__} is nothing that a runner says")
            if self._begun:
                self._send_leases()  # now: the runner of one that has ended waits for the next
            self._flush()

        return hear

    def _credit(self, message: Credit) -> None:
        runner = self._relay.runner(message)
        if runner in self._runners:
            self._runners[runner].post(message)

    # --- what the scheduler says -------------------------------------------------------------------------------------

    def _tell(self, event: NodeEvent, buffers: Sequence[Buffer] = ()) -> None:
        self._act(self._scheduler.handle(event, time.monotonic()), buffers)
        if self._idle is not None and self._scheduler.idle:
            self._idle.set()
        if self._idle_timer is not None:
            self._idle_timer.look(idle=self._scheduler.idle)

    def _act(self, actions: list[NodeAction], buffers: Sequence[Buffer]) -> None:
        for action in actions:
            match action:
                case StartLease():
                    self._start(action)
                case TellStarted() | TellHeld():
                    self._report.add_started(action.start)
                    if self._report.full:
                        self._enqueue_report()
                case TellCompleted():
                    self._completed(action, buffers)
                case TellEnded():
                    self._report.ended.append(action.lease)
                    if self._replicas.uses:
                        self._replicas.ended_use(action.lease)
                    if self._host_files.by_lease:
                        self._host_files.remove(action.lease)
                case TellWaits():
                    self._report.waits.append(action.wait)
                case ResumeJob():
                    self._runners[action.runner].post(Resumed(action.job, action.attempt, action.allocation))
                case SpawnRunner():
                    self._spawn(action)
                case StopJobs():
                    self._runners[action.runner].post(Stop(action.jobs, action.reason))
                case RaiseBarrier():
                    self._runners[action.runner].bar()
                    self._tasks.start_soon(self._hold_barrier, action)
                case TerminateRunner():
                    self._runners[action.runner].terminate(action.reason)
                case KillRunner():
                    self._runners[action.runner].kill()
                case RunnerRetired():
                    names = sorted({self._functions[fn][0].name for fn in action.fns if fn in self._functions})
                    logger.warning(
                        "%s: cancelled, and goes on all the same; it keeps its slots, and its runner gets no more jobs",
                        ", ".join(names),
                    )
                case WakeAt():
                    self._alarm.set(action.at)

    def _start(self, action: StartLease) -> None:
        runner = self._runners[action.runner]
        if not runner.defined.issuperset(action.fns):
            fresh = [fn for fn in dict.fromkeys(action.fns) if fn not in runner.defined]
            runner.defined.update(fresh)
            shipments = [self._functions[fn] for fn in fresh]
            runner.post(Define([spec for spec, _ in shipments], []), [data for _, data in shipments])
        parcels = list(map(self._parcels.__getitem__, action.jobs))
        plain = plain_column(parcels)
        data, counts, buffers = pack_parcels(parcels) if plain is None else (plain, [], [])
        if self._replicas.sizes or action.needs:
            self._replicas.used(action.lease, action.needs)
        if self._gangs:
            self._tell_nodes(runner, action)
        if self._in_program and _MANAGERS in sys.modules and action.runner not in self._keyed:
            self._give_key(action.runner)
        place = runner.works_on(action.lease, action.jobs, action.attempts)
        columns = action.allocation, action.jobs, action.attempts, action.fns, action.deadlines, data, counts
        rest = action.limit, action.memory, action.needs, isinstance(action, StartApart), action.fresh, place
        runner.enqueue(Run(action.lease, *columns, *rest, action.limits), buffers)
        self._begun.append(runner)

    def _send_leases(self) -> None:
        """Send runners the leases that they were given in this turn."""
        begun, self._begun = self._begun, []
        for runner in begun:
            runner.flush()

    def _give_key(self, number: int) -> None:
        """Let the jobs of a runner reach managers of `multiprocessing` that this program has made, or will make."""
        from multiprocessing.process import current_process

        assert self._welcome is not None
        self._keyed.add(number)
        self._runners[number].post(replace(self._setup(self._welcome), authkey=bytes(current_process().authkey)))

    def _tell_nodes(self, runner: RunnerBody, action: StartLease) -> None:
        gang = self._gangs.pop(action.jobs[0], None)
        if gang is not None:
            runner.post(replace(gang, hostfile=self._host_files.write(action.lease, gang)))

    def _completed(self, action: TellCompleted, buffers: Sequence[Buffer]) -> None:
        completed = action.completed
        buffers = buffers if action.forwarded else ()
        failed = any(completed.codes)
        if failed or self._outputs.open:
            self._outputs.completed(completed, buffers)
        for job in compress(completed.jobs, completed.attempts):
            # Not rows of attempt 0, which are handed back inside this node, and told of later.
            self._parcels.pop(job, None)
            if self._nests:
                self._nests.pop(job, None)
        if failed or completed.sizes or self._replicas.rooms:
            self._replicas.ended(completed)
        if self._relay.runners:
            self._relay.forget(completed.jobs)
        if self._records.dropped:
            self._records.completed(completed)
        self._report.add_completed(completed, buffers)
        if self._report.full:
            self._enqueue_report()

    def _say(self, message: Message, buffers: Sequence[Buffer] = ()) -> None:
        """Tell the head something by itself, after all that came before it."""
        self._enqueue_report()
        self._link.post(message, buffers)

    def _look_at_cores(self) -> None:
        """Let the scheduler know which cores other programs use, if that has changed."""
        self._looked = self._heard
        taken = self._cores.others()
        if taken != self._taken:
            self._taken = taken
            self._tell(CoresTaken(taken))

    def _flush(self) -> None:
        """End what is done in one turn: what the head is to know leaves, and then what runners are to begin."""
        busy = self._scheduler.busy_cores
        if busy != self._cores.used:
            self._cores.use(busy)
        self._enqueue_report()
        self._link.flush()
        if self._begun:
            self._send_leases()

    def _enqueue_report(self) -> None:
        """Tell the head everything at once: it leaves with the end of this turn, or with what is posted before that."""
        report = self._report
        if report.started or report.completed or report.ended or report.waits:
            self._report = ReportDraft()
            self._link.enqueue(report.message(time.monotonic()), report.buffers)

    # --- runners -----------------------------------------------------------------------------------------------------

    def _spawn(self, action: SpawnRunner) -> None:
        assert self._welcome is not None
        number = action.runner
        tap = self._outputs.tap(number)
        tap.on_records = self._records.take
        runner = self._make_runner(action.kind, lambda pid: logger.debug("runner %d is process %d", number, pid), tap)
        self._runners[number] = runner
        runner.post(self._setup(self._welcome))
        runner.leave_s = GRACE_S if self._context else 0.0
        self._tasks.start_soon(self._tend, number, runner, action.kind, tap)

    def _setup(self, welcome: Welcome) -> Setup:
        paths = [*welcome.paths, str(Path.cwd())] if self._context else welcome.paths
        return Setup(welcome.name, paths, self._context, welcome.store, replicas=self._replicas.directory)

    async def _tend(self, number: int, runner: RunnerBody, kind: RunnerKind, tap: Tap) -> None:
        """Watch a runner until it ends, and report that."""
        with watched(runner, partial(self._blocked, number), self._tasks):
            how = await runner.run(self._hear_runner(number, tap))
        logger.info("%s runner %d ended: %s", kind, number, how)
        del self._runners[number]
        self._keyed.discard(number)
        with self._outputs.dying(tap):
            self._tell(runner.gone(number, how))
        self._replicas.runner_gone()
        self._flush()

    def _blocked(self, runner: int, message: Blocked) -> None:
        """A job of a runner that many share blocks its loop, or (`seconds` is 0) does no longer."""
        if message.seconds:
            words = "job %d has blocked the event loop of runner %d, and all jobs there, for %g s:\n%s"
            logger.warning(words, message.job, runner, message.seconds, message.stack)
        else:
            logger.info("job %d no longer blocks the event loop of runner %d", message.job, runner)
        self._say(message)

    async def _hold_barrier(self, action: RaiseBarrier) -> None:
        await anyio.sleep(BARRIER_S)
        runner = self._runners.get(action.runner)
        while (started := -1 if runner is None else runner.held_at(action.lease)) is None:
            await anyio.sleep(BARRIER_S)
            runner = self._runners.get(action.runner)
        if runner is not None and started >= 0:
            runner.works_on_only(started)
            self._tell(BarrierHeld(action.runner, action.lease, started, runner.claimed_for()))
            self._flush()

    # --- time --------------------------------------------------------------------------------------------------------

    def _ring(self) -> None:
        self._tell(Ticked())
        self._flush()

    async def _beat(self) -> None:
        """Show the head that we live, whatever jobs do; give it up when it does not.

        A worker whose keeper does not answer starts and ends no job, so it shows nothing.
        """
        number, doubt = 0, False
        while True:
            if self._welcome is not None and not (self._keeper is not None and self._keeper.suspected):
                number += 1
                self._link.post(Beat(number))
                self._halted.look(runner.at_work() for runner in self._runners.values())
            # This loop may have been blocked (the embedded worker's is the user's): a silence needs a second look.
            if self._link.still_comes():
                self._heard = time.monotonic()
            if doubt and await stays(self._head_is_silent):
                self._link.give_up(f"the head was silent for {LOST_S:g} s")
            doubt = self._head_is_silent()
            await anyio.sleep(self._welcome.heartbeat_s if self._welcome is not None else 1.0)

    def _head_is_silent(self) -> bool:
        return time.monotonic() - self._heard >= LOST_S

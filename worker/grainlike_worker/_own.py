"""The runner of plain functions: one lease at a time, no event loop, enforced to the allocation's ids."""

import os
import time
from collections import deque
from collections.abc import Sequence
from contextvars import copy_context

from grainlike.context import JobInfo, enter_job, leave_job
from grainlike.errors import ProtocolError
from grainlike.payload import Payload, dump_value, load_arguments
from grainlike.resources import Allocation
from grainlike.wire import Code, Define, Frame, Run, Setup, Stop
from grainlike_worker._claims import IDLE, Claims
from grainlike_worker._enforce import Enforcer
from grainlike_worker._failures import NO_VALUE, failed
from grainlike_worker._functions import Functions, Loaded
from grainlike_worker._interrupts import TERMINATED, Interrupts
from grainlike_worker._isolated import IsolatedLoop
from grainlike_worker._lease import Lease
from grainlike_worker._pipe import LinkEndedError, Pipe
from grainlike_worker._streams import Streams
from grainlike_worker._usage import PeakMemory, cpu_seconds

__all__ = ["OwnRunner"]


class OwnRunner:
    """Serves its pipe until it ends or SIGTERM comes. Belongs to the main thread of a process of its own.

    Each job runs in a copied context. SIGTERM ends the running job by `SystemExit`, reports what has ended, hands the
    rest of the run-list back, and then ends the process. Without `claims`, only `Stop` keeps later jobs from starting.
    """

    def __init__(self, pipe: Pipe, claims: Claims | None = None) -> None:
        self._pipe = pipe
        self._claims = claims
        self._functions = Functions()
        self._enforcer = Enforcer()
        self._peak = PeakMemory()
        self._streams = Streams()
        self._interrupts = Interrupts(self._flush_current)
        self._loop = IsolatedLoop(self._interrupts)
        self._leases: deque[Lease] = deque()
        self._base = copy_context()
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    def serve(self) -> None:
        """Run leases until the link ends (return) or SIGTERM asks to end (`SystemExit`)."""
        self._interrupts.install()
        try:
            while True:
                while self._leases:
                    self._run(self._leases[0])
                    self._leases.popleft()
                self._handle(self._wait())
        except LinkEndedError:
            return

    def _wait(self) -> list[Frame]:
        interrupts = self._interrupts
        # Exposed first, asked second: a signal between the two finds one or the other.
        interrupts.exposed = True
        if interrupts.asked:
            raise SystemExit(TERMINATED)
        frames = self._pipe.receive()
        interrupts.exposed = False
        return frames

    def _handle(self, frames: Sequence[Frame]) -> None:
        for message, buffers in frames:
            match message:
                case Run():
                    self._leases.append(Lease(message, buffers, time.monotonic()))
                case Stop(jobs=jobs):
                    for lease in self._leases:
                        lease.stop(jobs)
                case Define():
                    self._functions.define(message, buffers)
                case Setup():
                    self._functions.set_up(message)
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a runner is told")

    # --- one lease ---------------------------------------------------------------------------------------------------

    def _run(self, lease: Lease) -> None:
        self._interrupts.install()
        self._streams.mend()
        self._enforcer.enforce(lease.allocation)
        self._peak.restart()
        self._functions.get(lease.fn)  # unpickled now: what that takes is no part of a job's time
        clock = _Clock()
        receipt = None
        while lease.index < lease.end:
            if self._may_start(lease):
                self._run_one(lease, clock)
                if receipt is None:
                    # Only now: the job has loaded the native libraries whose width is to be told.
                    receipt = lease.columns.receipt = self._enforcer.receipt()
            if lease.columns.due(clock.now):
                self._flush(lease)
        leave_job(whole_process=True)
        self._flush(lease)
        if self._claims is not None:
            self._claims.started = IDLE

    def _may_start(self, lease: Lease) -> bool:
        """Whether the job at `index` is ours to start; if not, it is answered for, and maybe the rest with it."""
        claims = self._claims
        if claims is not None:
            claims.started = lease.index
        # Between the claim and the look at the barrier stands a system call, in which Python hands over its lock: no
        # processor carries our write past it. Without that, both sides could believe that the job is theirs.
        frames = self._pipe.poll()
        if frames:
            self._handle(frames)
        if self._interrupts.asked or (claims is not None and lease.index >= claims.barrier):
            lease.hand_back(lease.index)
            return False
        if lease.stopped and lease.current_is_stopped:
            lease.skip()
            return False
        return True

    def _run_one(self, lease: Lease, clock: "_Clock") -> None:
        interrupts = self._interrupts
        function = self._functions.get(lease.fn)
        try:
            interrupts.exposed = True
            payload = self._base.copy().run(
                self._call, function, lease.arguments(), lease.allocation, lease.info(function.name)
            )
            interrupts.exposed = False
            code = Code.SUCCEEDED if function.refusal is None else Code.FAILED
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome, SystemExit included
            interrupts.exposed = False
            code, payload = (Code.CANCELLED, NO_VALUE) if interrupts.asked else failed(error)
        if self._forked:
            os._exit(0)  # a child that the job forked came back out of the job: it is no runner
        begun, wall, cpu = clock.lap()
        lease.ran(code, payload, begun, wall, cpu)

    def _call(self, function: Loaded, arguments: Payload, allocation: Allocation, info: JobInfo) -> Payload:
        if function.refusal is not None:
            return function.refusal
        enter_job(allocation, self._functions.instance, info, whole_process=True)
        args, kwargs = load_arguments(arguments)
        if function.is_async:
            value = self._loop.run(function.callable, args, kwargs)
        else:
            value = function.callable(*args, **kwargs)
        return dump_value(value, what=function.value_name)

    # --- answering ---------------------------------------------------------------------------------------------------

    def _flush(self, lease: Lease) -> None:
        if lease.columns:
            self._pipe.send(*lease.columns.take(self._peak.read()))

    def _flush_current(self) -> None:
        if self._leases:
            self._flush(self._leases[0])

    def _after_fork(self) -> None:
        """In a child that a job forked: it must neither answer for the job nor keep the runner's socket open."""
        self._forked = True
        self._interrupts.uninstall()
        self._pipe.close()


class _Clock:
    """Cuts a lease into laps, one per job: two readings a job, where a start and an end would take four."""

    __slots__ = ("_cpu", "now")

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._cpu = cpu_seconds()

    def lap(self) -> tuple[float, float, float]:
        """Begin, wall seconds and CPU seconds since the last lap."""
        begun, before = self.now, self._cpu
        self.now = time.monotonic()
        self._cpu = cpu_seconds()
        return begun, self.now - begun, self._cpu - before

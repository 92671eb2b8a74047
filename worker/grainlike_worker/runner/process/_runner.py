"""The runner of plain functions: one lease at a time, no event loop, enforced to the allocation's ids."""

import _thread
import os
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

import grainlike._error_texts  # noqa: F401 - for the first failure: a job may leave a process that can import nothing
from grainlike.context import JobFacts, JobInfo, enter_job, leave_job, this_process
from grainlike.errors import ProtocolError
from grainlike.payload import Payload, dump_plain_value, dump_value, load_arguments, replica_size
from grainlike.resources import Allocation, parse_allocation
from grainlike.wire import (
    Buffer,
    Code,
    Credit,
    Define,
    Frame,
    Gang,
    Message,
    Need,
    Outcomes,
    Output,
    OutputStream,
    Parcel,
    Ready,
    Renew,
    Resumed,
    Room,
    RoomIs,
    Run,
    Setup,
    Stop,
    StopReason,
    Undefine,
)
from grainlike_worker.ipc._claims import BARRIER, CALLED, IDLE, LEASE, LINK, SINCE, STARTED, ClaimPage
from grainlike_worker.linux._lifeline import end_within
from grainlike_worker.runner.common import _chain_links
from grainlike_worker.runner.common._context import show_nodes
from grainlike_worker.runner.common._devices import Devices, device_library_loaded
from grainlike_worker.runner.common._edited_modules import EditedModules
from grainlike_worker.runner.common._enforce import Enforcer
from grainlike_worker.runner.common._failures import NO_VALUE, failed
from grainlike_worker.runner.common._functions import LoadedFunction, LoadedFunctions
from grainlike_worker.runner.common._job_directories import JobDirectories
from grainlike_worker.runner.common._job_number import hide_job, show_job
from grainlike_worker.runner.common._job_records import JobRecords
from grainlike_worker.runner.common._lease import RunnerLease
from grainlike_worker.runner.common._outcomes import Stays
from grainlike_worker.runner.common._uplink import WatchedUplink
from grainlike_worker.runner.common._usage import EndedChildren, Laps, PeakMemory
from grainlike_worker.runner.process._coroutines import IsolatedLoop
from grainlike_worker.runner.process._memory_limit import MemoryLimit
from grainlike_worker.runner.process._output import ProcessOutput
from grainlike_worker.runner.process._pipe import LinkEndedError, Pipe
from grainlike_worker.runner.process._process_state import ProcessState
from grainlike_worker.runner.process._reset import RunnerReset
from grainlike_worker.runner.process._room_asker import RoomAsker
from grainlike_worker.runner.process._signals import RunnerSignals
from grainlike_worker.runner.process._stdio import StandardStreams

if TYPE_CHECKING:
    from grainlike_worker.runner.process._streams import ProcessStreams

__all__ = ["ProcessRunner"]

_LEAVE_S = 5
"""How long what jobs registered for the end of their process may take, once the process is used up."""


class ProcessRunner:
    """Serves its pipe until it ends or SIGTERM comes. Belongs to the main thread of a process of its own.

    Each job runs in a copied context. SIGTERM ends the running job by `SystemExit`, reports what has ended, hands the
    rest of the run-list back, and then ends the process. Without `claims`, only `Stop` keeps later jobs from starting.
    """

    def __init__(
        self,
        pipe: Pipe,
        claims: ClaimPage | None = None,
        *,
        memory: MemoryLimit | None = None,
        devices: Devices | None = None,
        scratch: str | None = None,
        output: ProcessOutput | None = None,
        records: JobRecords | None = None,
    ) -> None:
        self._records = records
        self._output = output if output is not None else ProcessOutput()
        pipe.watch(self._output.unread)
        _chain_links.listen(self._link_begins, self._link_ended)
        self._scratch = JobDirectories(scratch, shown=True)
        self._pipe = pipe
        self._claims = claims
        self._words = None if claims is None else claims.words
        self._functions = LoadedFunctions(EditedModules())
        self._unloaded = self._functions.unloaded.keys()
        self._enforcer = Enforcer(devices)
        self._memory = memory if memory is not None else MemoryLimit(claims, None)
        self._reset = RunnerReset()
        self._fresh = True
        self._had_devices = False
        self._clean = False
        self._held_to: Allocation | None = None
        """The slots of the last lease, while the environment, as it is put back after each, is the one of these."""
        self._shows_nodes = True  # those of a job in which the worker was started
        self._ready_at: float | None = None
        self._children = EndedChildren()
        self._laps = Laps(time.process_time, self._children)
        self._peak = PeakMemory(self._children)
        self._standard_streams = StandardStreams(self._output.opened)
        self._uplink = WatchedUplink(self._post_for_job, pipe.fd, self._read_for_job)
        self._interrupts = RunnerSignals(self._flush_current, self._told_to_end, self._uplink.stop_all)
        self._loop = IsolatedLoop(self._interrupts)
        self._rooms = RoomAsker(pipe, self._interrupts, self._handle)
        self._leases: deque[RunnerLease] = deque()
        self._gang: Gang | None = None
        self._base = copy_context()
        self._own_streams: ProcessStreams | None = None
        self._forked = False
        os.register_at_fork(after_in_child=self._after_fork)

    def serve(self) -> None:
        """Run leases until the link ends (return) or SIGTERM asks to end (`SystemExit`)."""
        self._interrupts.install()
        self._leftovers = ProcessState()
        try:
            while True:
                while self._leases:
                    if not self._run(self._leases[0]):
                        end_within(_LEAVE_S)
                        return
                    self._leases.popleft()
                self._handle(self._wait())
        except LinkEndedError:
            return
        finally:
            self._leave_context()

    def _wait(self) -> list[Frame]:
        interrupts = self._interrupts
        # Exposed first, asked second: a signal between the two finds one or the other.
        interrupts.exposed = True
        if interrupts.asked:
            raise interrupts.end()
        try:
            return self._pipe.receive()
        finally:
            interrupts.exposed = False  # at the end too: a signal must not cut the end short

    def _handle(self, frames: Sequence[Frame]) -> None:
        for message, buffers in frames:
            match message:
                case Run():
                    self._leases.append(RunnerLease(message, buffers, time.monotonic(), self._scratch, self._gang))
                    self._gang = None
                case Gang():
                    self._gang = message  # of the lease that comes next
                case Stop(jobs=jobs):
                    for lease in self._leases:
                        lease.stop(jobs)
                case Resumed():
                    self._enforcer.enforce(parse_allocation(message.allocation))
                    self._held_to = None
                    self._uplink.hear(message, buffers)
                case Outcomes():
                    self._uplink.hear(message, buffers)
                case Define():
                    self._functions.define(message, buffers)
                case Undefine(functions=functions):
                    self._functions.undefine(functions, {fn for lease in self._leases for fn in lease.used})
                case Setup():
                    self._functions.set_up(message)
                case Credit():
                    self._out().credit(message)
                case RoomIs():
                    self._rooms.answer(message)
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a runner is told")

    # --- one lease ---------------------------------------------------------------------------------------------------

    def _run(self, lease: RunnerLease) -> bool:
        """Run a lease; whether this process may run another."""
        if not self._clean:
            self._clean_up()
        elsewhere = lease.whole is not self._held_to
        known = self._fresh or self._unloaded.isdisjoint(lease.fns)
        outdated = "" if known else self._outdated(lease)
        if not self._fresh and (
            outdated
            or self._leftovers.stay
            or (elsewhere and self._enforcer.is_unfit_for(lease.whole))
            or (lease.fresh and device_library_loaded())
            or self._reset.exceeds_memory()
        ):
            self._give_up(outdated)
            return False
        if self._functions.context is not None and not self._enter_context(lease):
            return True
        self._fresh = False
        if elsewhere or lease.gang is not None or self._shows_nodes:
            self._hold_to(lease)
        fn, functions, records = lease.fns[lease.index], self._functions, self._records
        if fn in self._unloaded:
            functions.get(fn)  # now: what that takes is no part of a job's time, or of its memory
            self._peak.restart()
        if lease.limit is not None:
            lease.may_begin(self._ready_at or self._tell_ready())
        self._memory.set(lease.whole.memory)
        self._clean = False
        spoiled = self._run_jobs(lease)
        if records is not None and records.logged:
            records.ended(lease.jobs)
        self._settle(lease)
        if spoiled:
            self._give_up()
        self._flush(lease)
        if self._words is not None:
            self._words[STARTED] = IDLE
        if not spoiled:
            self._clean_up()  # now that everybody has been told: the next lease need not wait for it
        return not spoiled

    def _outdated(self, lease: RunnerLease) -> str:
        """Return why another process is to run a lease, if one of its functions would find old code of modules here."""
        now = time.monotonic()
        return next(filter(None, (self._functions.outdated(fn, now) for fn in dict.fromkeys(lease.fns))), "")

    def _load_amid(self, lease: RunnerLease) -> None:
        """Load the function of the job that is up in the midst of a run-list: what that takes is no part of a job's
        time, or of its memory.
        """
        self._settle(lease)
        self._flush(lease)  # those in front of it need not wait for that
        self._memory.lift()
        self._functions.get(lease.fn)
        self._output.flush()
        unread = self._output.waiting()
        if unread:  # what its modules print when they are imported: later, it would be taken for that of the job before
            self._pipe.send(self._output.collect(unread, *lease.current))
        self._peak.restart()
        self._memory.set(lease.whole.memory)
        self._laps.restart()

    def _turn_to(self, fn: int) -> None:
        """Let this process's loggers let pass what those of the program do whose function the next jobs call."""
        records, logs = self._records, self._functions.get(fn).logs
        if records is not None and logs is not records.levels:
            records.hold(logs)
            self._laps.restart()

    def _leave(self, lease: RunnerLease) -> bool:
        """Take back what belongs to the job that has ended; return True if it has spoiled the process."""
        leave_job(whole_process=True)
        self._functions.note()
        # A process that is about to end anyway has no successor.
        spoiled = (self._reset.needs_replacement() or this_process.used_up) and not self._interrupts.asked
        if lease.scratch.made:
            lease.scratch.hide()
            lease.scratch.remove()
        if self._memory.stands:
            self._memory.lift()
        self._output.flush()
        return spoiled

    def _separate(self, lease: RunnerLease) -> bool:
        """Do what is done between leases between two jobs that are kept apart, or call different functions; return True
        for a spoiled process.
        """
        if self._leave(lease):
            return True
        self._clean_up()
        if self._leftovers.stay or self._reset.exceeds_memory():
            return True
        if lease.whole is not self._held_to:
            self._hold_to(lease)
        self._memory.set(lease.whole.memory)
        self._clean = False
        return False

    def _hold_to(self, lease: RunnerLease) -> None:
        """Hold this process to the slots of a lease, and show those in its environment, with the nodes of a gang."""
        self._enforcer.enforce(lease.whole)
        if lease.whole.gpus and not self._had_devices:
            self._had_devices = True
            self._reset.weigh_anew()
        if lease.gang is not None or self._shows_nodes:
            show_nodes(lease.gang)
            self._shows_nodes = lease.gang is not None
        self._reset.settle()
        self._held_to = lease.whole

    def _clean_up(self) -> None:
        """Make of the process what the next lease shall find; where a job has left a thread, that may undo it."""
        self._clean = not _thread._count()
        self._leftovers.clear()
        self._standard_streams.restore()
        hide_job()
        self._reset.reset()
        self._enforcer.hold()
        self._peak.restart()

    def _tell_ready(self) -> float:
        """Say once, before the first job that has a limit, that what took time until now was this process's start."""
        self._ready_at = time.monotonic()
        self._pipe.send(Ready())
        return self._ready_at

    def _run_jobs(self, lease: RunnerLease) -> bool:
        """Run the jobs one after another; return True if they have spoiled the process."""
        laps = self._laps
        laps.restart()
        if laps.now >= self._functions.look_at:
            self._functions.look(laps.now)
            laps.restart()
        receipt = None
        if self._words is not None:
            self._words[CALLED] = IDLE
            self._words[LEASE] = lease.columns.lease
        fn, digest, digests = None, b"", self._functions.digests
        while lease.index < lease.end:
            up = lease.fns[lease.index]
            is_other = up != fn and (fn is None or digests[up] != digest)
            if is_other and fn is not None and not lease.apart:
                fn = None
                lease.columns.all_held(self._peak.read())
                if self._separate(lease):
                    lease.hand_back(lease.index)
                    return True
                laps.restart()
            if not self._may_start(lease):
                continue
            if up != fn:
                if up in self._unloaded:
                    self._load_amid(lease)
                    continue  # the process may have been told to end meanwhile
                fn, digest = up, digests[up]
                if lease.columns and is_other:
                    lease.columns.due_at = 0.0  # those in front of it are not lost with the process if it ends that
                if self._records is not None:
                    self._turn_to(fn)
            # Outcomes are told when the next job is claimed, or go with those that are handed back: else the daemon,
            # which has nothing left of a barred lease then, lifts the barrier before it was seen here.
            if lease.index and (lease.apart or laps.now >= lease.columns.due_at):
                self._settle(lease)
                self._flush(lease)
            if lease.shared and lease.limit is not None and self._words is not None:
                self._words[SINCE] = time.monotonic_ns()
                self._run_one(lease)
                self._words[SINCE] = 0
            else:
                self._run_one(lease)
            if receipt is None:
                # Only now: the job has loaded the native libraries whose width is to be told.
                receipt = lease.columns.receipt = self._enforcer.receipt(self._memory.tier)
            if lease.apart and lease.index < lease.end:
                if self._separate(lease):
                    lease.hand_back(lease.index)
                    return True
                laps.restart()
        return self._leave(lease)

    def _give_up(self, why: str = "") -> None:
        """Say that this process is used up; what it has not begun is for its successor."""
        self._pipe.send(Renew(why))

    def _enter_context(self, lease: RunnerLease) -> bool:
        """Enter the worker's context; return True if it is there. If not, the jobs have failed."""
        if self._functions.context is not None and not self._functions.context.entered:
            error = self._loop.do(self._functions.enter_context)
            if error is not None:
                lease.refuse(*failed(error), time.monotonic())
                self._settle(lease)
                self._flush(lease)
                return False
            self._interrupts.install()
            self._leftovers = ProcessState()
            self._reset.spare_children()
            self._standard_streams.keep()  # the context may have sent the streams elsewhere, for all its jobs
        return True

    def _leave_context(self) -> None:
        if self._functions.context is not None and not self._forked:
            self._loop.do(self._functions.context.leave)

    def _may_start(self, lease: RunnerLease) -> bool:
        """Return True if the job at `index` is ours to start; if not, it is answered for, maybe with the rest."""
        words, pipe = self._words, self._pipe
        if lease.shared and self._output.printed:
            self._output.flush()
        if words is not None:
            words[STARTED] = lease.index
        # Between the claim and the look at the barrier stands a system call, in which Python hands over its lock: no
        # processor carries our write past it. Without that, both sides could believe that the job is theirs.
        found = pipe.look(0)
        if found:
            self._handle(pipe.take(found))
        if pipe.ready:
            self._collect(lease)
        if self._interrupts.asked or (words is not None and lease.index >= words[BARRIER]):
            lease.hand_back(lease.index)
            return False
        if lease.stopped and lease.current_is_stopped:
            lease.skip()
            return False
        return True

    def _run_one(self, lease: RunnerLease) -> None:
        interrupts = self._interrupts
        function = self._functions.get(lease.fns[lease.index])
        final = False
        if lease.scratch.made:
            lease.scratch.hide()  # that of the job in front of it
        allocation = lease.whole
        if lease.memory:
            allocation = lease.allocation
            self._narrow(allocation)
        needs = lease.needs[lease.index] if lease.needs else []
        if function.is_async:
            self._loop.prepare()
        if self._words is not None:
            self._words[CALLED] = lease.index
        try:
            interrupts.exposed = True
            payload = self._base.copy().run(
                self._call, function, lease.parcels[lease.index], needs, allocation, lease.facts(function.name)
            )
            interrupts.exposed = False
            code = Code.SUCCEEDED if function.refusal is None else Code.FAILED
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome, SystemExit included
            interrupts.exposed = False
            if issubclass(type(error), Exception):
                interrupts.wait_for_word()
            code, payload = (Code.CANCELLED, NO_VALUE) if interrupts.asked else lease.failed(error)
            if allocation.gpus and device_library_loaded():
                self._leftovers.stay = True  # an error of the device comes again from each call of its library
            final = function.is_final(error)
        if self._forked:
            os._exit(0)  # a child that the job forked came back out of the job: it is no runner
        if code is Code.CANCELLED:
            self._functions.release(lease.info(function.name))
        nested = bool(self._uplink.nestings) and self._uplink.ended(lease.job)
        begun, wall, cpu = self._laps.lap()
        if nested:
            self._flush_current()  # those in front of it: a batch that says that its job has awaited has no others
        if lease.apart:
            lease.columns.held(self._peak.read())
        lease.ran(code, payload, begun, wall, cpu, final=final)
        if nested:
            # It may have awaited to its end and lent its cores: they are not those of the jobs behind it any more.
            lease.columns.awaited = True
        if nested or this_process.used_up:
            lease.hand_back(lease.index)

    def _narrow(self, allocation: Allocation) -> None:
        """Hold this process to the memory of one job, of a lease whose jobs asked for different amounts."""
        self._enforcer.show_memory(allocation.memory)
        self._memory.lift()
        self._memory.set(allocation.memory)

    def _call(
        self, function: LoadedFunction, arguments: Parcel, needs: list[Need], allocation: Allocation, facts: JobFacts
    ) -> bytes | Payload | Stays:
        """Return the value of the call, as it is told: as bytes, if it is plain, and travels."""
        if function.refusal is not None:
            return function.refusal
        functions = self._functions
        enter_job(
            allocation,
            functions.instance,
            facts,
            functions.value,
            self._uplink,
            whole_process=True,
            logs=function.logs,
        )
        job = facts[0]
        show_job(job)
        if functions.warning:
            functions.warn(function)
        args, kwargs = functions.arguments(arguments, needs) if needs else load_arguments(arguments)
        if function.is_async:
            value = self._loop.run(
                function.callable,
                args,
                kwargs,
                lambda made: self._out().drive(made, JobInfo(*facts), function.value_name),
                f"{function.name} (job {job})",
            )
        else:
            value = function.callable(*args, **kwargs)
        plain = dump_plain_value(value, function.plain_most)
        if plain is not None:
            return plain
        info = JobInfo(*facts)
        first = functions.first_value(value) if function.is_chain else None
        if first is not None:
            room = self._rooms.ask(Room(info.id, info.attempt, replica_size(first)))
            return functions.written(first, room, lambda: dump_value(value, what=function.value_name))
        return functions.kept(dump_value(value, what=function.value_name), function, info, self._rooms.ask)

    def _out(self) -> "ProcessStreams":
        """Return the driver of streams; made for the first: what it imports would double the start of a runner."""
        if self._own_streams is None:
            from grainlike_worker.runner.process._streams import ProcessStreams

            self._own_streams = ProcessStreams(self._pipe, self._interrupts, self._handle)
        return self._own_streams

    def _link_begins(self, job: int) -> None:
        if self._words is not None:
            self._words[LINK] = job

    def _link_ended(self, job: int, text: str) -> None:
        """Tell what a link of a chain has written, while it is known whose it is, and then the exception that has
        ended it; all links are first attempts.
        """
        if self._output.printed:
            self._output.flush()
        unread = self._output.waiting()
        if unread or text:
            exposed, self._interrupts.exposed = self._interrupts.exposed, False  # no handler writes in between
            self._pipe.send(self._output.collect(unread, job, 1))
            if text:
                raised = text.encode(errors="backslashreplace")
                self._pipe.send(Output(job, 1, [OutputStream.TRACEBACK], [raised]))
            self._interrupts.exposed = exposed
            if self._interrupts.asked:
                raise self._interrupts.end()
        if self._words is not None:
            self._words[LINK] = 0

    # --- for jobs that await jobs of their own -----------------------------------------------------------------------

    def _post_for_job(self, message: Message, buffers: Sequence[Buffer]) -> None:
        with suppress(LinkEndedError):  # no reader is there any more; the daemon, or its end, ends this process too
            self._interrupts.sheltered(lambda: self._pipe.send(message, buffers))

    def _read_for_job(self) -> None:
        with suppress(LinkEndedError):
            frames: list[Frame] = []
            self._interrupts.sheltered(lambda: frames.extend(self._pipe.poll()))
            self._handle(frames)

    # --- answering ---------------------------------------------------------------------------------------------------

    def _flush(self, lease: RunnerLease) -> None:
        if lease.columns:
            self._pipe.send(*lease.columns.take(self._peak.read()))

    def _settle(self, lease: RunnerLease) -> None:
        """Let what the jobs have written go out before their ends are told; in a run-list, say whose it is."""
        if self._output.printed:
            self._output.flush()
        if lease.shared:
            self._handle(self._pipe.poll())
            self._collect(lease)

    def _collect(self, lease: RunnerLease) -> None:
        """Tell what the last job of a run-list has written. What one wrote that was alone, the worker reads itself."""
        ready, self._pipe.ready = self._pipe.ready, []
        if ready and lease.shared and lease.index:
            self._pipe.send(self._output.collect(ready, *lease.last))

    def _flush_current(self) -> None:
        if self._leases:
            words = self._words
            began, since = time.monotonic_ns(), 0 if words is None else words[SINCE]
            if words is not None and since:
                words[SINCE] = 0  # it may take until the daemon reads, and is no time of the job's
            self._flush(self._leases[0])
            if words is not None and since:
                words[SINCE] = since + time.monotonic_ns() - began

    def _told_to_end(self) -> int:
        """Return the reason for which the daemon has told this process to end; 0 if it has not."""
        return StopReason.UNSAID if self._claims is None else self._claims.told

    def _after_fork(self) -> None:
        """Let go, in a child that a job forked, of the runner's socket: it must not answer for the job."""
        self._forked = True
        self._pipe.close()

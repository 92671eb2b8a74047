"""The runner of coroutines: many leases at once on one event loop, in a process or inside the user's program."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from types import AsyncGeneratorType, CoroutineType
from typing import Any

import anyio
import anyio.to_thread

from grainlike.context import JobInfo, JobOutput, enter_job
from grainlike.errors import ProtocolError
from grainlike.eventloop import Cancellation
from grainlike.net import Link
from grainlike.payload import Payload, dump_plain_value, dump_value, load_arguments
from grainlike.resources import Allocation
from grainlike.wire import (
    Beat,
    Code,
    Credit,
    Define,
    Frame,
    Outcomes,
    Parcel,
    Ready,
    Resumed,
    RoomIs,
    Run,
    Setup,
    Stop,
    StopReason,
    Undefine,
)
from grainlike_worker.ipc._steps import CALLED, JOB, LOADS, SINCE, SLOW_S
from grainlike_worker.linux._forks import FORK_DEPTH
from grainlike_worker.runner.common._coroutines import SuspendedCoroutine, as_coroutine
from grainlike_worker.runner.common._edited_modules import EditedModules
from grainlike_worker.runner.common._enforce import read_receipt
from grainlike_worker.runner.common._failures import NO_VALUE, failed, is_cancellation
from grainlike_worker.runner.common._functions import LoadedFunction, LoadedFunctions
from grainlike_worker.runner.common._job_directories import JobDirectories
from grainlike_worker.runner.common._job_records import JobRecords
from grainlike_worker.runner.common._lease import RunnerLease
from grainlike_worker.runner.common._outcomes import Stays
from grainlike_worker.runner.common._streams import StreamSenders
from grainlike_worker.runner.common._uplink import LoopUplink
from grainlike_worker.runner.common._usage import Laps, PeakMemory
from grainlike_worker.runner.loop._batch_notice import BatchNotice
from grainlike_worker.runner.loop._placing import Placed, ValuePlacing
from grainlike_worker.runner.loop._tasks import Tasks, open_tasks

__all__ = ["serve_shared"]

_TURN_S = 0.001
"""The longest that one run-list keeps the event loop between two of its jobs."""

_BRIEF_S = 0.0001
"""Jobs that take less than this share what CPU time they used together: to ask for each takes longer than most run."""

_READY_S = 1.0
"""How long the first job with a limit waits at most until its worker was told that it begins."""


async def serve_shared(
    link: Link,
    scratch: str | None = None,
    output: JobOutput | None = None,
    words: memoryview[float] | None = None,
    slow: Callable[[JobInfo, str, float], None] | None = None,
    notice: BatchNotice | None = None,
    records: JobRecords | None = None,
    edits: EditedModules | None = None,
) -> None:
    """Run `async def` jobs that come over `link` until it ends; then cancel those still running and wait for them.

    Works on asyncio and trio, and never touches the process: no affinity, no environment, no signals. Cancelling it
    does the same as the end of the link. A job that does not let itself be cancelled holds it up. Below `scratch` jobs
    find directories of their own. `output` is told what they print, while `hooked_streams` are there; `words` say which
    job is being stepped (see `StepPage`), and `slow` is told of one that has blocked the loop, and for how many
    seconds, once it no longer does. With `notice`, jobs that fail after a signal to all processes of a batch job wait
    for the worker's word. `records` takes what jobs log to their programs; in the program itself nothing has to.
    With `edits`, jobs say which modules were edited since they were imported.

    Example::

        near, far = memory_pair()
        tasks.start_soon(serve_shared, far)
        near.post(Setup("n1", []))
    """
    words = memoryview(bytearray((CALLED + 1) * 8)).cast("d") if words is None else words
    runner = LoopRunner(link, scratch, output, words, slow, notice, records, edits)
    try:
        async with open_tasks(runner.serve) as tasks:
            runner.tasks = tasks
            try:
                await link.run(runner.handle)
            finally:
                runner.cancel_all()
    finally:
        await runner.leave()


class LoopRunner:
    tasks: Tasks

    def __init__(
        self,
        link: Link,
        scratch: str | None,
        output: JobOutput | None,
        words: memoryview[float],
        slow: Callable[[JobInfo, str, float], None] | None,
        notice: BatchNotice | None,
        records: JobRecords | None = None,
        edits: EditedModules | None = None,
    ) -> None:
        self._link = link
        self._records = records
        self._notice = notice
        self._output = output
        self._words = words
        self._slow = slow
        self._scratch = scratch
        self._functions = LoadedFunctions(edits)
        self._placing = ValuePlacing(self._functions, link.post)
        self._uplink = LoopUplink(link.post)
        self._peak = PeakMemory()
        self._senders = StreamSenders(link.post)
        self._lease_of: dict[int, RunnerLease] = {}
        self._waiting: dict[RunnerLease, SuspendedCoroutine] = {}
        self._cancellations: dict[RunnerLease, Cancellation] = {}
        self._ready_at: float | None = None
        self._ready_told = False

    def handle(self, frames: Sequence[Frame]) -> None:
        """Take what the worker says."""
        for message, buffers in frames:
            match message:
                case Run():
                    lease = RunnerLease(message, buffers, time.monotonic(), JobDirectories(self._scratch))
                    self._lease_of.update(dict.fromkeys(lease.jobs, lease))
                    self.tasks.start(lease)
                case Stop(jobs=jobs, reason=reason):
                    self._stop(jobs, reason)
                    self._link.post(Beat(0))  # whatever the jobs do about it: this loop turns
                case Credit():
                    self._senders.credit(message)
                case RoomIs():
                    self._placing.answer(message)
                case Outcomes() | Resumed():
                    self._uplink.hear(message, buffers)
                case Define():
                    self._functions.define(message, buffers)
                case Undefine(functions=functions):
                    self._functions.undefine(functions, {fn for lease in self._lease_of.values() for fn in lease.used})
                case Setup():
                    self._functions.set_up(message)
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a runner is told")

    def cancel_all(self) -> None:
        """No reader is left: end every job."""
        self._stop(list(self._lease_of), StopReason.UNSAID)

    async def serve(self, lease: RunnerLease) -> None:
        """Run the jobs of `lease`; its task. Once a job has waited or was disturbed, nothing else waits here."""
        if self._functions.context is not None and not await self._enter_context(lease):
            return
        if self._functions.unloaded:
            self._load(lease)
        if self._ready_at is None:
            self._ready_at = time.monotonic()
            self._link.post(Ready())  # without a limit, too: one that comes next may hang before it begins
        if lease.limit is not None:
            await self._let_begin(lease, self._ready_at)
        laps = Laps(time.thread_time)
        if laps.now >= self._functions.look_at:
            self._functions.look(laps.now)
            laps.restart()
        turn = laps.now
        receipt = None
        disturbed = self.tasks.disturbance(lease)
        while lease.index < lease.end:
            if lease.stopped and lease.current_is_stopped:
                lease.skip()
                continue
            suspended = self._begin(lease, laps, min(turn + _TURN_S, lease.columns.due_at), disturbed)
            if receipt is None:
                receipt = lease.columns.receipt = read_receipt()
            if suspended is not None:
                await self._wait_for(lease, suspended)
            if self._notice is not None and lease.columns.last_has_failed and not disturbed():
                await self._notice.word_on(lease.last[0])
                laps.restart()
                turn = laps.now
            if suspended is not None:
                break
            if laps.now >= lease.columns.due_at:
                self._flush(lease)
            if laps.now - turn >= _TURN_S:
                await self.tasks.pause()
                laps.restart()
                turn = laps.now
            if disturbed():
                # A job that cancels its task, now or later, hurts only itself if no other job waits in that task.
                lease.hand_back(lease.index)
        if lease.scratch.made:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lease.scratch.remove)
        if self._records is not None and self._records.logged:
            self._records.ended(lease.jobs)
        self._flush(lease)
        self._forget(lease)

    def _load(self, lease: RunnerLease) -> None:
        """Unpickle the functions of a lease now: what that takes is no part of a job's time."""
        for fn in dict.fromkeys(lease.fns):
            self._functions.remind(fn, time.monotonic())
            self._words[LOADS] = lease.jobs[lease.fns.index(fn)]
            self._functions.get(fn)
        self._words[LOADS] = 0

    async def _let_begin(self, lease: RunnerLease, ready_at: float) -> None:
        """Reckon the time of a job from when this process was ready, and let its worker do so too."""
        if not self._ready_told:
            await self._link.drain(_READY_S)  # the job may never let the loop turn again
            self._ready_told = True
        lease.may_begin(ready_at)

    async def _enter_context(self, lease: RunnerLease) -> bool:
        """Enter the worker's context; return True if it is there. If not, the jobs have failed."""
        error = await self._functions.enter_context()
        if error is not None:
            lease.refuse(*failed(error), time.monotonic())
            self._flush(lease)
            self._forget(lease)
        return error is None

    async def leave(self) -> None:
        """Leave the worker's context, if it was entered; not cut short by cancellation."""
        if self._functions.context is not None:
            with anyio.CancelScope(shield=True):
                await self._functions.context.leave()

    # --- jobs --------------------------------------------------------------------------------------------------------

    def _begin(
        self, lease: RunnerLease, laps: Laps, until: float, disturbed: Callable[[], int]
    ) -> SuspendedCoroutine | None:
        """Take the first step of the job at `index`, which for many is the only one, and so on until that moment.

        Ends earlier with a job that suspends, and that is returned; with one that fails, or has a value of which
        buffers travel apart; and with one that was not brief, for its CPU time is its own.
        """
        function = self._functions.get(lease.fn)
        if self._records is not None and function.logs not in self._records.admitted:
            self._records.admit(function.logs)
        words, nestings, step, here = self._words, self._uplink.nestings, self._first_step, FORK_DEPTH[0]
        brief, allocation = min(_BRIEF_S, SLOW_S), lease.allocation
        begun = now = laps.now
        code, final = Code.SUCCEEDED if function.refusal is None else Code.FAILED, False
        odd: Payload | Stays | SuspendedCoroutine | None = None
        values: list[bytes] = []
        ends: list[float] = []
        place, called = CALLED + lease.place, lease.index
        for info, arguments in lease.upcoming(function.name):
            words[SINCE] = begun = now
            words[JOB] = info.id
            words[place] = called = called + 1
            context = copy_context()
            try:
                outcome = context.run(step, context, function, lease, allocation, info, arguments)
            except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
                code, outcome = lease.failed(error, len(values))
                final = function.is_final(error)
            if FORK_DEPTH[0] != here:
                os._exit(0)
            now = time.monotonic()
            if now - begun >= SLOW_S:
                self._blocked(info, function, now - begun)
            if not isinstance(outcome, bytes):
                odd = outcome
                break
            values.append(outcome)
            ends.append(now)
            if nestings:
                self._uplink.ended(info.id)
            if now - begun >= brief or now >= until or disturbed():
                break
        words[JOB] = 0
        busy = 0.0
        if values or not isinstance(odd, SuspendedCoroutine):  # else no job has ended
            first, wall, cpu = laps.lap()
            busy = cpu / wall if wall > 0.0 else 0.0
            lease.ran_well(values, first, ends, busy)
        if isinstance(odd, SuspendedCoroutine):
            lease.arguments()
            odd.begun = begun
            return odd
        if odd is not None:
            if nestings:
                self._uplink.ended(lease.job)
            lease.ran(code, odd, begun, now - begun, (now - begun) * busy, final=final)
        return None

    def _blocked(self, info: JobInfo, function: LoadedFunction, seconds: float) -> None:
        if self._slow is not None:
            self._slow(info, function.place, seconds)

    def _first_step(
        self,
        context: Context,
        function: LoadedFunction,
        lease: RunnerLease,
        allocation: Allocation,
        info: JobInfo,
        arguments: Parcel | None,
    ) -> bytes | Payload | Stays | SuspendedCoroutine:
        """Call the function and take its coroutine's first step: a value whose bytes are all there is, a value with
        buffers, one that stays, an error that was there before, or what waits.
        """
        if function.refusal is not None:
            return function.refusal
        functions = self._functions
        enter_job(
            allocation,
            functions.instance,
            info,
            functions.value,
            self._uplink,
            output=self._output,
            logs=function.logs,
        )
        if functions.warning:
            functions.warn(function)
        if arguments is None and lease.needs:
            args, kwargs = functions.arguments(lease.arguments(), lease.needs[lease.index])
        else:
            args, kwargs = load_arguments(lease.arguments() if arguments is None else arguments)
        made = function.callable(*args, **kwargs)
        coroutine = made if type(made) is CoroutineType else self._coroutine(made, function, info)
        try:
            yielded = coroutine.send(None)
        except StopIteration as stop:
            plain = dump_plain_value(stop.value, function.plain_most)
            if plain is not None:
                return plain
            told = self._placed(stop.value, function, info)
            if isinstance(told, Payload):
                return told if told.buffers else bytes(told.data)
            coroutine = told
            yielded = coroutine.send(None)  # it has asked for room, and waits
        return SuspendedCoroutine(
            context, coroutine, yielded, self._words, info.id, partial(self._blocked, info, function)
        )

    def _coroutine(self, made: Any, function: LoadedFunction, info: JobInfo) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that runs a call that gave none: a stream's generator, or something to await."""
        if isinstance(made, AsyncGeneratorType):
            return self._senders.drive(made, info, function.value_name)
        return as_coroutine(made)

    async def _wait_for(self, lease: RunnerLease, suspended: SuspendedCoroutine) -> None:
        """Run a job that waits for something to its end. What stands behind it in the run-list must not wait too."""
        if lease.shared:
            self._flush(lease)  # those in front of it: a batch that says that its job has awaited has no others
        lease.columns.awaited = True
        if lease.shared:
            lease.hand_back(lease.index + 1)
            self._flush(lease)
        self._waiting[lease] = suspended
        function = self._functions.get(lease.fn)
        final = False
        try:
            value = await suspended
            outcome: bytes | Payload | Stays | None = dump_plain_value(value, function.plain_most)
            if outcome is None:
                outcome = await self._told(value, function, lease.info(function.name))
            code = Code.SUCCEEDED
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            if lease.current_is_stopped and is_cancellation(error):
                code, outcome = Code.CANCELLED, NO_VALUE
            else:
                code, outcome = lease.failed(error)
                final = function.is_final(error)
        del self._waiting[lease]
        cancellation = self._cancellations.pop(lease, None)
        if cancellation is not None:
            cancellation.settled()
        if self._uplink.nestings:
            self._uplink.ended(lease.job)
        # A coroutine that waited shared the processor with others: what it used alone cannot be told.
        begun = suspended.begun
        lease.ran(code, outcome, begun, time.monotonic() - begun, 0.0, final=final)

    async def _told(self, value: object, function: LoadedFunction, info: JobInfo) -> Payload | Stays:
        """Return the value of a job that has waited, as it is told."""
        if type(value) is Placed:
            return value.outcome
        told = self._placed(value, function, info)
        return told if isinstance(told, Payload) else (await told).outcome

    def _placed(self, value: object, function: LoadedFunction, info: JobInfo) -> Payload | Coroutine[Any, Any, Placed]:
        """Return a job's value as it is sent, or the coroutine that places it if it is to stay."""
        functions = self._functions
        first = functions.first_value(value) if function.is_chain and isinstance(value, list) else None
        if first is not None:
            return self._placing.place(first, info, partial(dump_value, value, what=function.value_name))
        payload = dump_value(value, what=function.value_name)
        return self._placing.place(payload, info) if functions.stays(payload, function) else self._sent(payload, info)

    def _sent(self, payload: Payload, info: JobInfo) -> Payload:
        """The value's bytes, on memory of their own: they leave at a later turn, when others may have changed it."""
        return self._functions.sent(payload, info.id, info.attempt).detached()

    # --- stopping, answering -----------------------------------------------------------------------------------------

    def _stop(self, jobs: Sequence[int], reason: StopReason) -> None:
        self._senders.stop(jobs)
        if self._notice is not None:
            self._notice.stopped(jobs)
        for job in jobs:
            lease = self._lease_of.get(job)
            if lease is not None and job not in lease.stopped:
                lease.stop([job])
                suspended = self._waiting.get(lease)
                if suspended is not None and lease.current_is_stopped:
                    self._uplink.stop([job])
                    name = f"{self._functions.get(lease.fn).name} (job {job})"
                    cancellation = self.tasks.cancel(lease, name, suspended.coroutine, reason.message)
                    self._cancellations[lease] = cancellation

    def _flush(self, lease: RunnerLease) -> None:
        if lease.columns:
            self._link.post(*lease.columns.take(self._peak.read()))

    def _forget(self, lease: RunnerLease) -> None:
        for job in lease.jobs:
            # A job that was handed back may have come again, with another lease.
            if self._lease_of.get(job) is lease:
                del self._lease_of[job]

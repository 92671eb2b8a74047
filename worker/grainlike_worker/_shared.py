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
from grainlike.net import Link
from grainlike.payload import Payload, dump_value, load_arguments
from grainlike.wire import Beat, Code, Credit, Define, Frame, Outcomes, Ready, Resumed, Run, Setup, Stop
from grainlike_worker._driven import Suspended, as_coroutine
from grainlike_worker._enforce import read_receipt
from grainlike_worker._failures import NO_VALUE, failed, is_cancellation
from grainlike_worker._forks import DESCENT
from grainlike_worker._functions import Functions, Loaded
from grainlike_worker._lease import Lease
from grainlike_worker._outlets import Outlets
from grainlike_worker._steps import BLOCKED_S, JOB, SINCE
from grainlike_worker._tasks import Tasks, open_tasks
from grainlike_worker._uplink import LoopUplink
from grainlike_worker._usage import Laps, PeakMemory

__all__ = ["serve_shared"]

_TURN_S = 0.001
"""The longest that one run-list keeps the event loop between two of its jobs."""

_READY_S = 1.0
"""How long the first job with a limit waits at most until its worker was told that it begins."""


async def serve_shared(
    link: Link,
    scratch: str | None = None,
    output: JobOutput | None = None,
    words: memoryview[float] | None = None,
    slow: Callable[[JobInfo, float], None] | None = None,
) -> None:
    """Run `async def` jobs that come over `link` until it ends; then cancel those still running and wait for them.

    Works on asyncio and trio, and never touches the process: no affinity, no environment, no signals. Cancelling it
    does the same as the end of the link. A job that does not let itself be cancelled holds it up. Below `scratch` jobs
    find directories of their own. `output` is told what they print, while `hooked_streams` are there; `words` say which
    job is being stepped (see `StepPage`), and `slow` is told of one that has blocked the loop, and for how many
    seconds, once it no longer does.

    Example::

        near, far = memory_pair()
        tasks.start_soon(serve_shared, far)
        near.post(Setup("n1", []))
    """
    words = memoryview(bytearray(2 * 8)).cast("d") if words is None else words
    runner = _SharedRunner(link, scratch, output, words, slow)
    try:
        async with open_tasks(runner.serve) as tasks:
            runner.tasks = tasks
            try:
                await link.run(runner.handle)
            finally:
                runner.cancel_all()
    finally:
        await runner.leave()


class _SharedRunner:
    tasks: Tasks

    def __init__(
        self,
        link: Link,
        scratch: str | None,
        output: JobOutput | None,
        words: memoryview[float],
        slow: Callable[[JobInfo, float], None] | None,
    ) -> None:
        self._link = link
        self._output = output
        self._words = words
        self._slow = slow
        self._scratch = scratch
        self._functions = Functions()
        self._uplink = LoopUplink(link.post)
        self._peak = PeakMemory()
        self._outlets = Outlets(link.post)
        self._lease_of: dict[int, Lease] = {}
        self._waiting: set[Lease] = set()
        self._ready_at: float | None = None
        self._ready_told = False

    def handle(self, frames: Sequence[Frame]) -> None:
        """Take what the worker says."""
        for message, buffers in frames:
            match message:
                case Run():
                    lease = Lease(message, buffers, time.monotonic(), scratch=self._scratch)
                    self._lease_of.update(dict.fromkeys(lease.jobs, lease))
                    self.tasks.start(lease)
                case Stop(jobs=jobs):
                    self._stop(jobs)
                    self._link.post(Beat(0))  # whatever the jobs do about it: this loop turns
                case Credit():
                    self._outlets.credit(message)
                case Outcomes() | Resumed():
                    self._uplink.hear(message, buffers)
                case Define():
                    self._functions.define(message, buffers)
                case Setup():
                    self._functions.set_up(message)
                case _:
                    raise ProtocolError(f"{type(message).__name__} is nothing that a runner is told")

    def cancel_all(self) -> None:
        """Nobody listens any more: end every job."""
        self._stop(list(self._lease_of))

    async def serve(self, lease: Lease) -> None:
        """Run the jobs of `lease`; its task. Once a job has waited or was disturbed, nothing else waits here."""
        if self._functions.context is not None and not await self._enter_context(lease):
            return
        if self._functions.unloaded:
            self._functions.get(lease.fn)  # unpickled now: what that takes is no part of a job's time
        if lease.limit is not None:
            await self._tell_ready(lease)
        laps = Laps(time.thread_time)
        turn = laps.now
        receipt = None
        while lease.index < lease.end:
            if lease.stopped and lease.current_is_stopped:
                lease.skip()
                continue
            suspended = self._begin(lease, laps)
            if receipt is None:
                receipt = lease.columns.receipt = read_receipt()
            if suspended is not None:
                await self._wait_for(lease, suspended, laps.now)
                break
            if lease.columns.due(laps.now):
                self._flush(lease)
            if laps.now - turn >= _TURN_S:
                await self.tasks.pause()
                laps.restart()
                turn = laps.now
            if self.tasks.disturbed():
                # A job that cancels its task, now or later, hurts only itself if nobody else waits in that task.
                lease.hand_back(lease.index)
        if lease.scratch:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lease.scratch.remove)
        self._flush(lease)
        self._forget(lease)

    async def _tell_ready(self, lease: Lease) -> None:
        """Say once, before the first job that has a limit, that what took time until now was this process's start."""
        if self._ready_at is None:
            self._ready_at = time.monotonic()
            self._link.post(Ready())
        if not self._ready_told:
            await self._link.drain(_READY_S)  # the job may never let the loop turn again
            self._ready_told = True
        lease.may_begin(self._ready_at)

    async def _enter_context(self, lease: Lease) -> bool:
        """Whether the worker's context stands; if not, the jobs have failed."""
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

    # --- one job -----------------------------------------------------------------------------------------------------

    def _begin(self, lease: Lease, laps: Laps) -> Suspended | None:
        """Take the first step of the job at `index`, which for many is the only one."""
        function = self._functions.get(lease.fn)
        context = copy_context()
        words, info = self._words, lease.info(function.name)
        here = DESCENT[0]
        words[SINCE] = laps.now
        words[JOB] = info.id
        code = Code.SUCCEEDED if function.refusal is None else Code.FAILED
        final = False
        try:
            outcome = context.run(self._first_step, context, function, lease, info)
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            code, outcome = failed(error)
            final = function.is_final(error)
        if DESCENT[0] != here:
            os._exit(0)
        words[JOB] = 0
        if isinstance(outcome, Suspended):
            stepped = time.monotonic() - laps.now
            if stepped >= BLOCKED_S:
                self._blocked(info, stepped)
            return outcome
        begun, wall, cpu = laps.lap()
        if wall >= BLOCKED_S:
            self._blocked(info, wall)
        if self._uplink.nestings:
            self._uplink.ended(lease.job)
        lease.ran(code, outcome, begun, wall, cpu, final=final)
        return None

    def _blocked(self, info: JobInfo, seconds: float) -> None:
        if self._slow is not None:
            self._slow(info, seconds)

    def _first_step(self, context: Context, function: Loaded, lease: Lease, info: JobInfo) -> Payload | Suspended:
        if function.refusal is not None:
            return function.refusal
        functions = self._functions
        enter_job(lease.allocation, functions.instance, info, functions.value, self._uplink, output=self._output)
        args, kwargs = load_arguments(lease.arguments())
        made = function.callable(*args, **kwargs)
        coroutine = made if type(made) is CoroutineType else self._coroutine(made, function, info)
        try:
            yielded = coroutine.send(None)
        except StopIteration as stop:
            return self._dump(stop.value, function, lease)
        return Suspended(context, coroutine, yielded, self._words, info.id, partial(self._blocked, info))

    def _coroutine(self, made: Any, function: Loaded, info: JobInfo) -> Coroutine[Any, Any, Any]:
        """What runs a call that gave no coroutine: a stream's generator, or something to await."""
        if isinstance(made, AsyncGeneratorType):
            return self._outlets.drive(made, info, function.value_name)
        return as_coroutine(made)

    async def _wait_for(self, lease: Lease, suspended: Suspended, begun: float) -> None:
        """See a job to its end that waits for something. What stands behind it in the run-list must not wait too."""
        lease.columns.awaited = True
        if lease.shared:
            lease.hand_back(lease.index + 1)
            self._flush(lease)
        self._waiting.add(lease)
        function = self._functions.get(lease.fn)
        final = False
        try:
            code, outcome = Code.SUCCEEDED, self._dump(await suspended, function, lease)
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            if lease.current_is_stopped and is_cancellation(error):
                code, outcome = Code.CANCELLED, NO_VALUE
            else:
                code, outcome = failed(error)
                final = function.is_final(error)
        self._waiting.discard(lease)
        if self._uplink.nestings:
            self._uplink.ended(lease.job)
        # A coroutine that waited shared the processor with others: what it used alone nobody can tell.
        lease.ran(code, outcome, begun, time.monotonic() - begun, 0.0, final=final)

    def _dump(self, value: object, function: Loaded, lease: Lease) -> Payload:
        """The value's bytes, on memory of their own: they leave at a later turn, when others may have changed it."""
        payload = dump_value(value, what=function.value_name)
        if not payload.buffers:
            return payload
        return self._functions.kept(payload, lease.info(function.name)).detached()

    # --- stopping, answering -----------------------------------------------------------------------------------------

    def _stop(self, jobs: Sequence[int]) -> None:
        self._outlets.stop(jobs)
        for job in jobs:
            lease = self._lease_of.get(job)
            if lease is not None and job not in lease.stopped:
                lease.stop([job])
                if lease in self._waiting and lease.current_is_stopped:
                    self._uplink.stop([job])
                    self.tasks.cancel(lease)

    def _flush(self, lease: Lease) -> None:
        if lease.columns:
            self._link.post(*lease.columns.take(self._peak.read()))

    def _forget(self, lease: Lease) -> None:
        for job in lease.jobs:
            # A job that was handed back may have come again, with another lease.
            if self._lease_of.get(job) is lease:
                del self._lease_of[job]

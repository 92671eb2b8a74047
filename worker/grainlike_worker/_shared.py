"""The runner of coroutines: many leases at once on one event loop, in a process or inside the user's program."""

import time
from collections.abc import Sequence
from contextvars import Context, copy_context

from grainlike.context import JobInfo, enter_job
from grainlike.errors import ProtocolError
from grainlike.net import Link
from grainlike.payload import Payload, dump_value, load_arguments
from grainlike.resources import Allocation
from grainlike.wire import Beat, Code, Define, Frame, Run, Setup, Stop
from grainlike_worker._driven import Suspended, as_coroutine
from grainlike_worker._enforce import read_receipt
from grainlike_worker._failures import NO_VALUE, failed, is_cancellation
from grainlike_worker._functions import Functions, Loaded
from grainlike_worker._lease import Lease
from grainlike_worker._tasks import Tasks, open_tasks
from grainlike_worker._usage import PeakMemory

__all__ = ["serve_shared"]

_TURN_S = 0.001
"""The longest that one run-list keeps the event loop between two of its jobs."""


async def serve_shared(link: Link) -> None:
    """Run `async def` jobs that come over `link` until it ends; then cancel those still running and wait for them.

    Works on asyncio and trio, and never touches the process: no affinity, no environment, no signals. Cancelling it
    does the same as the end of the link. A job that does not let itself be cancelled holds it up.

    Example::

        near, far = memory_pair()
        tasks.start_soon(serve_shared, far)
        near.post(Setup("n1", []))
    """
    runner = _SharedRunner(link)
    async with open_tasks(runner.serve) as tasks:
        runner.tasks = tasks
        try:
            await link.run(runner.handle)
        finally:
            runner.cancel_all()


class _SharedRunner:
    tasks: Tasks

    def __init__(self, link: Link) -> None:
        self._link = link
        self._functions = Functions()
        self._peak = PeakMemory()
        self._lease_of: dict[int, Lease] = {}
        self._waiting: set[Lease] = set()

    def handle(self, frames: Sequence[Frame]) -> None:
        """Take what the worker says."""
        for message, buffers in frames:
            match message:
                case Run():
                    lease = Lease(message, buffers, time.monotonic())
                    self._lease_of.update(dict.fromkeys(lease.jobs, lease))
                    self.tasks.start(lease)
                case Stop(jobs=jobs):
                    self._stop(jobs)
                    self._link.post(Beat(0))  # whatever the jobs do about it: this loop turns
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
        turn = time.monotonic()
        receipt = None
        while lease.index < lease.end:
            if lease.current_is_stopped:
                lease.skip()
                continue
            suspended, begun = self._begin(lease)
            if receipt is None:
                receipt = lease.columns.receipt = read_receipt({})
            if suspended is not None:
                await self._wait_for(lease, suspended, begun)
                break
            now = time.monotonic()
            if lease.columns.due(now):
                self._flush(lease)
            if now - turn >= _TURN_S:
                await self.tasks.pause()
                turn = time.monotonic()
            if self.tasks.disturbed():
                # A job that cancels its task, now or later, hurts only itself if nobody else waits in that task.
                lease.hand_back(lease.index)
        self._flush(lease)
        self._forget(lease)

    # --- one job -----------------------------------------------------------------------------------------------------

    def _begin(self, lease: Lease) -> tuple[Suspended | None, float]:
        """Take the first step of the job at `index`, which for many is the only one."""
        function = self._functions.get(lease.fn)
        context = copy_context()
        begun, cpu = time.monotonic(), time.thread_time()
        code = Code.SUCCEEDED if function.refusal is None else Code.FAILED
        try:
            outcome = context.run(
                self._first_step, context, function, lease.arguments(), lease.allocation, lease.info(function.name)
            )
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            code, outcome = failed(error)
        if isinstance(outcome, Suspended):
            return outcome, begun
        lease.ran(code, outcome, begun, time.monotonic() - begun, time.thread_time() - cpu)
        return None, begun

    def _first_step(
        self, context: Context, function: Loaded, arguments: Payload, allocation: Allocation, info: JobInfo
    ) -> Payload | Suspended:
        if function.refusal is not None:
            return function.refusal
        enter_job(allocation, self._functions.instance, info)
        args, kwargs = load_arguments(arguments)
        coroutine = as_coroutine(function.callable(*args, **kwargs))
        try:
            yielded = coroutine.send(None)
        except StopIteration as stop:
            return _dump(stop.value, function)
        return Suspended(context, coroutine, yielded)

    async def _wait_for(self, lease: Lease, suspended: Suspended, begun: float) -> None:
        """See a job to its end that waits for something. What stands behind it in the run-list must not wait too."""
        lease.columns.awaited = True
        lease.hand_back(lease.index + 1)
        self._flush(lease)
        self._waiting.add(lease)
        try:
            code, outcome = Code.SUCCEEDED, _dump(await suspended, self._functions.get(lease.fn))
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is its outcome
            if lease.current_is_stopped and is_cancellation(error):
                code, outcome = Code.CANCELLED, NO_VALUE
            else:
                code, outcome = failed(error)
        self._waiting.discard(lease)
        # A coroutine that waited shared the processor with others: what it used alone nobody can tell.
        lease.ran(code, outcome, begun, time.monotonic() - begun, 0.0)

    # --- stopping, answering -----------------------------------------------------------------------------------------

    def _stop(self, jobs: Sequence[int]) -> None:
        for job in jobs:
            lease = self._lease_of.get(job)
            if lease is not None and job not in lease.stopped:
                lease.stop([job])
                if lease in self._waiting and lease.current_is_stopped:
                    self.tasks.cancel(lease)

    def _flush(self, lease: Lease) -> None:
        if lease.columns:
            self._link.post(*lease.columns.take(self._peak.read()))

    def _forget(self, lease: Lease) -> None:
        for job in lease.jobs:
            # A job that was handed back may have come again, with another lease.
            if self._lease_of.get(job) is lease:
                del self._lease_of[job]


def _dump(value: object, function: Loaded) -> Payload:
    """The value's bytes, on memory of their own: they leave at a later turn, when other jobs may have changed it."""
    return dump_value(value, what=function.value_name).detached()

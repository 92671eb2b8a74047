"""Connection from inside a job to the head: for calls with resources that a job awaits, and for its own waiting.

A job *waits* while one of its tasks waits for a call that the head has. It reports this to its worker, which lends
its cores to others; and when a task's result is there, the task resumes only after the job has its cores again. If
other tasks still wait then, the job reports so again in the loop's next turn. So the task that resumes takes its
first step on the job's own cores, and a job that only seems to run cannot keep cores that its own jobs need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import anyio

from grainlike.context import JobInfo, JobView
from grainlike.engine import Waitable
from grainlike.graph import Node, RunsIn
from grainlike.joblogging import LogLevels
from grainlike.jobs import NO_PARCEL, Job, OutcomeListener, pack_calls, settle_calls, submit_calls
from grainlike.net import Uplink
from grainlike.resources import parse_allocation
from grainlike.wire import (
    Awaits,
    Buffer,
    GoesOn,
    Outcomes,
    Resumed,
    Withdraw,
    split_by_count,
)

__all__ = ["JobUplink"]


class _ChildJob(Job):
    """Record of a call that a job submitted: `child` is its number here; the head's comes with its outcome."""

    __slots__ = ("child",)

    child: int


class JobUplink:
    """Calls with resources of one job. `listener` receives how they ended, `soon` calls back in the loop's next turn.

    Implements the engine's `Jobs`, and `NestedSubmitter` towards the runner.
    """

    def __init__(
        self,
        view: JobView,
        job: JobInfo,
        uplink: Uplink,
        listener: OutcomeListener,
        pump: Callable[[], None],
        soon: Callable[[Callable[[], None]], None],
        closed: Callable[[], None],
    ) -> None:
        self._view = view
        self._job = job
        self._uplink = uplink
        self._listener = listener
        self._pump = pump
        self._soon = soon
        self._closed = closed
        self._nodes: dict[int, Node] = {}
        self._shipped: set[bytes] = set()
        """Digests of the functions that the head has from this job, for as long as it runs."""
        self._last_child = 0
        self._heard = 0
        self._waiters: dict[Waitable, Callable[[], Iterable[Node]]] = {}
        self._said = False
        """The worker believes that the job waits."""
        self._asked = False
        """True if the worker was asked to resume the job."""
        self._stopped = False
        self._resumed = anyio.Event()

    # --- from the engine ---------------------------------------------------------------------------------------------

    def submit(self, nodes: Iterable[Node]) -> None:
        """Send calls to the head. What cannot travel fails at once, alone."""
        batches = pack_calls(nodes, self._number, self._listener, streams=False)
        job = self._job
        levels = self._view.logs
        logs = levels.packed if isinstance(levels, LogLevels) else b""
        submit_calls(job.id, job.attempt, batches, self._shipped, self._uplink.post, self._refuse, logs=logs)
        self._soon(self.look)

    def _number(self, node: Node) -> int:
        self._last_child += 1
        record = node.record = _ChildJob(0, 0, node, NO_PARCEL)
        record.child = self._last_child
        self._nodes[self._last_child] = node
        return self._last_child

    def _refuse(self, child: int, node: Node, error: Exception) -> None:
        self._nodes.pop(child, None)
        self._listener.failed(node, error)

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Withdraw calls that are wanted no more in the job."""
        children = [node.record.child for node in nodes if isinstance(node.record, _ChildJob)]
        children = [child for child in children if self._nodes.pop(child, None) is not None]
        for part in split_by_count(children):
            self._uplink.post(Withdraw(self._job.id, self._job.attempt, part, skipped))

    # --- waiting -----------------------------------------------------------------------------------------------------

    async def wait(self, event: Waitable, nodes: Callable[[], Iterable[Node]], release: Callable[[], None]) -> None:
        """Wait for `event`, which comes when one of `nodes` has finished, and then for the job to have its cores.

        Cancelled, call `release`, which may free those very cores, and wait for them all the same, for the job may go
        on. Not when the job itself was cancelled: its clean-up is not kept waiting.
        """
        cancelled = anyio.get_cancelled_exc_class()  # now: a task that is dropped unfinished has no loop any more
        self._waiters[event] = nodes
        self.look()
        try:
            try:
                await event.wait()
            except BaseException:
                release()
                raise
            finally:
                del self._waiters[event]
            await self._regain()
        except cancelled:
            if not self._stopped:
                with anyio.CancelScope(shield=True):
                    await self._regain()
            raise

    def look(self) -> None:
        """Report to the worker if the job waits."""
        if not self._said and not self._stopped and any(map(self._sent_any, self._waiters.values())):
            self._said = True
            self._uplink.post(Awaits(self._job.id, self._job.attempt, self._heard))

    def _sent_any(self, nodes: Callable[[], Iterable[Node]]) -> bool:
        """Return True if the head has one of `nodes`, or a call that one of them needs."""
        seen: set[Node] = set()
        stack = list(nodes())
        while stack:
            node = stack.pop()
            if node.finished or node in seen:
                continue
            if node.place is RunsIn.REMOTE and node.record is not None:
                return True
            seen.add(node)
            stack.extend(node.deps)
        return False

    async def _regain(self) -> None:
        while self._said:
            if not self._asked:
                self._asked = True
                self._uplink.post(GoesOn(self._job.id, self._job.attempt, self._heard))
            await self._resumed.wait()

    # --- from the runner ---------------------------------------------------------------------------------------------

    def outcomes(self, message: Outcomes, buffers: Sequence[Buffer]) -> None:
        """Settle calls with the head's outcomes, as of `NestedSubmitter`."""
        if message.attempt != self._job.attempt:
            return
        for child, number in zip(message.children, message.jobs, strict=False):
            node = self._nodes.get(child)
            if node is not None:
                node.age = node.age or number
        self._heard += settle_calls(message, buffers, lambda child: self._nodes.pop(child, None), self._listener)
        self._pump()
        if self._said:
            self._soon(self._say_more)

    def _say_more(self) -> None:
        """Report again while waiting how many outcomes were received, or the head would believe the rest on the way."""
        if self._said and not self._asked and not self._stopped:
            self._uplink.post(Awaits(self._job.id, self._job.attempt, self._heard))

    def resumed(self, message: Resumed) -> None:
        """Resume the waiting tasks with the cores of `message`, as of `NestedSubmitter`."""
        if message.attempt != self._job.attempt:
            return
        self._view.allocation = parse_allocation(message.allocation)
        if self._view.carrier is not None:
            self._view.carrier.allocation = self._view.allocation
        self._said = self._asked = False
        event, self._resumed = self._resumed, anyio.Event()
        event.set()
        self._soon(self.look)

    def stop(self) -> None:
        """Note that the job was cancelled, as of `NestedSubmitter`."""
        self._stopped = True

    def close(self) -> None:
        """Close, as of `NestedSubmitter`. A task that the job leaves behind has no cores to wait for any more."""
        self._stopped, self._said = True, False
        self._nodes.clear()
        for end in (self._resumed.set, self._closed):
            with suppress(RuntimeError):  # a signal has closed the loop under a task that waits: it cannot be woken
                end()

"""Run of a named graph: it receives the starts and ends of jobs, and decides whether the others still run.

The engine runs the nodes; this code takes no part in that, and there is no task and no timer for a job. Events that
arrive in the middle of the engine's work are noted at once, so that a failure stops the rest without delay; callbacks
are called later, from the task that waits for the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import anyio

from grainlike.dag._callbacks import CallbackQueue, Callbacks
from grainlike.dag._occupancy import Occupancy
from grainlike.dag._report import DagReport, EndedJobState
from grainlike.engine import QUIET_S, bring
from grainlike.errors import JobCancelledError, JobTimeoutError, ValueLostError
from grainlike.executor import Executor
from grainlike.graph import NamedJob, Node, State, Status
from grainlike.jobs import Job, Lease, allocation_of, slots_of
from grainlike.resources import Allocation

if TYPE_CHECKING:
    from grainlike.jobs import Worker
    from grainlike.wire import LeaseStart, Report

__all__ = ["DagRun"]

logger = logging.getLogger("grainlike")


class DagRun:
    """Runs some jobs of a graph, once. Implements `Observer`."""

    def __init__(
        self, executor: Executor, graph: Mapping[str, NamedJob], *, fail_fast: bool, callbacks: Callbacks | None
    ) -> None:
        self._executor = executor
        self._graph = graph
        self._fail_fast = fail_fast
        self._news = CallbackQueue(callbacks)
        self._call = self._news.callbacks
        self._open: dict[Node, NamedJob] = {}
        """The jobs that have not ended."""
        self._ended: dict[str, EndedJobState] = {}
        self._slots = Occupancy()
        self._holding: dict[Lease, list[NamedJob]] = {}
        """Leases that hold slots for jobs of the run, whether these have ended or not."""
        self._held: dict[Node, tuple[Lease, Allocation]] = {}
        """The lease on which a job runs, or ran; of a gang's there are more."""
        self._freed: dict[Node, Allocation] = {}
        """The slots of jobs that have given them back and not ended: they may get others."""
        self._linked: dict[Node, Allocation] = {}
        """Slots of calls that ran in a chain, after the first, whose start was reported."""
        self._started: set[Node] = set()
        self._changed = anyio.Event()
        self._needed = {graph[name].node for job in graph.values() for name in job.needs}
        """Jobs on which others depend: their large values stay at workers."""
        self._unfetched: dict[Node, BaseException] = {}
        """Jobs with values that could not be brought here, and why."""

    async def run(self, jobs: Iterable[NamedJob], timeout: float | None) -> DagReport:
        """Run these jobs; those of the graph that are not among them have finished."""
        began = time.monotonic()
        self._open = {job.node: job for job in jobs}
        for job in self._graph.values():
            if job.node not in self._open:
                self._ended[job.name] = self._outcome(job)
        self._executor.observe(self)
        try:
            self._begin()
            await self._wait(timeout)
        except BaseException:
            self._stop("cancelled", "the run was cancelled", skipped=False)
            raise
        finally:
            self._executor.unobserve(self)
        ended = time.monotonic()
        in_order = {name: self._ended[name] for name in self._graph}
        return DagReport.of(in_order, self._executor.backend_name, began=began, ended=ended, peaks=self._slots.peaks())

    def _begin(self) -> None:
        for node in self._open:
            self._executor.watch(node, partial(self.finished, node))
        self._start_all()

    def _start_all(self) -> None:
        self._executor.start(list(self._open))

    async def _wait(self, timeout: float | None) -> None:
        with anyio.move_on_after(timeout):
            await self._until(lambda: not self._open)
        if self._open:
            self._stop("timed_out", f"the run took longer than its timeout of {timeout:g} s")
        with anyio.move_on_after(QUIET_S):
            await self._until(lambda: not self._holding, telling=False)
        if self._holding:
            names = dict.fromkeys(job.name for jobs in self._holding.values() for job in jobs)
            logger.warning("%s still held slots %g s after the run had ended", ", ".join(names), QUIET_S)
        await self._news.tell()

    async def _until(self, condition: Callable[[], bool], *, telling: bool = True) -> None:
        while True:
            if telling:
                await self._news.tell()
            if condition():
                return
            self._changed = anyio.Event()
            await self._changed.wait()

    # --- ends --------------------------------------------------------------------------------------------------------

    def finished(self, node: Node) -> None:
        """A job has its outcome."""
        job = self._open.get(node)
        if job is None:  # the run had ended it before
            return
        if node.stays and node not in self._needed and node not in self._unfetched:
            bring(node, partial(self._brought, node))  # no other node takes it: it is for the report
            return
        del self._open[node]
        outcome = self._outcome(job)
        self._end(job, outcome)
        if self._fail_fast and outcome.status in ("failed", "timed_out"):
            self._stop("cancelled", f"{job.name} {outcome.status.replace('_', ' ')}")

    def _brought(self, node: Node, error: BaseException | None) -> None:
        """The value of a job is in the program now; `error`: it never will be."""
        if error is not None:
            self._unfetched[node] = error
        self.finished(node)

    def _outcome(self, job: NamedJob) -> EndedJobState:
        """Return how a finished job ended, in this run or before it."""
        node = job.node
        needs = tuple([self._graph[name].node for name in job.needs])
        if job.status is not None:
            return EndedJobState(job.status, node.error, node, needs, None)
        lost = self._unfetched.get(node)
        status = "failed" if isinstance(lost, ValueLostError) else _status(node, needs)
        return EndedJobState(status, lost or node.error, node, needs, None)

    def _stop(self, running: Status, why: str, *, skipped: bool = True) -> None:
        """End all that has not: what runs, or ran on a lost worker, has this status; the others are skipped."""
        rest, self._open = self._open, {}
        now = time.monotonic()
        for node, job in rest.items():
            needs = tuple([self._graph[name].node for name in job.needs])
            if node.state is State.RUNNING or (node in self._started and isinstance(node.record, Job)):
                kind = JobTimeoutError if running == "timed_out" else JobCancelledError
                self._end(job, EndedJobState(running, kind(f"{job.name} was ended: {why}"), node, needs, now))
            else:
                error = JobCancelledError(f"{job.name} was not started: {why}")
                self._end(job, EndedJobState("skipped", error, node, needs, None))
        self._executor.release(list(rest), skipped=skipped)

    def _end(self, job: NamedJob, outcome: EndedJobState) -> None:
        job.status = outcome.status
        self._ended[job.name] = outcome
        call, node = self._call, job.node
        linked = self._linked.pop(node, None)
        if linked is not None:
            self._freed[node] = linked
            self._news.add(call.on_resource_acquired, job.name, linked)
            self._start(job)
        if outcome.status == "succeeded":
            self._news.add(call.on_complete, job.name, node.value)
        elif outcome.status == "skipped":
            self._news.add(call.on_skip, job.name)
        else:
            self._news.add(call.on_error, job.name, outcome.error)
        freed = self._freed.pop(node, None)
        if freed is not None:
            self._news.add(call.on_resource_released, job.name, freed)
        self._wake()

    def _wake(self) -> None:
        if self._news or not self._open:
            self._changed.set()

    # --- what workers tell -------------------------------------------------------------------------------------------

    def quarantined(self, peer: Worker, why: str) -> None:
        """Do nothing: its jobs stay where they are."""

    def suspected(self, peer: Worker, why: str) -> None:
        """Do nothing: its jobs stay where they are."""

    def joined(self, peer: Worker) -> None:
        """A worker is here."""
        self._slots.offer(peer.number, peer.offer)

    def left(self, peer: Worker) -> None:
        """Remove a worker that has left, with all its leases."""
        self._slots.offer(peer.number, None)
        for lease in [lease for lease in self._holding if lease[0] == peer.number]:
            self._lease_ended(lease)

    def reported(self, peer: Worker, report: Report) -> None:
        """Leases began and ended."""
        ended = frozenset(report.ended)
        for start in report.started:
            jobs = self._jobs_of(start)
            if jobs:
                lease = peer.number, start.lease
                self._holding[lease] = [job for job, _ in jobs]
                self._slots.take(lease, allocation_of(start.allocation), ended)
                for job, slots in jobs if not self._executor.assembles(start.jobs[0]) else ():
                    self._acquired(job, lease, allocation_of(slots))
        for number in report.ended:
            self._lease_ended((peer.number, number))

    def _jobs_of(self, start: LeaseStart) -> list[tuple[NamedJob, str]]:
        """Return the jobs of this run among the jobs of a lease, with their slots."""
        found: list[tuple[NamedJob, str]] = []
        for number, attempt, slots in slots_of(start):
            live = self._executor.live_job(number, attempt)
            if live is not None and live.node is not None:
                found += [(job, slots) for job in self._carried(live.node)]
        return found

    def _carried(self, node: Node) -> list[NamedJob]:
        """Return the jobs of the run that run when this node does, and have not ended."""
        job = self._open.get(node)
        return [] if job is None else [job]

    def _acquired(self, job: NamedJob, lease: Lease, allocation: Allocation) -> None:
        node = job.node
        self._held[node] = lease, allocation
        self._freed.pop(node, None)
        if node not in self._started:
            self._news.add(self._call.on_resource_acquired, job.name, allocation)
        self._start(job)

    def _lease_ended(self, lease: Lease) -> None:
        self._slots.give(lease)
        for job in self._holding.pop(lease, ()):
            node = job.node
            held = self._held.get(node)
            if held is None or held[0] != lease:  # it has got others since
                continue
            del self._held[node]
            if node in self._open:
                self._freed[node] = held[1]
            else:
                self._news.add(self._call.on_resource_released, job.name, held[1])
        self._wake()

    def linked(self, job: Job, *, good: bool) -> None:  # noqa: ARG002 - its outcome will say it
        """A call has run in a chain."""
        node = job.node
        if node in self._open and node not in self._started and job.slots is not None:
            self._linked[node] = allocation_of(job.slots)

    def called(self, node: Node) -> None:
        """A call in this process has begun."""
        job = self._open.get(node)
        if job is not None:
            self._start(job)

    def closed(self) -> None:
        """Do nothing: the executor has closed, and cancelled what had not ended."""

    def _start(self, job: NamedJob) -> None:
        if job.node not in self._started:
            self._started.add(job.node)
            self._news.add(self._call.on_start, job.name)
            self._wake()


def _status(node: Node, needs: Iterable[Node]) -> Status:
    if node.state is State.SUCCEEDED:
        return "succeeded"
    if node.state is State.CANCELLED:
        return "cancelled"
    if any(need.finished and need.state is not State.SUCCEEDED and need.error is node.error for need in needs):
        return "skipped"  # where it accepts their errors, its own is another
    return "timed_out" if isinstance(node.error, JobTimeoutError) else "failed"

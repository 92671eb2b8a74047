"""Partitioned run of a named graph: each part, or what of it can be sent so, is one job.

The nodes of a part behave to all other code as before: they are wanted, awaited and cancelled like any others. The
engine only does not run them: it receives their outcomes when the job of their part has ended. What cannot be sent in
a part the engine runs as usual, since it receives all outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from grainlike.calls import CallReport, PartPlan, run_part, run_part_async
from grainlike.dag._callbacks import Callbacks
from grainlike.dag._run import DagRun
from grainlike.errors import SerializationError
from grainlike.executor import Executor
from grainlike.graph import (
    Function,
    NamedJob,
    Node,
    Options,
    Partition,
    Piece,
    Record,
    RunsIn,
    State,
    Status,
    Step,
    Steps,
    pieces_of,
    unfinished_nodes,
)
from grainlike.jobs import Lease, note_of
from grainlike.payload import Payload, dump_arguments, dump_function, dump_value
from grainlike.resources import Allocation, Receipt, Request, Usage

__all__ = ["PartitionedRun"]


class PartitionedRun(DagRun):
    """Runs some jobs of a graph, once, in parts. Call `cut` before `run`."""

    def __init__(
        self, executor: Executor, graph: Mapping[str, NamedJob], *, fail_fast: bool, callbacks: Callbacks | None
    ) -> None:
        super().__init__(executor, graph, fail_fast=fail_fast, callbacks=callbacks)
        self._pieces: list[Piece] = []
        self._others: list[Node] = []
        """Nodes that the engine runs: all that are in no part."""
        self._nameless: list[Node] = []
        """All nodes that are no jobs of the graph: operators on jobs, and placeholders among their arguments."""
        self._sent: dict[Node, list[Node]] = {}
        """Running jobs of parts, each with the nodes that were sent in it."""
        self._over = False

    def cut(self, jobs: Sequence[NamedJob], partition: Partition) -> list[Request]:
        """Decide on the pieces; returns what they ask for."""
        costs = {job.node: job.weight for job in jobs}
        nodes = unfinished_nodes(costs)
        self._pieces = pieces_of(nodes, costs, partition)
        inside = {node for piece in self._pieces for node in piece.nodes}
        self._others = [node for node in nodes if node not in inside]
        self._nameless = [node for node in nodes if node not in costs]
        return [piece.request for piece in self._pieces]

    # --- from the start to the outcomes ------------------------------------------------------------------------------

    def _start_all(self) -> None:
        for piece in self._pieces:
            self._executor.adopt(piece.nodes)
        self._executor.start(self._others)
        for piece in self._pieces:
            self._launch_when_ready(piece)

    def _launch_when_ready(self, piece: Piece) -> None:
        missing = {node for node in piece.needs if not node.finished or node.stays}

        def arrived(node: Node, error: BaseException | None) -> None:
            if error is not None:
                lost.append(error)
            missing.discard(node)
            if not missing and lost:
                self._executor.settle({}, dict.fromkeys(piece.nodes, lost[0]))
            elif not missing:
                self._launch(piece)

        lost: list[BaseException] = []
        if not missing:
            self._launch(piece)
        for node in list(missing):
            self._executor.watch_value(node, partial(arrived, node))

    def _launch(self, piece: Piece) -> None:
        if self._over:
            return
        load = _PartBuilder()
        bad: dict[Node, BaseException] = {}
        for node in piece.nodes:
            error = _error_before(node, bad)
            if error is None:
                try:
                    load.add(node, self._name(node))
                except Exception as refused:  # noqa: BLE001 - whatever the user's objects raise is this call's own
                    error = refused
            if error is not None:
                bad[node] = error
        if load.nodes:
            self._send(piece, load.nodes, load.plan(fail_fast=self._fail_fast))
        self._executor.settle({}, bad)

    def _name(self, node: Node) -> str:
        job = self._open.get(node)
        return node.function.name if job is None else job.name

    def _send(self, piece: Piece, nodes: list[Node], plan: PartPlan) -> None:
        options = Options(retries=piece.retries, priority=piece.priority, isolate=piece.is_async)
        run = run_part_async if piece.is_async else run_part
        function = Function(run, options, name=f"part {piece.part}")
        job = Node(function, piece.request, RunsIn.REMOTE, (plan,), None, ())
        self._sent[job] = nodes
        self._executor.watch_value(job, partial(self._arrived, job))
        self._executor.start([job])

    def _arrived(self, job: Node, lost: BaseException | None) -> None:
        """The job of a piece has ended: so have all of its nodes, but those that were not made."""
        nodes = self._sent.pop(job)
        if self._over:
            return
        error = lost or job.error
        if error is not None:
            self._executor.settle({}, dict.fromkeys(nodes, error))
            return
        good: dict[Node, object] = {}
        bad: dict[Node, BaseException] = {}
        left: list[Node] = []
        for node, told in zip(nodes, job.value, strict=True):
            if told.good is None:
                node.state = State.PENDING
                before = _error_before(node, bad)
                if before is not None:
                    bad[node] = before
                continue
            record = node.record = StepRecord(told, job)
            if told.left:
                left.append(node)
                continue
            try:
                good[node] = told.outcome(record.note(node.function.name))
            except Exception as raised:  # noqa: BLE001 - its own, or what opening its value raised
                bad[node] = raised
        self._executor.settle(good, bad, left)

    def _stop(self, running: Status, why: str, *, skipped: bool = True) -> None:
        self._over = True
        super()._stop(running, why)  # the calls are no jobs of their own: those are what was sent
        self._executor.release([*self._sent, *self._nameless], skipped=skipped)

    # --- who runs what -----------------------------------------------------------------------------------------------

    def _carried(self, node: Node) -> list[NamedJob]:
        nodes = self._sent.get(node)
        if nodes is None:
            return super()._carried(node)
        return [self._open[one] for one in nodes if one in self._open]

    def _acquired(self, job: NamedJob, lease: Lease, allocation: Allocation) -> None:
        job.node.state = State.RUNNING
        super()._acquired(job, lease, allocation)


def _error_before(node: Node, bad: Mapping[Node, BaseException]) -> BaseException | None:
    """Return the error for which a node can never have its inputs, or is wanted no more; None if it may run."""
    if node.finished:
        return node.error
    for dep in node.deps:
        error = bad.get(dep) or dep.error
        if error is not None:
            return error
    return None


class _PartBuilder:
    """Payload of one part while it is packed: equal parts of it are packed once."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._steps = Steps()
        self._lines: list[Step] = []
        self._names: list[str] = []
        self._functions: list[int] = []
        self._blobs: dict[bytes, int] = {}
        self._known: dict[Function, int] = {}
        self._packed: list[Payload] = []
        self._given: list[int | None] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._alive: list[tuple[Any, ...]] = []
        """Objects that were packed, kept alive so that no other object gets the same `id`."""

    def add(self, node: Node, name: str) -> None:
        """Take a node along; raises what its function or its arguments have against it."""
        number = self._known.get(node.function)
        if number is None:
            data = dump_function(node.function.callable).data
            number = self._known[node.function] = self._blobs.setdefault(data, len(self._blobs))
        step, given = self._steps.of(node)
        brought = self._pack(node, step, given) if given else None
        self._given.append(brought)
        self._functions.append(number)
        self._lines.append(step)
        self._names.append(name)
        self._steps.add(node)
        self.nodes.append(node)

    def _pack(self, node: Node, step: Step, given: tuple[Any, ...]) -> int:
        key = tuple(map(id, given))
        number = self._numbers.get(key)
        if number is None:
            try:
                payload = dump_value(given)
            except SerializationError:
                dump_arguments(*step.with_given(given), what=node.function.name)  # says which of them it is
                raise
            number = self._numbers[key] = len(self._packed)
            self._packed.append(payload.inside())
            self._alive.append(given)
        return number

    def plan(self, *, fail_fast: bool) -> PartPlan:
        """Return the payload."""
        retries = [node.function.options.retry.times for node in self.nodes]
        return PartPlan(
            list(self._blobs), self._functions, self._names, retries, self._lines, self._packed, self._given, fail_fast
        )


class StepRecord(Record):
    """Record of a call that was sent in a part, from the part's report, whose clock began with the part's.

    Number, worker, allocation and receipt are those of the part's job.
    """

    __slots__ = ("_attempt", "_began", "_ended", "_usage", "_whole")

    def __init__(self, told: CallReport, job: Node) -> None:
        whole = job.record
        assert whole is not None
        self._whole = whole
        zero = whole.began or 0.0
        wall = told.ended - told.began
        peak = whole.usage.peak_rss if whole.usage is not None else 0
        self._attempt = told.attempt
        self._began = zero + told.began
        self._ended = zero + told.ended
        self._usage = Usage(wall, told.cpu, peak, told.cpu / wall if wall > 0 else 0.0)

    @property
    def job(self) -> int:
        """Number of the part's job."""
        return self._whole.job

    @property
    def worker(self) -> str | None:
        """Worker that ran the part."""
        return self._whole.worker

    @property
    def allocation(self) -> Allocation | None:
        """Slots of the part."""
        return self._whole.allocation

    @property
    def receipt(self) -> Receipt | None:
        """Enforcement receipt of the part."""
        return self._whole.receipt

    @property
    def attempt(self) -> int:
        """Attempt of the call, inside its part."""
        return self._attempt

    @property
    def usage(self) -> Usage | None:
        """Times of the call, and the peak memory of the part."""
        return self._usage

    @property
    def began(self) -> float | None:
        """Monotonic time at which the call started."""
        return self._began

    @property
    def ended(self) -> float | None:
        """Monotonic time at which the call ended."""
        return self._ended

    def note(self, name: str) -> str:
        """Return the one line that an exception of this call carries."""
        return note_of(name, self.job, self.worker, self.allocation, self.attempt)

    def elapsed_s(self) -> float | None:
        """Return the seconds that the call ran."""
        return self._ended - self._began

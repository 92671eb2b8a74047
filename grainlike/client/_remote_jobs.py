"""Calls with resources of a client's program: they go to a head elsewhere, and their outcomes come back."""

from __future__ import annotations

import logging
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import Context, copy_context
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from grainlike.client._events import RemoteLeases, outcome_of
from grainlike.client._introduction import own_copy
from grainlike.client._remote_values import RemoteValues
from grainlike.engine import buffer_of
from grainlike.errors import JobCancelledError, JobTimeoutError, SessionError
from grainlike.eventloop import Changes
from grainlike.graph import Function, Node, RunsIn, StreamNode, whole_graph
from grainlike.joblogging import ProgramLevels
from grainlike.jobs import (
    NO_PARCEL,
    Job,
    JobCall,
    JobCounters,
    OutcomeListener,
    OwnArguments,
    Shipped,
    pack_ahead,
    pack_calls,
    repacked,
    settle_calls,
    submit_calls,
)
from grainlike.net import Link
from grainlike.payload import SharedCopies
from grainlike.resources import Request, parse
from grainlike.wire import (
    Began,
    Buffer,
    Credit,
    DropOwnValues,
    EncloseValues,
    Frame,
    Items,
    Notice,
    Numbered,
    Outcomes,
    OutcomesHeard,
    ReleaseFunctions,
    ReplicaCredit,
    ReplicaPart,
    SendReplica,
    SessionIs,
    StopTransfer,
    ValueComes,
    ValuesAt,
    ValuesGone,
    Warned,
    Withdraw,
    split_by_count,
    unpack_parcels,
)

if TYPE_CHECKING:
    from grainlike.client._held_calls import HeldCalls

__all__ = ["RemoteJobs"]

logger = logging.getLogger("grainlike")

_ABOUT_VALUES = (
    ValueComes,
    ReplicaPart,
    ValuesGone,
    ValuesAt,
    SendReplica,
    ReplicaCredit,
    StopTransfer,
    DropOwnValues,
)

_Batches = dict[tuple[Request, int, bool], list[JobCall]]
"""Calls by what all calls in one message have in common."""

_MOST_DIGESTS = 4096
"""Most functions that one message releases."""


class RemoteJobs:
    """Implements the engine's `JobRunner` over a connection as a client, from the first `go_on`.

    `listener` receives the outcomes of jobs, `leases` their slots. `fetch(node, child)` fetches an outcome that a
    session keeps on disk, then calls `fetched` or `not_fetched`. `levels` of this program's loggers are sent with
    functions, if log records of jobs are to come back. Nodes carry a `Job` with the head's number for it, 0 until the
    head has sent the number.
    """

    def __init__(
        self,
        listener: OutcomeListener,
        pump: Callable[[], None],
        counters: JobCounters,
        leases: RemoteLeases,
        fetch: Callable[[Node, int], None],
        levels: ProgramLevels | None = None,
    ) -> None:
        self._levels = levels
        self._leases = leases
        self._listener = _CountingListener(listener, counters, leases)
        self._pump = pump
        self._counters = counters
        self._nodes: dict[int, Node] = {}
        self._children: dict[Node, int] = {}
        self._shipped = Shipped()
        self._last_child = 0
        self._fetch = fetch
        self._far: dict[Node, int] = {}
        """Numbers of adopted calls whose outcomes stay at the head until the calls are started or awaited."""
        self._lost: Exception | None = None
        self._losses = 0
        self._postpones = False
        self._postponed: list[Node] = []
        """Calls that were submitted while the program looked for another head."""
        self._release = False
        self.own: OwnArguments | None = None
        """Maker of own values from large arguments; None if all arguments travel with their calls."""
        self.held: HeldCalls | None = None
        """Calls that wait until workers have their large arguments; None without a session."""
        self.caller_of: Callable[[Node], Context | None] = _nobody
        """Function that returns the context in which a call was awaited, for warnings about the call."""
        self.names: dict[Node, str] = {}
        """Names under which outcomes are kept, of calls that have not been sent yet."""
        self._taken: dict[Node, str] = {}
        """Names of such calls that the session has already, at a head that was found since: these calls fail."""
        self._ahead: dict[Node, bool] = {}
        """Calls that were sent with their graphs and have not ended; True for calls with names."""
        self._unheard: set[int] = set()
        """Numbers of such calls whose outcome has not come."""
        self.numbered: Changes = Changes()
        """Notified when jobs have got numbers."""

    def submit(self, nodes: Iterable[Node]) -> None:
        """Send calls to the head. A call that cannot be sent fails alone, at once; all fail once the head is lost."""
        if self._lost is not None:
            if self._postpones:
                self._postponed.extend(nodes)
                return
            for node in nodes:
                self._listener.failed(node, own_copy(self._lost))
            return
        fresh = self._ask_for_far(nodes) if self._far else list(nodes)
        if self._ahead:
            fresh = [node for node in fresh if node not in self._ahead]
        if self._taken:
            fresh = self._refuse_taken(fresh)
        if not self.names:
            self._send(fresh)
            return
        named = [node for node in fresh if node in self.names]  # apart from the others: they may be refused
        self._send([node for node in fresh if node not in self.names])
        self._send_named(named)

    def send_ahead(self, root: Node, *, goes_on: bool) -> None:
        """Send a call, and all that it needs, before its inputs are there; the head goes on with it by itself. If a
        part must stay in this program, or cannot be sent, nothing is sent: each call is sent when its inputs are there.
        """
        if self._lost is not None:
            return
        fetcher = self.values.fetcher if self.values.fetcher.used or self.own is not None else None
        nodes = whole_graph(root, self._ahead, fetcher)
        if nodes is None:
            return
        calls = [node for node in nodes if node.place is RunsIn.REMOTE]
        fresh = {node: number for number, node in enumerate(calls, self._last_child + 1)}
        numbers = ChainMap(fresh, self._children)
        try:
            packed = pack_ahead(nodes, numbers, fetcher, self.own)
        except Exception:  # noqa: BLE001 - packing the call in its turn raises it again, for those who await the call
            return
        for call in packed:
            assert self._number(call.node) == call.child
            self._goes_ahead(call.node, call.child, named=call.node in self.names)
        self.send_in_order(packed if self.held is None else self.held.take(packed, goes_on=goes_on), goes_on)
        self._end_batch()
        for node in calls:
            node.drop_arguments()

    def hold_back(self, values: RemoteValues, start_watch: Callable[[HeldCalls], object]) -> None:
        """Hold calls from now on until workers have their large arguments, which are among `values`; `start_watch`
        starts a task that runs `HeldCalls.watch`.
        """
        from grainlike.client._held_calls import HeldCalls  # few programs have a session

        self.held = HeldCalls(values, self, start_watch)

    def forget(self, names: Iterable[str]) -> None:
        """Let calls that are held go to the head without these names."""
        if self.names:
            for node in [node for node, name in self.names.items() if name in names]:
                del self.names[node]

    def is_held(self, node: Node) -> bool:
        """Return True if a call waits in this program until workers have its large arguments."""
        return self.held is not None and self._children.get(node, 0) in self.held

    def refuse_held(self, call: JobCall, error: Exception) -> None:
        """Fail a call that was held, and cannot be sent."""
        self.names.pop(call.node, None)
        self._refuse(call.child, call.node, error)
        self._pump()

    def send_in_order(self, calls: list[JobCall], goes_on: bool) -> None:
        """Send calls in order; neighbours that are alike go in one message."""
        self._release_functions()
        for (key, _), alike in groupby(calls, lambda call: (_alike(call), call.needs is None)):
            self._post({key: list(alike)}, goes_on=goes_on)

    def _ask_for_far(self, nodes: Iterable[Node]) -> list[Node]:
        """Fetch the outcomes that the session keeps on disk; return the other nodes."""
        fresh: list[Node] = []
        for node in nodes:
            child = self._far.pop(node, None)
            if child is None:
                fresh.append(node)
            else:
                self._fetch(node, child)
        return fresh

    def _refuse_taken(self, nodes: Iterable[Node]) -> list[Node]:
        """Fail the calls whose names the session has; return the others."""
        fresh: list[Node] = []
        for node in nodes:
            name = self._taken.pop(node, None)
            if name is None:
                fresh.append(node)
            else:
                words = f"the session has something named {name!r} at the next head: take it, or forget it"
                self._listener.failed(node, SessionError(words))
        return fresh

    def _send(self, nodes: list[Node]) -> None:
        batches = self._packed(nodes)
        self._post(batches if self.held is None else self._without_held(batches, self.held))
        if self.own is not None and self.own.holds:  # a call of `_end_batch` for each call of the user's costs time
            self._end_batch()

    def _end_batch(self) -> None:
        """Release what was kept for a batch of calls, which refer to it now."""
        if self.own is not None and self.own.holds:
            self.own.end_batch()

    @staticmethod
    def _without_held(batches: _Batches, held: HeldCalls) -> _Batches:
        return {key: free for key, calls in batches.items() if (free := held.take(calls))}

    def _packed(self, nodes: Iterable[Node]) -> _Batches:
        self._release_functions()
        fetcher, copies, own = self.values.fetcher, SharedCopies(), self.own
        return pack_calls(nodes, self._number, self._listener, streams=True, copies=copies, fetcher=fetcher, own=own)

    def _send_named(self, nodes: list[Node]) -> None:
        """Send calls with names whose inputs are there, so that other calls may refer to them."""
        batches = self._packed(nodes)
        for key, calls in batches.items():
            batches[key] = [call._replace(needs=()) for call in calls]
            for call in calls:
                self._goes_ahead(call.node, call.child, named=True)
        self._post(batches if self.held is None else self._without_held(batches, self.held))
        self._end_batch()

    def _post(self, batches: _Batches, *, goes_on: bool = False) -> None:
        levels = self._levels
        # This expression finds out without a call whether the levels have changed, as in `FunctionTable.number`.
        logs = b"" if levels is None else levels.packed if levels.unchanged in levels.cache else levels.read()
        submit_calls(
            0, 0, batches, self._shipped, self._link.post, self._refuse, self.names, logs, stays=True, goes_on=goes_on
        )
        for calls in batches.values():
            last = None
            self._counters.sent += sum([call.size or len(call.parcel[0]) for call in calls])
            for call in calls:
                if call.node.function is not last:  # most calls of a batch have the same function
                    last = call.node.function
                    if call.blob.digest in self._shipped:
                        self._shipped.note(last, call.blob.digest)
        if self.names:
            for node in [call.node for calls in batches.values() for call in calls]:
                self.names.pop(node, None)

    def _refuse(self, child: int, node: Node, error: Exception) -> None:
        """Fail a call that cannot be sent."""
        self._take(child)
        self._unheard.discard(child)
        self._listener.failed(node, error)

    def _release_functions(self) -> None:
        """Release at the head the functions that this program has dropped."""
        released = self._shipped.take_released()
        for first in range(0, len(released), _MOST_DIGESTS):
            self._link.post(ReleaseFunctions(released[first : first + _MOST_DIGESTS]))

    def adopt(self, told: SessionIs) -> dict[str, Node]:
        """Adopt the named calls of the session, which an earlier program has submitted; they are lazy here."""
        self._last_child = max(self._last_child, told.last_child)
        taken = set(told.names)
        self._taken.update((node, name) for node, name in self.names.items() if name in taken)
        for node in self._taken:
            self.names.pop(node, None)
        apart = told.apart or [-1] * len(told.names)
        rows = zip(told.names, told.children, told.jobs, told.functions, told.requests, apart, strict=True)
        return {name: self._adopted(*row) for name, *row in rows}

    def is_far(self, node: Node) -> bool:
        """Return True if the outcome of an adopted call is fetched when it is started."""
        return node in self._far

    def is_of_lost_head(self, node: Node) -> bool:
        """Return True if the job of a call was at a head that is lost: at the next, its number is that of another."""
        return isinstance(node.record, _SentJob) and node.record.losses != self._losses

    def is_unsent(self, node: Node) -> bool:
        """Return True if a call has a name and goes to the head in its turn."""
        return node in self.names and not node.finished

    def _adopted(self, child: int, job: int, function: str, request: str, apart: int) -> Node:
        node = Node(Function(_submitted_before, name=function), parse(request), RunsIn.REMOTE, (), None, ())
        node.record = _SentJob(job, node, self._losses)
        if apart >= 0:
            self._far[node] = child
        else:
            self._nodes[child] = node
            self._children[node] = child
            self._goes_ahead(node, child, named=True)
        return node

    def _goes_ahead(self, node: Node, child: int, *, named: bool) -> None:
        """Let later calls refer to this one, which has not ended."""
        self._ahead[node] = named
        self._unheard.add(child)

    def fetched(self, node: Node, frame: Frame) -> None:
        """Settle a call with its outcome, which the session has kept on disk."""
        message, buffers = frame
        if not node.finished and isinstance(message, Outcomes):
            settle_calls(message, buffers, lambda _: node, self._listener)
            self._pump()

    def not_fetched(self, node: Node, error: Exception) -> None:
        """Fail an adopted call whose outcome could not be fetched."""
        if not node.finished:
            self._listener.failed(node, error)
            self._pump()

    def release(self) -> Collection[Node]:
        """Detach: from now on, cancelling does not reach the head. Return the submitted calls, which continue there:
        all but streams, which end without their reader.
        """
        self._release = True
        return {node for node in self._children if not node.function.is_stream}

    def _number(self, node: Node) -> int:
        self._last_child += 1
        node.record = _SentJob(0, node, self._losses)
        self._nodes[self._last_child] = node
        self._children[node] = self._last_child
        return self._last_child

    def _take(self, child: int) -> Node | None:
        node = self._nodes.pop(child, None)
        if node is not None:
            del self._children[node]
            self._ahead.pop(node, None)
        return node

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Cancel calls that this program does not want any more."""
        if self._release:
            return
        gone: list[int] = []
        for node in nodes:
            self.names.pop(node, None)
            self._taken.pop(node, None)
            child = self._children.get(node)
            if child is not None:
                if self.held is not None and self.held.drop(child):
                    self._unheard.discard(child)
                elif not (skipped and self._ahead.get(node)):  # the head fails a named call itself, and keeps that
                    gone.append(child)
                    self._unheard.discard(child)
                self._take(child)
                job = node.record
                began = isinstance(job, Job) and job.began is not None
                if isinstance(job, Job):
                    self._leases.ended(job, "cancelled")
                self._counters.unwanted(skipped=skipped and not began, internal=node.function.internal)
            elif node.record is None:
                self._counters.unwanted(skipped=skipped)
        for part in split_by_count(gone):
            self._link.post(Withdraw(0, 0, part, skipped))

    def hear(self, frame: Frame) -> None:
        """Handle a message of the head about jobs."""
        message, buffers = frame
        match message:
            case Outcomes():
                self._counters.run_seconds += sum(message.wall)
                for ended in filter(None, map(self._job, message.children)):
                    self._leases.ended(ended)
                self._settle(message, buffers)
                self._pump()
                self._release_functions()
                if self._unheard:
                    self._hear_ends(message.children)
            case _ if isinstance(message, _ABOUT_VALUES):
                self.values.hear(frame)
            case EncloseValues():
                self._submit_again(message, buffers)
            case Items():
                self._items(message, buffers)
            case Numbered():
                for child, number in zip(message.children, message.jobs, strict=True):
                    job = self._job(child)
                    if job is not None:
                        job.id = number
                        node = self._nodes[child]
                        node.age = node.age or number
                if self.numbered.awaited is not None:
                    self.numbered.notify()
            case Began():
                self._began(message)
            case Warned() | Notice():
                warned = self._nodes.get(message.child)
                caller = None if warned is None else self.caller_of(warned)
                (caller or copy_context()).copy().run(logger.warning, "%s", message.words)

    def _submit_again(self, told: EncloseValues, buffers: Sequence[Buffer]) -> None:
        """Submit a call again with own values in its arguments, because no worker has room for these values."""
        node = self._take(told.child)
        if node is None:  # the call was cancelled
            return
        try:
            call = repacked(node, unpack_parcels(told.data, told.counts, buffers)[0], self.values.payloads(told.values))
        except Exception as error:  # noqa: BLE001 - the error is for those who await the call
            self._listener.failed(node, error)
            self._pump()
            return
        call = call._replace(child=self._number(node), inputs=told.inputs)
        self._post({_alike(call): [call]})

    def _settle(self, message: Outcomes, buffers: Sequence[Buffer]) -> None:
        """Settle calls, and release values that stay at workers and that this program does not want any more."""
        unwanted: list[int] = []
        settle_calls(message, buffers, self._take, self._listener, unwanted.append)
        if unwanted:
            self.values.release(unwanted)

    def _hear_ends(self, children: Sequence[int]) -> None:
        """Tell the head that no later call refers to these calls, because their outcomes are here. It is told later of
        those that calls need which are held.
        """
        heard = self._unheard.intersection(children)
        self._unheard -= heard
        self.tell_heard(heard if self.held is None else self.held.hear(heard))

    def tell_heard(self, children: Iterable[int]) -> None:
        """Tell the head that no later call refers to these calls."""
        for part in split_by_count(sorted(children)):
            self._link.post(OutcomesHeard(part))

    def _items(self, message: Items, buffers: Sequence[Buffer]) -> None:
        """Hand items to their stream, if it is still wanted; its reader gives credit as it takes them."""
        node = self._nodes.get(message.job)
        if isinstance(node, StreamNode):
            buffer = buffer_of(node)
            if not buffer.begun:
                buffer.begin(partial(self._credit, message.job, message.attempt))
            buffer.put_all(message, buffers)

    def _credit(self, child: int, attempt: int, items: int, size: int) -> None:
        if child in self._nodes:
            self._link.post(Credit(child, attempt, items, size))

    def _began(self, message: Began) -> None:
        ran = message.ran or [0.0] * len(message.children)
        rows = zip(message.children, message.attempts, message.workers, message.slots, ran, strict=True)
        for child, attempt, worker, slots, ran_s in rows:
            job = self._job(child)
            if job is not None and worker:
                job.begin(worker, attempt, slots, ran_s)
                self._leases.began(job)
            elif job is not None:
                job.waits_again()
                self._leases.ended(job, "retried")

    def running(self) -> Iterator[Job]:
        """Iterate over the jobs that have begun and not ended, as far as this program knows."""
        jobs = (node.record for node in self._nodes.values())
        return (job for job in jobs if isinstance(job, Job) and job.began is not None)

    def _job(self, child: int) -> Job | None:
        node = self._nodes.get(child)
        return node.record if node is not None and isinstance(node.record, Job) else None

    def lose(self, error: Exception, *, postpones: bool = False) -> None:
        """Fail all calls at the lost head, and all calls that are submitted from now on.

        With `postpones`, calls that are submitted from now on wait for the next head.
        """
        self._lost = error
        self._losses += 1
        if self.held is not None:
            self.held.clear()
        nodes = [*self._nodes.values(), *(node for node in self._postponed if not node.finished)]
        self._postpones = postpones
        self._postponed.clear()
        self._nodes.clear()
        self._children.clear()
        self._ahead.clear()
        self._unheard.clear()
        self._far.clear()
        for node in nodes:
            if isinstance(node.record, Job):
                self._leases.ended(node.record, "lost")
            self._listener.failed(node, error)
        self._pump()

    def go_on(self, link: Link, values: RemoteValues) -> None:
        """Send calls to this head from now on, first the calls that waited for it. The head has no functions of this
        program yet. `values` are the values that stay at its workers.
        """
        self._link = link
        self.values = self._listener.values = values
        self._shipped.clear()
        self._lost, self._postpones = None, False
        postponed, self._postponed = self._postponed, []
        self.submit([node for node in postponed if not node.finished])
        self._pump()


class _SentJob(Job):
    """Job at a head elsewhere; the program has lost `losses` heads before that one."""

    __slots__ = ("losses",)

    def __init__(self, job: int, node: Node, losses: int) -> None:
        super().__init__(job, 0, node, NO_PARCEL)
        self.losses = losses


def _alike(call: JobCall) -> tuple[Request, int, bool]:
    """Return what all calls in one message have in common."""
    request, options = call.node.request, call.node.function.options
    assert request is not None
    return request, options.rank, options.isolate


def _nobody(_: Node) -> None:
    return None


def _submitted_before() -> None:
    """Stand-in for the function of an earlier program; it is never called here."""


class _CountingListener:
    """Counts outcomes on their way to the engine, and notifies readers of events."""

    def __init__(self, listener: OutcomeListener, counters: JobCounters, leases: RemoteLeases) -> None:
        self._listener = listener
        self._counters = counters
        self._leases = leases
        self.values: RemoteValues

    def succeeded(self, node: Node, value: object) -> None:
        self._counters.succeeded += not node.function.internal
        self._leases.told(node.record, "succeeded")
        self._listener.succeeded(node, value)

    def all_succeeded(self, nodes: Sequence[Node], values: Sequence[object]) -> None:
        for node, value in zip(nodes, values, strict=True):
            self.succeeded(node, value)

    def stayed(self, node: Node, job: int, size: int) -> None:
        self._counters.succeeded += not node.function.internal
        self._leases.told(node.record, "succeeded")
        if isinstance(node.record, Job):
            self.values.stayed(node.record, internal=node.function.internal)
        self._listener.stayed(node, job, size)

    def failed(self, node: Node, error: BaseException) -> None:
        if node.function.internal:
            if not isinstance(error, JobCancelledError):
                self._counters.internal_failed(node)
        elif isinstance(error, JobCancelledError):
            self._counters.cancelled += 1
        elif isinstance(error, JobTimeoutError):
            self._counters.timed_out += 1
        else:
            self._counters.failed += 1
        self._leases.told(node.record, outcome_of(error))
        if node.record is None:  # the call was never sent; a record tells it from calls that were never started
            node.record = Job(0, 0, None, NO_PARCEL)
        self._listener.failed(node, error)

"""Driver of the head's scheduler: passes events to it and its actions to the workers. It decides nothing.

Everything here is synchronous and runs in the owner's event loop: a batch of frames goes in, the scheduler returns
actions, messages are posted, outcomes are handed to the engine. Only the links, the listener and one alarm wait.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from grainlike.errors import JobCancelledError, ProtocolError
from grainlike.head._actions import ActionExecutor
from grainlike.head._cancellations import Cancellations
from grainlike.head._event_log import EventLog
from grainlike.head._history import JobHistory, calendar_ahead
from grainlike.head._logs import LogRouter, last_words
from grainlike.head._nested import RelayedJob, ReplyTo
from grainlike.head._peers import WorkerConnection, names_meant
from grainlike.head._program_values import ProgramValues
from grainlike.head._queries import HeadQueries
from grainlike.head._record_router import RecordRouter
from grainlike.head._results import ResultHandler, take_items
from grainlike.head._shared_memory import ObjectStore, drop_stored
from grainlike.head._state import HeadState
from grainlike.head._submit import JobFactory
from grainlike.head._validation import check_frames
from grainlike.head.values._mover import ValueMover
from grainlike.jobs import FirstOfChain, JobCounters, Observer, OutcomeListener, RepeatedArguments
from grainlike.net import Link
from grainlike.resources import Allocation, Request
from grainlike.scheduler import (
    HeadEvent,
    HeadScheduler,
    JobsCancelled,
    JobsCommitted,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    Ticked,
    WorkerDrained,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerReported,
    WorkerSuspected,
    WorkerTimed,
)
from grainlike.wire import (
    Beat,
    Blocked,
    Buffer,
    Credit,
    Depart,
    Evicted,
    Fetched,
    Follow,
    Frame,
    Halted,
    Hello,
    Items,
    Leaving,
    LoggedRecords,
    Numbered,
    Output,
    Parcel,
    Pulled,
    ReplicaCredit,
    ReplicaPart,
    Report,
    Stored,
    Submit,
    TimeLeft,
    Totals,
    Unsent,
    Withdraw,
    unpack_parcels,
)

if TYPE_CHECKING:
    from grainlike.engine import Fetcher
    from grainlike.graph import Function, Node, Options
    from grainlike.head._recorder import Recorder
    from grainlike.head.values._client_values import ClientValues

__all__ = ["Head", "OutcomeListener"]

logger = logging.getLogger("grainlike")

GOODBYE_S = 1.0
"""Seconds for which a closing head tries to send `Goodbye`."""


class Head:
    """Head: a scheduler, its workers, its live jobs. `alarm(at)` asks for a `tick` at that time on the clock `now`.

    `seed` determines all random choices, and large arguments are stored in `object_store`. Totals count from `opened`
    on that clock, else from now. `time.time()` is `ahead` of it.
    """

    def __init__(
        self,
        outcomes: OutcomeListener,
        *,
        closed: bool,
        alarm: Callable[[float], None],
        seed: int | None = None,
        now: Callable[[], float] = time.monotonic,
        ahead: Callable[[], float] = calendar_ahead,
        opened: float | None = None,
        object_store: ObjectStore | None = None,
    ) -> None:
        scheduler = HeadScheduler(closed=closed, seed=int.from_bytes(os.urandom(8), "little") if seed is None else seed)
        self.state: HeadState = HeadState(scheduler, self._tell, now() if opened is None else opened)
        self.logs: LogRouter = LogRouter(self._ask, self.state.next_listener)
        self.history: JobHistory = JobHistory(lambda: self.state.jobs, now, ahead=ahead, is_coroutine=self._is_async)
        self.object_store: ObjectStore = ObjectStore() if object_store is None else object_store
        self.values: ValueMover = ValueMover(self.state, self.object_store, self._tell)
        self.view: HeadQueries = HeadQueries(self.state, self.logs, self.history, now, self.values)
        self.records: RecordRouter = RecordRouter(self.state)
        self.observers: list[Observer] = []
        self._cancellations = Cancellations(self.state, self.history, self._tell)
        self._gathers, self._unplanned, self._noted_until = False, False, -math.inf
        self.counted: Callable[[int], None] | None = None
        """Called with the number of jobs that have not ended, whenever it may have changed."""
        self.recorder: Recorder | None = None
        """Recorder of what ran, if there is one; it is among the observers, too."""
        self._alarm, self._now = alarm, now
        self.program_values: ProgramValues = ProgramValues(self.state, self.history, self.values, self._tell)
        self.client_values: ClientValues = self.program_values.clients
        clients = self.client_values
        self._maker = JobFactory(self.state, self.object_store, outcomes)
        self._settling = ResultHandler(self.state, outcomes, self.observers, self.history, clients, self._tell, now)
        self._acting = ActionExecutor(
            self.state,
            self._settling,
            self.observers,
            self.object_store,
            self.logs,
            self.history,
            self.program_values,
            self.values,
            alarm,
        )

    def ask_pools(self, shortfall: Callable[[int], str | None]) -> Callable[[int, str], None]:
        """Have a function asked before jobs are warned of that no worker can run; see `ActionExecutor.ask_pools`."""
        return self._acting.ask_pools(shortfall)

    def keep_values(self, fetcher: Fetcher, *, shares: bool) -> None:
        """Have large values of this program's jobs stay at workers; `fetcher` brings those here that are needed. With
        `shares`, buffers that several calls have are values: for workers that share no memory with this process.
        """
        fetcher.source = self.program_values
        from grainlike.jobs import OwnArguments  # a head without a program has none

        self._maker.own, self._maker.shares = OwnArguments(fetcher), shares
        self.program_values.fetcher = self._maker.fetcher = fetcher
        self.state.functions.stays = True

    def _is_async(self, fn: int) -> bool:
        return self.state.functions.is_async(fn)  # of the present table: an image brings another

    @property
    def quiet(self) -> bool:
        """True when no job is anywhere, not even one that was cancelled and has not ended yet."""
        return not self.state.scheduler.jobs

    @property
    def peers(self) -> dict[int, WorkerConnection]:
        """The workers that are here, by number."""
        return self.state.peers

    @property
    def counters(self) -> JobCounters:
        """Counters of how jobs ended."""
        return self.state.counters

    def log_events(self) -> EventLog:
        """Return a log of all events from now on, beginning with the workers that are here."""
        self.history.listener = log = EventLog(self.view, self.history.origin, self._now)
        for peer in self.peers.values():
            log.joined(peer)
        self.observers.append(log)
        return log

    def totals(self) -> Totals:
        """Return how jobs have ended since this head was first started."""
        values, totals = self.values, self.counters.totals(self._now())
        return dataclasses.replace(totals, moved=values.moved, relayed=values.relayed, fetched=values.fetched)

    # --- from the engine ---------------------------------------------------------------------------------------------

    def submit(self, nodes: Sequence[Node]) -> None:
        """Submit nodes whose arguments are there as jobs. A call that cannot be pickled fails at once, alone."""
        try:
            if len(nodes) == 1 or not self._submit_alike(nodes):
                self._submit_each(nodes)
        finally:
            if self._maker.holds:
                self._maker.end_batch()

    def _submit_alike(self, nodes: Sequence[Node]) -> bool:
        """Submit calls of one function with one request, as most batches are, by the batch; return False for others."""
        # By the batch what `_submit_each` does call by call: through that a no-op job costs 3 Python calls more.
        if (made := self._maker.make_alike(nodes)) is None:
            return False
        jobs, ages, leading = made
        options, request = nodes[0].function.options, nodes[0].request
        assert request is not None
        numbers = [job.id for job in jobs]
        sizes = self._maker.take_sizes(numbers) if self._maker.sizes else []
        fns = [jobs[0].fn] * len(jobs)
        submitted = JobsSubmitted(request, numbers, fns, options.rank, options.isolate, ages=ages, sizes=sizes)
        if not leading:
            self._tell(submitted)
            return True
        with self.one_pass():  # those that may take others along go one by one
            self._tell(submitted)
            self._submit_each(leading)
        return True

    def _submit_each(self, nodes: Sequence[Node]) -> None:
        batches: dict[tuple[Request, int, bool], tuple[list[int], list[int]]] = {}
        alike: tuple[Request | None, Options | None] = (None, None)
        numbers: dict[Function, int] = {}
        repeated: list[RepeatedArguments] = []
        jobs: list[int] = []
        fns: list[int] = []
        aged = False
        for node in nodes:
            try:
                job = self._maker.make(node, numbers, repeated)
            except Exception as error:  # noqa: BLE001 - whatever the user's objects raise belongs to this job's awaiters
                self._maker.refuse(node, error)
                continue
            if job is None:
                continue
            options = node.function.options
            if alike[0] is not node.request or alike[1] is not options:  # one hash for a run of equal ones
                assert node.request is not None
                alike = node.request, options
                jobs, fns = batches.setdefault((node.request, options.rank, options.isolate), ([], []))
            jobs.append(job.id)
            aged = aged or node.age != job.id
            fns.append(job.runs if type(job) is FirstOfChain else job.fn)
        if self._maker.unshared:
            self._maker.share()
        if len(batches) > 1:
            with self.one_pass():
                self._submit_batches(batches, aged=aged)
        else:  # without a context manager: a single call is submitted alone
            self._submit_batches(batches, aged=aged)

    def _submit_batches(
        self, batches: Mapping[tuple[Request, int, bool], tuple[list[int], list[int]]], *, aged: bool
    ) -> None:
        for (request, priority, isolate), columns in batches.items():
            jobs, fns = columns
            if not all(map(self.state.jobs.__contains__, jobs)):
                jobs, fns = self._maker.live(jobs, fns)
            ages = self._maker.ages(jobs) if aged else []
            sizes = self._maker.take_sizes(jobs) if self._maker.sizes else []
            if jobs:
                inputs = self._maker.take_inputs(jobs) if self._maker.inputs else ()
                self._tell(JobsSubmitted(request, jobs, fns, priority, isolate, ages=ages, sizes=sizes, inputs=inputs))

    @contextmanager
    def one_pass(self) -> Iterator[None]:
        """Context manager: jobs that are submitted inside are planned together, at its end.

        Where each job has a request of its own, a pass for each would cost more than all else.
        """
        if self._gathers:
            yield
            return
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False
            if self._unplanned:
                self._unplanned = False
                self._tell(Ticked())

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Stop the jobs of nodes that are wanted no more; their awaiters have their outcome already."""
        self._cancellations.cancel(nodes, skipped=skipped)

    def cancel_nested(self, number: int) -> bool:
        """Cancel a job that another job, or a client, submitted, and notify its submitter; return False where this is
        none.
        """
        job = self.state.jobs.get(number)
        if not isinstance(job, RelayedJob):
            return False
        del self.state.jobs[number]
        self.counters.unwanted(skipped=False, internal=job.fn in self.state.functions.internal)
        job.stopped(self._now())
        self.history.unwanted([job])
        self.state.nested.ended_by(job, JobCancelledError(f"{job.name} was cancelled by an operator"))
        self._tell(JobsCancelled([number]))
        return True

    # --- from workers ------------------------------------------------------------------------------------------------

    def join(
        self, hello: Hello, offer: Allocation, name: str, link: Link, welcome: Callable[[], object] | None = None
    ) -> WorkerConnection:
        """Add an authenticated worker, with its offer, under a free name. `welcome` sends it the first message."""
        peer = WorkerConnection(self.state.next_peer(), name, link, hello, offer, time.monotonic())
        if welcome is not None:
            welcome()
        self.peers[peer.number] = peer
        self.history.joined(peer.name)
        for observer in self.observers:
            observer.joined(peer)
        self._tell(WorkerJoined(peer.number, peer.name, peer.offer, *peer.means))
        return peer

    def now(self) -> float:
        """Return the moment, on its own clock."""
        return self._now()

    def free_name(self, name: str) -> str:
        """Two workers of one name are two workers: the second gets a number."""
        taken = {peer.name for peer in self.peers.values()}
        names: Iterator[str] = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)

    def incarnation(self, incarnation: str) -> WorkerConnection | None:
        """Return the worker that introduced itself so, if it has not been given up."""
        return next((peer for peer in self.peers.values() if peer.hello.incarnation == incarnation), None)

    def suspect(self, peer: WorkerConnection, why: str, *, broke: bool) -> None:
        """Mark a worker suspect, as its link has broken or it is silent: it gets no more jobs until it sends
        something.
        """
        if peer.number in self.peers and not peer.suspect:
            peer.suspect = why
            for observer in self.observers:
                observer.suspected(peer, why)
            if broke:
                self.values.broke(peer)
            self._tell(WorkerSuspected(peer.number, broke))

    def heard(self, peer: WorkerConnection) -> None:
        """Record a sign of life, and end the worker's suspect state."""
        peer.heard = time.monotonic()
        if peer.suspect:
            peer.suspect = ""
            for observer in self.observers:
                observer.suspected(peer, "")
            self._tell(WorkerHeard(peer.number))

    def release(self, patterns: Sequence[str], *, kill: bool) -> list[str]:
        """Ask workers whose names match to exit when their jobs have ended; with `kill`, their jobs run elsewhere.
        The embedded worker of a program is left out.
        """
        peers = [peer for peer in self.peers.values() if peer.session is not None]
        names = names_meant([peer.name for peer in peers], patterns)
        meant = [peer for peer in peers if peer.name in names]
        if meant:
            self.send_off([peer.number for peer in meant], kill=kill)
        return [peer.name for peer in meant]

    def send_off(self, workers: Sequence[int], *, kill: bool) -> None:
        """Ask these workers to exit."""
        for peer in map(self.peers.__getitem__, workers):
            logger.info("worker %s was asked to end%s", peer.name, ", and its jobs" if kill else " when its jobs have")
            self._tell(WorkerDrained(peer.number))  # which is told to go when it may: `ReleaseWorker`
            if kill:
                peer.post(Depart(kill))

    def tell_time_left(self, worker: int, left_s: float, grace_s: float) -> None:
        """Let a worker stop in `left_s` seconds, with `grace_s` for what then runs; no job starts there that needs
        longer. The same worker may be told again: its batch job was extended, or cut.
        """
        self._tell(WorkerTimed(worker, left_s))
        self.peers[worker].post(TimeLeft(left_s, grace_s))

    async def send_goodbye(self) -> None:
        """Send `Goodbye` to all workers: no more messages come, and reconnecting is of no use."""
        for peer in self.peers.values():
            peer.say_goodbye("it has closed")
        with anyio.move_on_after(GOODBYE_S):
            for peer in list(self.peers.values()):
                await peer.link.drain()

    def leave(self, peer: WorkerConnection, reason: str) -> None:
        """Remove a worker that is lost; its jobs are tried elsewhere."""
        if self.peers.pop(peer.number, None) is not None:
            self.logs.left(peer)
            self.history.left(peer.name)
            self.records.left(peer)
            for observer in self.observers:
                observer.left(peer)
            held = self.client_values.at(peer.number)
            self._acting.ends.lost = reason
            self._tell(WorkerLost(peer.number, reason))
            self._acting.ends.lost = ""
            self.values.left(peer)
            self.client_values.tell_where(held)

    def hear(self, peer: WorkerConnection, frames: Sequence[Frame]) -> None:
        """Handle the frames of one read of a worker's link."""
        if peer.suspect:
            self.heard(peer)
        else:
            peer.heard = time.monotonic()
        fresh = frames if peer.session is None else peer.session.hear(frames)
        if peer.session is not None:  # not of the worker in this program; its jobs may call what was dropped meanwhile
            check_frames(fresh, self.state.scheduler.shapes, None)
        if fresh:
            self._take(peer, fresh)

    def check_frames(self, frames: Sequence[Frame], client: int) -> None:
        """Raise `ProtocolError` unless all of these messages of a client are valid; none has been acted on."""
        check_frames(frames, self.state.scheduler.shapes, self.state.functions.owned_by(client))

    def _take(self, peer: WorkerConnection, frames: Iterable[Frame]) -> None:
        """Handle messages of a worker, each once, however often its link broke."""
        for message, buffers in frames:
            match message:
                case Report():
                    self._report(peer, message, buffers)
                case Beat():
                    peer.beats += 1
                case Items():
                    if take_items(peer, self.state.jobs.get(message.job), message, buffers):
                        self._tell(JobsCommitted([message.job]))
                case Output():
                    self._output(peer, message)
                case LoggedRecords():
                    self.records.hear(peer, message)
                case Blocked() | Halted():
                    self.view.hear_stalled(peer, message)
                case Submit() if self._may_submit(peer, message):
                    self.state.nested.submit(peer, message, buffers)
                case Withdraw():
                    self.withdraw_for(peer, message)
                case ReplicaPart() | ReplicaCredit() | Fetched() | Unsent() | Pulled() | Stored() | Evicted():
                    self.values.hear(peer, message, buffers)
                case Leaving():
                    logger.info("worker %s is leaving: %s", peer.name, message.reason)
                    peer.leaving = True
                    self._tell(WorkerLeaving(peer.number))
                case _:
                    logger.warning("worker %s sent %s, which workers do not send", peer.name, type(message).__name__)

    def _may_submit(self, peer: WorkerConnection, message: Submit) -> bool:
        """Return True if a submission comes from a job that is live or has just ended; a worker submits nothing of
        its own.
        """
        worker_state = self.state.scheduler.jobs.get(message.parent)
        return message.parent > 0 and (worker_state is None or worker_state.worker == peer.number)

    def _ask(self, peer: WorkerConnection, follow: Follow) -> None:
        """Subscribe at a worker to the output of a job, or unsubscribe."""
        peer.ask_for_output(follow)

    def _output(self, peer: WorkerConnection, output: Output) -> None:
        if not output.last_words:
            self.logs.hear(peer, output)
            return
        job = self.state.jobs.get(output.job)
        if job is not None and job.attempt == output.attempt and (placement := job.own_placement()) is not None:
            placement.last_words = last_words(output)

    def _report(self, peer: WorkerConnection, report: Report, buffers: Sequence[Buffer]) -> None:
        peer.skew = skew = peer.skew_by(self._now() - report.sent_at, monotonic=self._now is time.monotonic)
        for observer in self.observers:
            observer.reported(peer, report)
        parcels: dict[int, list[Parcel]] = {}
        at = 0
        for completed in report.completed:
            count = sum(completed.counts)
            parcels[id(completed)] = unpack_parcels(completed.data, completed.counts, buffers[at : at + count])
            at += count
            if completed.receipt is not None:
                peer.receipts[completed.lease] = completed.receipt
        ends = self._acting.ends
        ends.report, ends.parcels, ends.skew, ends.rows = report, parcels, skew, None
        event = WorkerReported(peer.number, report.started, report.completed, report.ended, report.waits)
        self._cancellations.held = True
        try:
            for action in self.state.scheduler.handle(event, self._now()):
                if type(action) is JobsSettled:  # not by `isinstance`, which takes long to say no
                    self._settling.settle(peer, action.completed, action.rows, parcels[id(action.completed)], skew)
                elif type(action) is JobsStarted:
                    self._acting.started(action, skew)
                else:
                    self._acting.act(action)
        finally:
            self._cancellations.held = False
        ends.report, ends.parcels, ends.rows = None, {}, None
        if self._cancellations.put_off:
            self._cancellations.release()
        if self.state.scheduler.late and not self.state.told_late:
            self.state.told_late = True
            logger.warning("worker %s answered for attempts that count no more; such answers are dropped", peer.name)
        if self.state.nested.outbox:
            self.history.unwanted(self.state.nested.flush(), skipped=True)
        self._acting.drop_functions(self._now())
        if self.values.answers:
            self.values.flush()
        if parcels and self.object_store.open:
            drop_stored(parcels.values())
        for lease in report.ended:
            peer.receipts.pop(lease, None)
        if self.counted is not None:
            self.counted(len(self.state.scheduler.jobs))

    # --- from clients ------------------------------------------------------------------------------------------------

    def submit_for(
        self, reply_to: ReplyTo, message: Submit, buffers: Sequence[Buffer], paths: tuple[str, ...], owner: int
    ) -> None:
        """Submit jobs for client `owner`, and send it their numbers."""
        if message.parent or message.attempt:
            raise ProtocolError("a client submits for itself, and not for a job")
        jobs = self.state.nested.submit(reply_to, message, buffers, reply_to.number, paths, owner)
        reply_to.post(Numbered(message.children, jobs))
        self.history.unwanted(self.state.nested.flush(), skipped=True)
        self._acting.drop_functions(self._now())

    def refuse_for(
        self,
        reply_to: ReplyTo,
        message: Submit,
        buffers: Sequence[Buffer],
        paths: tuple[str, ...],
        owner: int,
        error: Exception,
    ) -> None:
        """Refuse the jobs of client `owner`, and send it the reason."""
        self.state.nested.refuse(reply_to, message, buffers, paths, owner, error)
        self.state.nested.flush()

    def withdraw_for(self, reply_to: ReplyTo, message: Withdraw) -> None:
        """A client does not want some of its own any more."""
        self.history.unwanted(self.state.nested.withdraw(reply_to, message), skipped=message.skipped)

    def credit_for(self, reply_to: ReplyTo, message: Credit) -> None:
        """Pass on that the reader of a client's stream took items: its worker may send as many more.

        Raises:
            ProtocolError: it took more than was sent.
        """
        credit = self.state.nested.credit(reply_to, message)
        runs = None if credit is None else self.state.scheduler.jobs.get(credit.job)
        peer = None if runs is None or runs.worker is None else self.peers.get(runs.worker)
        if credit is not None and peer is not None:
            peer.post(credit)

    def withdraw_streams(self, reply_to: ReplyTo) -> list[int]:
        """Cancel the streams of a session whose program has left; return the numbers that it gave them."""
        gone = self.state.nested.withdraw_streams(reply_to)
        self.history.unwanted(gone)
        return [job.child for job in gone]

    def withdraw_all(self, reply_to: ReplyTo) -> None:
        """Cancel everything that a client which has left submitted, and release its values."""
        self.history.unwanted(self.state.nested.withdraw_all(reply_to))
        self.client_values.leave(reply_to)

    def release_for(self, owner: int, digests: Sequence[bytes] | None = None) -> None:
        """Release functions of a client: these digests, or all if None."""
        self.state.functions.release((owner, 0), digests)
        self._acting.drop_functions(self._now())

    # --- what the scheduler says -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Pass the moment of the last alarm to the scheduler."""
        self._tell(Ticked())

    def _tell(self, event: HeadEvent) -> None:
        now = self._now()
        if type(event) is JobsSubmitted:
            if now >= self._noted_until:
                self._noted_until = self.history.submitted(event.jobs[0], now)
            if event.client or event.parent[0]:
                self.history.requested(event.jobs[0], event.request)
            if self.history.listener is not None:
                self.history.listener.submitted(event, now)
            if self._gathers:
                event, self._unplanned = replace(event, more=True), True
        cancellations = self._cancellations
        outer, cancellations.held = cancellations.held, True
        try:
            for action in self.state.scheduler.handle(event, now):
                self._acting.act(action)
        finally:
            cancellations.held = outer
        if cancellations.put_off and not outer:
            cancellations.release()
        if self.state.nested.outbox:
            self.history.unwanted(self.state.nested.flush(), skipped=True)
        if self.values.answers:
            self.values.flush()
        if self._settling.revived:
            self._settling.tell_revived(now)
        if self.counted is not None:
            self.counted(len(self.state.scheduler.jobs))

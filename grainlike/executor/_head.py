"""The body of the head: carries events to the mind and its actions to the workers. It decides nothing.

Everything here is synchronous and runs in the home's event loop: a batch of frames goes in, the mind answers, messages
are posted, outcomes are handed to the engine. Waiting is for the links, the door and one alarm.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from msgspec.structs import replace

from grainlike.errors import JobCancelledError, JobTimeoutError, ProtocolError, UnsatisfiableError, WorkerLostError
from grainlike.executor._chains import chain_behind, follower_of, outcomes_of
from grainlike.executor._depot import Depot, with_buffers
from grainlike.executor._functions import Functions
from grainlike.executor._inflow import take_items
from grainlike.executor._job import NO_PARCEL, FirstOfChain, Job, Placement
from grainlike.executor._local import LocalCall
from grainlike.executor._logs import EndedJob, LogLine, Logs, last_words, source_of
from grainlike.executor._nested import Home, NestedJob, NestedJobs
from grainlike.executor._observer import Observer
from grainlike.executor._slices import slices
from grainlike.executor._tally import Tally
from grainlike.executor._workers import Peer, WorkerInfo
from grainlike.graph import Function, Node, Options, Place, State
from grainlike.net import Link
from grainlike.payload import (
    MARK,
    Payload,
    drop,
    dump_arguments,
    dump_plain_arguments,
    is_stored,
    load_error,
    load_value,
)
from grainlike.resources import EMPTY, Allocation, Missing, Request
from grainlike.scheduler import (
    AssembleGang,
    AssignJobs,
    CancelJobs,
    Deadlock,
    Explanation,
    FunctionTimed,
    HeadAction,
    HeadEvent,
    HeadMind,
    JobBook,
    JobsBackedOff,
    JobsCancelled,
    JobsCommitted,
    JobsDeadlocked,
    JobsLost,
    JobsMoved,
    JobsOrphaned,
    JobsPending,
    JobsRequeued,
    JobsSettled,
    JobsStarted,
    JobsSubmitted,
    JobState,
    JobsUnsatisfiable,
    RetractJobs,
    Ticked,
    WakeAt,
    WorkerDrained,
    WorkerHeard,
    WorkerJoined,
    WorkerLeaving,
    WorkerLost,
    WorkerQuarantined,
    WorkerReleased,
    WorkerReported,
    WorkerSuspected,
)
from grainlike.wire import (
    Assign,
    Beat,
    Began,
    Blocked,
    Buffer,
    Cancel,
    ClassSpec,
    Code,
    Completed,
    Depart,
    Follow,
    Frame,
    Gang,
    Goodbye,
    Hello,
    Hold,
    Items,
    JobRow,
    Leaving,
    Nested,
    NodeSpec,
    Numbered,
    Output,
    Parcel,
    Report,
    Retract,
    Warned,
    Withdraw,
    pack_parcels,
    plain_column,
    unpack_parcels,
)

if TYPE_CHECKING:
    from grainlike.executor._recorder import Recorder

__all__ = ["Head", "Outcomes"]

logger = logging.getLogger("grainlike")

_MARKED = MARK[:1]

_CODES = tuple(Code)
"""By number: an enumeration's own look-up costs more than all else that is done with an outcome's code."""

FAREWELL_S = 1.0
"""How long a head that closes tries to say goodbye."""

_STATES = {
    JobState.QUEUED: "queued",
    JobState.PLANNED: "assigned",
    JobState.AHEAD: "assigned",
    JobState.LEASED: "running",
    JobState.BACKOFF: "backoff",
}

_LAYOUT = "the amounts are there, but on no worker in the layout that is asked for (see pack=)"


def _refusal(missing: Missing | None, peers: Iterable[Peer]) -> str:
    """Why nobody will ever give it, where nobody else can come; of what is not offered at all, what is."""
    if missing is None:
        return _LAYOUT
    offers = " and ".join(str(peer.offer) for peer in peers)
    return f"{missing}; all that is offered here is {offers}" if missing.absent and offers else str(missing)


class Outcomes(Protocol):
    """Who hears how jobs ended; the engine. It only takes note: what follows is done after the mind's actions are."""

    def succeeded(self, node: Node, value: object) -> None:
        """A job gave a value."""

    def failed(self, node: Node, error: BaseException) -> None:
        """A job will give no value."""


class Head:
    """One head: a mind, its workers, its live jobs. `alarm(at)` asks for a `tick` at that time on the clock `now`.

    `seed` decides all chance.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        *,
        closed: bool,
        alarm: Callable[[float], None],
        seed: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.peers: dict[int, Peer] = {}
        self.logs = Logs(self._ask)
        self.observers: list[Observer] = []
        self.counted: Callable[[int], None] | None = None
        """Hears how many jobs have not ended, whenever that may have changed."""
        self.recorder: Recorder | None = None
        """Who keeps what ran, if anybody does; it is among the observers, too."""
        self.tally = Tally()
        self.depot = Depot()
        self._mind = HeadMind(closed=closed, seed=secrets.randbits(64) if seed is None else seed)
        self._outcomes = outcomes
        self._alarm = alarm
        self._now = now
        self._functions = Functions(self._tell)
        self._jobs: dict[int, Job] = {}
        self._last_job = 0
        self._last_peer = 0
        self._told_late = False
        self._nested = NestedJobs(self._jobs, self._functions, self._next, self._tell, self.tally)

    @property
    def quiet(self) -> bool:
        """True when no job is anywhere, not even one that was cancelled and has not ended yet."""
        return not self._mind.jobs

    def workers(self) -> list[WorkerInfo]:
        """The workers that are here, in the order in which they came."""
        now = time.monotonic()
        mind = self._mind
        return [peer.info(now, mind.running(peer.number), mind.why_shut(peer.number)) for peer in self.peers.values()]

    def explain(self, node: Node) -> Explanation:
        """Where a placeholder stands and what it waits for."""
        request = node.request if node.request is not None else EMPTY
        if node.finished or node.state is State.LAZY:
            return Explanation(0, node.state.label, 0, request)
        waiting = tuple(dep.function.name for dep in node.deps if not dep.finished)
        if waiting:
            return Explanation(0, "inputs", 0, request, inputs=waiting)
        job = node.record
        if isinstance(job, LocalCall) and job.again_at is not None:
            wait, most = max(0.0, job.again_at - time.monotonic()), 1 + node.function.options.retry.times
            return Explanation(0, "local", job.attempt + 1, request, "backoff", starts_in_s=wait, attempts=most)
        if not isinstance(job, Job):
            return Explanation(0, "opening" if node.place is Place.REMOTE else "local", 0, request)
        found = self._mind.explain(job.job, self._now())
        placement = job.placement
        if found is not None and placement is not None and placement.blocks_since is not None:
            found = replace(found, blocked_s=self._now() - placement.blocks_since)
        return found if found is not None else Explanation(job.job, node.state.label, job.attempt, request)

    # --- about jobs by number ----------------------------------------------------------------------------------------

    @property
    def unended(self) -> int:
        """How many jobs have not ended."""
        return len(self._mind.jobs)

    @property
    def has_had_jobs(self) -> bool:
        """Whether there was ever one."""
        return self._last_job > 0

    def rows(self, most: int | None) -> list[JobRow]:
        """The oldest jobs that have not ended, at most so many."""
        now = self._now()
        return [self._row(book, now) for book in self._mind.oldest(most)]

    def states(self) -> dict[str, int]:
        """How many jobs are in which state, of those that have not ended."""
        cancelled = sum(book.cancelled for book in self._mind.jobs.values())
        counts = Counter(book.state for book in self._mind.jobs.values() if not book.cancelled)
        named = Counter({"stopping": cancelled} if cancelled else {})
        for state, count in counts.items():
            named[_STATES[state]] += count
        return dict(sorted(named.items()))

    def _row(self, book: JobBook, now: float) -> JobRow:
        job = self._jobs.get(book.job)
        began = None if job is None else job.began
        peer = self.peers.get(book.worker)
        return JobRow(
            book.job,
            self.name_of(book.job),
            "stopping" if book.cancelled else _STATES[book.state],
            str(book.cls.request),
            book.cls.priority,
            book.cls.client,
            book.attempt,
            "" if peer is None else peer.name,
            "" if job is None else job.slots or "",
            None if began is None else now - began,
        )

    def name_of(self, number: int) -> str:
        """What a job is called: its function's name. One that was cancelled has none any more."""
        job = self._jobs.get(number)
        return "" if job is None else _name(job)

    def home_of(self, number: int) -> tuple[Home | None, int]:
        """To whom a job goes back that came over a link, and what it is called there."""
        job = self._jobs.get(number)
        return (job.home, job.child) if isinstance(job, NestedJob) else (None, 0)

    @property
    def last_job(self) -> int:
        """The highest number that a job has had."""
        return self._last_job

    def explain_job(self, number: int) -> Explanation | None:
        """Where a job stands and what it waits for; None for one that has ended, or never was."""
        return self._mind.explain(number, self._now())

    def logs_of(self, number: int, *, follow: bool) -> AsyncGenerator[LogLine, None] | None:
        """What a job has written, and writes; None for one that never was."""
        job = self._jobs.get(number)
        if job is None and not 0 < number <= self._last_job:
            return None
        peers = self.peers.values()
        return self.logs.lines(EndedJob(number, peers) if job is None else source_of(job), peers, follow=follow)

    def node_of(self, number: int) -> Node | None:
        """The placeholder of the program's own whose job this is."""
        job = self._jobs.get(number)
        return None if job is None else job.node

    def cancel_nested(self, number: int) -> bool:
        """Cancel a job that another job, or a client, submitted, and tell it so; False where this is none."""
        job = self._jobs.get(number)
        if not isinstance(job, NestedJob):
            return False
        del self._jobs[number]
        self.tally.cancelled += 1
        job.stopped(self._now())
        self._nested.ended_by(job, JobCancelledError(f"{job.name} was cancelled by an operator"))
        self._tell(JobsCancelled([number]))
        return True

    def job(self, number: int, attempt: int) -> Job | None:
        """What is known of a job while it lives and this is its attempt."""
        job = self._jobs.get(number)
        return job if job is not None and job.attempt == attempt else None

    def assembles(self, number: int) -> bool:
        """Whether slots are held for this job on several workers, and it waits for more."""
        return self._mind.assembles(number)

    def refusal(self, request: Request) -> str | None:
        """Why no job that asks for this would ever run, with the workers that are here; None if one may."""
        if not self._mind.closed or self._mind.fits_somebody(request):
            return None
        return _refusal(self._mind.why_never(request), self.peers.values())

    # --- from the engine ---------------------------------------------------------------------------------------------

    def submit(self, nodes: Iterable[Node]) -> None:
        """Make jobs of nodes whose arguments are there. What cannot travel fails at once, alone."""
        batches: dict[tuple[Request, int, bool], tuple[list[int], list[int]]] = {}
        alike: tuple[Request | None, Options | None] = (None, None)
        numbers: dict[Function, int] = {}
        jobs: list[int] = []
        fns: list[int] = []
        for node in nodes:
            job = self._make_job(node, numbers)
            if job is not None:
                options = node.function.options
                if alike[0] is not node.request or alike[1] is not options:  # to hash a request for each job is dear
                    assert node.request is not None
                    alike = node.request, options
                    jobs, fns = batches.setdefault((node.request, options.rank, options.isolate), ([], []))
                jobs.append(job.job)
                fns.append(job.runs if type(job) is FirstOfChain else job.fn)
        for (request, priority, isolate), (jobs, fns) in batches.items():
            self._tell(JobsSubmitted(request, jobs, fns, priority, isolate))

    def _make_job(self, node: Node, numbers: dict[Function, int]) -> Job | None:
        """`numbers` are those of functions in this batch: that they have not changed is asked once for all its jobs."""
        try:
            fn = numbers.get(node.function)
            if fn is None:
                fn = numbers[node.function] = self._functions.number(node.function)
            args, kwargs = node.take_arguments()
            data = None if kwargs else dump_plain_arguments(args)
            parcel = self._packed(node, args, kwargs) if data is None else (data, ())
        except Exception as error:  # noqa: BLE001 - whatever the user's objects raise belongs to this job's awaiters
            self._outcomes.failed(node, error)
            self.tally.failed += 1
            # It was never a job, and is told from one that was never to be made.
            node.record = Job(0, 0, None, NO_PARCEL)
            return None
        self._last_job = number = self._last_job + 1
        follower = None if node.dependents is None else follower_of(node)
        first = None if follower is None else self._first_of_chain(number, fn, node, follower, parcel, numbers)
        job = self._jobs[number] = node.record = Job(number, fn, node, parcel) if first is None else first
        return job

    def _packed(self, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Parcel:
        payload = dump_arguments(args, kwargs, what=node.function.name)
        if payload.buffers:
            payload = self.depot.keep(payload, f"a{self._last_job + 1}")
        return bytes(payload.data), payload.buffers

    def _next(self) -> int:
        self._last_job += 1
        return self._last_job

    def _first_of_chain(
        self, job: int, fn: int, node: Node, follower: Node, parcel: Parcel, numbers: dict[Function, int]
    ) -> FirstOfChain | None:
        """A job that takes along the calls that wait for its value alone, `follower` first; None where none may."""
        data, buffers = parcel
        if buffers or is_stored(data):
            return None

        def number(function: Function) -> int:
            known = numbers.get(function)
            if known is None:
                known = numbers[function] = self._functions.number(function)
            return known

        behind = chain_behind(node, follower, self._mind.pace, number, fn)
        if not behind:
            return None
        followers: list[Job] = []
        functions = {fn: self._functions.shipment(fn)[1]}
        links = [(fn, job, node.function.name, data)]
        for follower, its, data in behind:
            link = Job(self._next(), its, follower, NO_PARCEL)
            follower.record = link
            followers.append(link)
            functions[its] = self._functions.shipment(its)[1]
            links.append((its, link.job, follower.function.name, data))
        payload = dump_arguments((functions, links), {}, what="a chain")
        runs = self._functions.chain(is_async=node.function.is_async)
        return FirstOfChain(job, fn, node, (bytes(payload.data), payload.buffers), runs, followers)

    def cancel(self, nodes: Iterable[Node], *, skipped: bool = False) -> None:
        """Stop the jobs of nodes that nobody wants; their awaiters have had their answer."""
        numbers: list[int] = []
        for node in nodes:
            job = node.record
            if isinstance(job, Job) and self._jobs.pop(job.job, None) is not None:
                job.close()
                numbers.append(job.job)
                self.tally.unwanted(skipped=skipped and job.began is None)
            elif job is None or (isinstance(job, Job) and job.node is not None):  # never sent, or along with another
                self.tally.unwanted(skipped=skipped)
        if numbers:
            self._tell(JobsCancelled(numbers))

    # --- from workers ------------------------------------------------------------------------------------------------

    def join(self, hello: Hello, offer: Allocation, name: str, link: Link) -> Peer:
        """Take in a worker that has proved itself, with what it offers, under a free name."""
        peer = Peer(self.next_peer(), name, link, hello, offer, time.monotonic())
        self.peers[peer.number] = peer
        for observer in self.observers:
            observer.joined(peer)
        self._tell(WorkerJoined(peer.number, peer.name, peer.offer))
        return peer

    def now(self) -> float:
        """The moment, on its own clock."""
        return self._now()

    @property
    def last_peer(self) -> int:
        """The number of whoever came last."""
        return self._last_peer

    def next_peer(self) -> int:
        """A number for whoever comes next: workers and clients have them from one series."""
        self._last_peer += 1
        return self._last_peer

    def free_name(self, name: str) -> str:
        """Two workers of one name are two workers: the second gets a number."""
        taken = {peer.name for peer in self.peers.values()}
        names: Iterator[str] = (name if n == 1 else f"{name}-{n}" for n in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)

    def incarnation(self, incarnation: str) -> Peer | None:
        """The worker that introduced itself so, if it has not been given up."""
        return next((peer for peer in self.peers.values() if peer.hello.incarnation == incarnation), None)

    def suspect(self, peer: Peer, why: str, *, broke: bool) -> None:
        """A worker's link has broken, or it is silent: it gets no more jobs until it is heard again."""
        if peer.number in self.peers and not peer.suspect:
            peer.suspect = why
            for observer in self.observers:
                observer.suspected(peer, why)
            self._tell(WorkerSuspected(peer.number, broke))

    def heard(self, peer: Peer) -> None:
        """It is there."""
        peer.heard = time.monotonic()
        if peer.suspect:
            peer.suspect = ""
            for observer in self.observers:
                observer.suspected(peer, "")
            self._tell(WorkerHeard(peer.number))

    def _quarantined(self, peer: Peer, why: str) -> None:
        """A worker that fails again and again gets nothing new for a while; without `why`, that is over."""
        if why:
            logger.warning("worker %s gets no jobs for now: %s", peer.name, why)
        for observer in self.observers:
            observer.quarantined(peer, why)

    def let_go(self, patterns: Sequence[str], *, kill: bool) -> list[str]:
        """Let the workers go whose names match, when their jobs have ended; with `kill`, their jobs run elsewhere. The
        worker inside a program belongs to that, and is not meant.
        """
        peers = [peer for peer in self.peers.values() if peer.session is not None]
        meant = [peer for peer in peers if any(fnmatchcase(peer.name, pattern) for pattern in patterns)]
        if meant:
            self.send_off([peer.number for peer in meant], kill=kill)
        return [peer.name for peer in meant]

    def send_off(self, workers: Sequence[int], *, kill: bool) -> None:
        """Ask these workers to end."""
        for peer in map(self.peers.__getitem__, workers):
            logger.info("worker %s was asked to end%s", peer.name, ", and its jobs" if kill else " when its jobs have")
            self._tell(WorkerDrained(peer.number))
            peer.post(Depart(kill))

    def wanted(self, offer: Allocation, most: int, within_s: float) -> int:
        """How many more workers with this offer would help now."""
        return self._mind.wanted(offer, most, within_s)

    async def farewell(self) -> None:
        """Tell all workers that nothing more will come, and that there is nobody to dial to."""
        for peer in self.peers.values():
            if peer.session is not None:
                peer.post(Goodbye("it has closed"))
        with anyio.move_on_after(FAREWELL_S):
            for peer in list(self.peers.values()):
                await peer.link.drain()

    def leave(self, peer: Peer, reason: str) -> None:
        """A worker is gone; what it held is tried elsewhere."""
        if self.peers.pop(peer.number, None) is not None:
            self.logs.left(peer)
            for observer in self.observers:
                observer.left(peer)
            self._tell(WorkerLost(peer.number, reason))

    def hear(self, peer: Peer, frames: Sequence[Frame]) -> None:
        """Take what one read of a worker's link brought."""
        self.heard(peer)
        fresh = frames if peer.session is None else peer.session.hear(frames)
        if fresh:
            self._take(peer, fresh)

    def _take(self, peer: Peer, frames: Sequence[Frame]) -> None:
        """Do what follows from what a worker says, once for each message, however often its link broke."""
        for message, buffers in frames:
            match message:
                case Report():
                    self._report(peer, message, buffers)
                case Beat():
                    peer.beats += 1
                case Items():
                    if take_items(peer, self._jobs.get(message.job), message, buffers):
                        self._tell(JobsCommitted([message.job]))
                case Output():
                    self._output(peer, message)
                case Blocked():
                    self._blocked(peer, message)
                case Nested() if self._may_submit(peer, message):
                    self._nested.submit(peer, message, buffers)
                case Withdraw():
                    self._nested.withdraw(peer, message)
                case Leaving():
                    logger.info("worker %s is leaving: %s", peer.name, message.reason)
                    peer.leaving = True
                    self._tell(WorkerLeaving(peer.number))
                case _:
                    logger.warning("worker %s sent %s, which workers do not send", peer.name, type(message).__name__)

    def _may_submit(self, peer: Peer, message: Nested) -> bool:
        """Whether it comes from a job that is there, or has just ended; a worker submits nothing of its own."""
        book = self._mind.jobs.get(message.parent)
        return message.parent > 0 and (book is None or book.worker == peer.number)

    def _ask(self, peer: Peer, follow: Follow) -> None:
        """Ask a worker for what a job of its writes, or for no more of it."""
        peer.post(follow)

    def _output(self, peer: Peer, output: Output) -> None:
        if not output.last_words:
            self.logs.hear(peer, output)
            return
        job = self._jobs.get(output.job)
        if job is not None and job.placement is not None and job.placement.attempt == output.attempt:
            job.placement.last_words = last_words(output)

    def _blocked(self, peer: Peer, message: Blocked) -> None:
        job = self._jobs.get(message.job)
        placement = None if job is None else job.placement
        if job is None or placement is None or placement.worker != peer.name:
            return
        name = job.node.function.name if job.node is not None else "a job"
        if message.seconds:
            placement.blocks_since = self._now() - message.seconds
            words = "job %d, %s, has blocked the event loop of the coroutines on worker %s for %g s:\n%s"
            logger.warning(words, job.job, name, peer.name, message.seconds, message.stack)
        else:
            placement.blocks_since = None
            logger.info("job %d, %s, no longer blocks the event loop on worker %s", job.job, name, peer.name)

    def _report(self, peer: Peer, report: Report, buffers: Sequence[Buffer]) -> None:
        peer.skew = skew = self._now() - report.sent_at
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
        event = WorkerReported(peer.number, report.started, report.completed, report.ended, report.waits)
        for action in self._mind.handle(event, self._now()):
            if isinstance(action, JobsSettled):
                self._settle(peer, action.completed, action.rows, parcels[id(action.completed)], skew)
            elif isinstance(action, JobsStarted):
                self._started(action, skew)
            else:
                self._act(action)
        if self._mind.late and not self._told_late:
            self._told_late = True
            logger.warning(
                "worker %s answered for attempts that count no more; that and more of it is dropped", peer.name
            )
        if self._nested.outbox:
            self._nested.flush()
        if self.depot.open:
            _drop_stored(parcels.values())
        for lease in report.ended:
            peer.receipts.pop(lease, None)
        if self.counted is not None:
            self.counted(len(self._mind.jobs))

    # --- from clients ------------------------------------------------------------------------------------------------

    def submit_for(self, home: Home, message: Nested, buffers: Sequence[Buffer], paths: tuple[str, ...]) -> None:
        """Make jobs of what a client wants to be run, and tell it their numbers."""
        if message.parent or message.attempt:
            raise ProtocolError("a client submits for itself, and not for a job")
        jobs = self._nested.submit(home, message, buffers, home.number, paths)
        home.post(Numbered(message.children, jobs))
        self._nested.flush()

    def refuse_for(
        self, home: Home, message: Nested, buffers: Sequence[Buffer], paths: tuple[str, ...], error: Exception
    ) -> None:
        """Make no jobs of what a client wants, and tell it why."""
        self._nested.refuse(home, message, buffers, paths, error)
        self._nested.flush()

    def withdraw_for(self, home: Home, message: Withdraw) -> None:
        """A client does not want some of its own any more."""
        self._nested.withdraw(home, message)

    def withdraw_all(self, home: Home) -> None:
        """A client is gone: what it wanted is cancelled."""
        self._nested.withdraw_all(home)

    # --- what the mind says ------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """The moment of the last alarm has come."""
        self._tell(Ticked())

    def _tell(self, event: HeadEvent) -> None:
        for action in self._mind.handle(event, self._now()):
            self._act(action)
        if self._nested.outbox:
            self._nested.flush()
        if self.counted is not None:
            self.counted(len(self._mind.jobs))

    def _act(self, action: HeadAction) -> None:
        match action:
            case AssembleGang():
                self._assemble(action)
            case AssignJobs():
                self._assign(action)
            case CancelJobs():
                self._post(action.worker, Cancel(action.jobs, action.attempts))
            case RetractJobs():
                self._post(action.worker, Retract(action.jobs, action.attempts))
            case JobsLost():
                self._lost(action)
            case WorkerQuarantined():
                self._quarantined(self.peers[action.worker], action.why)
            case WorkerReleased():
                self._quarantined(self.peers[action.worker], "")
            case JobsBackedOff():
                self._wait_again(action.jobs, action.seconds)
            case JobsRequeued():
                self._wait_again(action.jobs)
            case JobsUnsatisfiable():
                for job in self._ending(action.jobs):
                    self._fail(job, UnsatisfiableError(_refusal(action.missing, self.peers.values())))
            case JobsPending():
                self._warn(action)
            case JobsDeadlocked():
                self._deadlocked(action)
            case JobsOrphaned():
                self._nested.forget(action.jobs)
            case JobsMoved():
                placement = self._jobs[action.job].placement
                assert placement is not None
                placement.slots = action.allocation
            case WakeAt():
                self._alarm(action.at)
            case JobsStarted() | JobsSettled():
                raise AssertionError("only a report starts or settles jobs")

    def _post(self, worker: int, message: Cancel | Retract) -> None:
        self.peers[worker].post(message)

    def _assemble(self, action: AssembleGang) -> None:
        for worker in action.workers:
            peer = self.peers[worker]
            peer.define([], self._class_spec(action.cls))
            peer.post(Hold(action.cls, [action.job], [action.attempt]))
        self._jobs[action.job].assigned(self.peers[action.workers[0]].name, action.attempt)

    def _class_spec(self, number: int) -> ClassSpec:
        shape = self._mind.shapes[number]
        return ClassSpec(shape.shape, str(shape.request), shape.isolate)

    def _assign(self, action: AssignJobs) -> None:
        peer = self.peers[action.worker]
        spec = self._class_spec(action.cls)
        peer.define([self._functions.shipment(fn) for fn in dict.fromkeys(action.fns)], spec)
        if action.gang:
            members = ((self.peers[worker], allocation) for worker, allocation in action.gang)
            nodes = [NodeSpec(member.name, member.link.host, allocation) for member, allocation in members]
            peer.post(Gang(action.jobs[0], action.attempts[0], nodes))
        jobs = [self._jobs[number] for number in action.jobs]
        for job, attempt in zip(jobs, action.attempts, strict=True):
            if job.placement is None:  # as `assigned` does: most jobs are sent to one worker, once
                job.placement = Placement(peer.name, attempt)
            else:
                job.assigned(peer.name, attempt)
        parcels = self.depot.parcels_for(peer.hello, [(job.data, job.buffers) for job in jobs])
        data = plain_column(parcels)
        if data is None:
            self._assign_in_parts(peer, action, parcels)
        else:
            columns = action.jobs, action.attempts, action.fns, data
            peer.post(Assign(action.cls, action.ahead, *columns, [], action.hard_s))
        if self.logs:
            self.logs.assigned(peer, jobs)

    def _assign_in_parts(self, peer: Peer, action: AssignJobs, parcels: Sequence[Parcel]) -> None:
        for first, last in slices(parcels):
            part = slice(first, last)
            data, counts, buffers = pack_parcels(parcels[part])
            columns = action.jobs[part], action.attempts[part], action.fns[part], data
            peer.post(Assign(action.cls, action.ahead, *columns, counts, action.hard_s), buffers)

    def _started(self, action: JobsStarted, skew: float) -> None:
        start = action.start
        began: list[Job] = []
        for row in action.rows:
            job = self._jobs.get(start.jobs[row])
            if job is not None:
                assert job.placement is not None
                job.placement.slots, job.placement.began = start.allocation, start.at + skew
                if job.node is not None:
                    job.node.state = State.RUNNING
                else:
                    began.append(job)
        for home, jobs in _of_clients(began):
            children, attempts = [job.child for job in jobs], [job.attempt for job in jobs]
            home.post(Began(children, attempts, [job.worker or "" for job in jobs], [start.allocation] * len(jobs)))

    def _wait_again(self, numbers: list[int], seconds: float | None = None) -> None:
        """What ran runs no more, and is to run anew."""
        waiting = [self._jobs[number] for number in numbers]
        for job in waiting:
            job.waits_again(seconds)
        for home, jobs in _of_clients(waiting):
            children, attempts = [job.child for job in jobs], [job.attempt for job in jobs]
            home.post(Began(children, attempts, [""] * len(jobs), [""] * len(jobs)))

    def _settle(self, peer: Peer, completed: Completed, rows: list[int], parcels: list[Parcel], skew: float) -> None:
        bad = self.tally.bad
        receipt = peer.receipts.get(completed.lease)
        jobs, codes, walls, succeeded = self._jobs, completed.codes, completed.wall, self._outcomes.succeeded
        for row in rows:
            job = jobs.pop(completed.jobs[row], None)
            if job is None:
                continue
            node = job.node
            wall = walls[row]
            placement = job.placement
            assert placement is not None
            placement.used = (wall, completed.cpu[row], completed.rss[row])
            placement.receipt = receipt
            placement.began = began = completed.begun[row] + skew
            placement.ended = began + wall
            code = codes[row]
            if node is None:
                self._relay(job, _CODES[code], parcels[row])
            elif code:
                job.close()
                self._outcome(job, node, _CODES[code], parcels[row])
            elif type(job) is FirstOfChain:
                self._settle_chain(job, placement, parcels[row], skew)
            else:
                job.close()
                try:
                    value = load_value(parcels[row])
                except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this job's error
                    self._unreadable(job, node, error)
                else:
                    succeeded(node, value)
        self.tally.succeeded += len(rows) - (self.tally.bad - bad)
        self.tally.run_seconds += sum(completed.wall)

    def _relay(self, job: Job, code: Code, parcel: Parcel) -> None:
        """What became of a job that came over a link."""
        assert isinstance(job, NestedJob)
        if code in (Code.SUCCEEDED, Code.FAILED, Code.OUT_OF_MEMORY):
            self.tally.failed += code is not Code.SUCCEEDED
            self._nested.ended(job, with_buffers(parcel), good=code is Code.SUCCEEDED)
            return
        if code is Code.TIMED_OUT:
            self.tally.timed_out += 1
        else:
            self.tally.failed += 1
        self._nested.ended_by(job, _ended_by(job, job.name, job.timeout, code))

    def _settle_chain(self, first: FirstOfChain, whole: Placement, parcel: Parcel, skew: float) -> None:
        """Give each link of a chain its own outcome; the engine sends anew what was not run."""
        walls: dict[int, list[float]] = {}
        rss = whole.used[2] if whole.used is not None else 0
        outcomes = outcomes_of(Payload(parcel[0], tuple(parcel[1])))
        for job, (good, data, buffers, begun, wall, cpu) in zip([first, *first.links], outcomes, strict=False):
            earlier = () if job.placement is None else job.placement.earlier
            began, used = begun + skew, (wall, cpu, rss)
            job.placement = Placement(
                whole.worker, job.attempt or 1, earlier, whole.slots, began, began + wall, used, whole.receipt
            )
            walls.setdefault(job.fn, []).append(wall)
            node = job.node
            for observer in self.observers:
                observer.linked(job, good=good)
            job.close()
            if node is not None:
                self._outcome(job, node, Code.SUCCEEDED if good else Code.FAILED, (data, buffers))
                self.tally.succeeded += job is not first  # the first is counted with its batch
        for fn, seconds in walls.items():
            self._tell(FunctionTimed(fn, seconds))

    def _unreadable(self, job: Job, node: Node, error: Exception) -> None:
        """A value came that cannot be rebuilt here."""
        error.add_note(job.note)
        self.tally.failed += 1
        self._outcomes.failed(node, error)

    def _outcome(self, job: Job, node: Node, code: Code, parcel: Parcel) -> None:
        if code is Code.SUCCEEDED:
            try:
                self._outcomes.succeeded(node, load_value(parcel))
            except Exception as error:  # noqa: BLE001 - whatever unpickling raises is this job's error
                self._unreadable(job, node, error)
            return
        if code is Code.TIMED_OUT:
            self.tally.timed_out += 1
        else:
            self.tally.failed += 1
        told = _error(job, node, code, Payload(parcel[0], tuple(parcel[1])))
        if code is Code.OUT_OF_MEMORY and job.last_words is not None:
            told.add_note(job.last_words)
        self._outcomes.failed(node, told)

    def _lost(self, action: JobsLost) -> None:
        for job in self._ending(action.jobs):
            how = "had given items" if job.streamed else f"was running {action.losses} times"
            self._fail(job, WorkerLostError(f"{_name(job)} {how} when it was lost: {action.reason}"))

    def _warn(self, action: JobsPending) -> None:
        """Say that jobs wait for what nobody here offers; to the client whose they are, too."""
        jobs = "1 job waits" if action.waiting == 1 else f"{action.waiting} jobs wait"
        why = _LAYOUT if action.missing is None else action.missing.why
        words = f"{jobs} for a worker that can give {action.request}: {why}"
        logger.warning("%s", words)
        for home, _ in _of_clients([self._jobs[action.job]]):
            home.post(Warned(words))

    def _deadlocked(self, action: JobsDeadlocked) -> None:
        why = _why_stuck(action.deadlock, self._jobs)
        if not action.failed:
            logger.warning("%s", why)
            return
        for job in self._ending([action.deadlock.job]):
            self._fail(job, UnsatisfiableError(why))

    def _ending(self, numbers: Iterable[int]) -> Iterator[Job]:
        for number in numbers:
            job = self._jobs.pop(number, None)
            if job is not None:
                yield job

    def _fail(self, job: Job, error: Exception) -> None:
        node = job.node
        if job.worker is not None and not isinstance(job, NestedJob):  # whoever hears of that one adds it
            error.add_note(job.note)
        if job.last_words is not None:
            error.add_note(job.last_words)
        self.tally.failed += 1
        if isinstance(job, NestedJob):
            job.stopped(self._now())
            self._nested.ended_by(job, error)
            return
        job.close()
        if node is not None:
            self._outcomes.failed(node, error)


def _of_clients(jobs: Iterable[Job]) -> Iterable[tuple[Home, list[NestedJob]]]:
    """Those of them that clients have submitted, by client."""
    found: dict[Home, list[NestedJob]] = {}
    for job in jobs:
        if isinstance(job, NestedJob) and not job.attempt_of[1]:
            found.setdefault(job.home, []).append(job)
    return found.items()


def _limit(job: Job, timeout: float | None) -> str:
    """Which of a job's time limits it was that ended it: the shorter one."""
    walltime = job.allocation.walltime if job.allocation is not None else None
    if timeout is not None and (walltime is None or timeout <= walltime):
        return f"its timeout of {timeout:g} s"
    return "the walltime that its group has learned" if walltime is None else f"its walltime of {walltime:g} s"


def _name(job: Job) -> str:
    if isinstance(job, NestedJob):
        return job.name
    return job.node.function.name if job.node is not None else "job"


def _why_stuck(deadlock: Deadlock, jobs: Mapping[int, Job]) -> str:
    """Who holds what, and who waits for whom."""

    def named(number: int) -> str:
        return f"{_name(jobs[number])} (job {number})" if number in jobs else f"job {number}"

    holders = "; ".join(
        f"{named(held.job)} holds {held.held} of {held.worker} and waits for {', '.join(map(named, held.waits_for))}"
        for held in deadlock.holders
    )
    return (
        f"{named(deadlock.job)} asks for {deadlock.request} and can never start, for jobs wait in a circle: {holders}"
    )


def _drop_stored(columns: Iterable[list[Parcel]]) -> None:
    """Results that were told of have been mapped, or nobody wants them."""
    for parcels in columns:
        for data, _ in parcels:
            if data[:1] == _MARKED:
                drop(data)


def _error(job: Job, node: Node, code: Code, payload: Payload) -> BaseException:
    if code in (Code.FAILED, Code.OUT_OF_MEMORY):
        return load_error(payload, job.note)
    error = _ended_by(job, node.function.name, node.function.options.timeout, code)
    error.add_note(job.note)
    return error


def _ended_by(job: Job, name: str, timeout: float | None, code: Code) -> Exception:
    """Why a job has ended that left no word of its own."""
    if code is Code.TIMED_OUT:
        return JobTimeoutError(f"{name} ran past {_limit(job, timeout)}")
    return WorkerLostError(f"{name} was stopped by its worker ({code.name.lower()})")

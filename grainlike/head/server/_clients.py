"""Clients of a head: which are connected, and what is sent to them about workers and jobs.

A client has proved that it may: by its certificate, or, at a Unix socket, as a process of our own user. Its queries
are answered from the scheduler's own state, in the turn in which they arrive.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike._version import __version__
from grainlike.errors import GrainlikeError, ProtocolError, SessionError
from grainlike.head import GOODBYE_S, Head, LiveView, ReplyTo, limits_are, queue_is, refusal_of_question
from grainlike.head.server._client import ClientConnection
from grainlike.head.server._live_updates import send_updates
from grainlike.head.server._metrics import metrics_are
from grainlike.head.server._pool_queries import PoolQueries, PoolQuestion
from grainlike.head.server._session_queries import SessionQuestion, answer_about_sessions
from grainlike.head.server._sessions import NamedCall, NamedSession, Sessions
from grainlike.head.server._store_updates import StoreUpdates
from grainlike.head.server._trace_rows import send_trace
from grainlike.jobs import job_is, worker_row
from grainlike.net import Link, is_gone, software
from grainlike.resources import offer_of, parse
from grainlike.wire import (
    MOST_ROWS,
    AskBlockFile,
    AskCancel,
    AskDepart,
    AskDown,
    AskEndBlock,
    AskFleet,
    AskHead,
    AskHistory,
    AskJob,
    AskJobs,
    AskLimits,
    AskLive,
    AskLogs,
    AskMetrics,
    AskOutcome,
    AskPause,
    AskQueue,
    AskReport,
    AskScale,
    AskStop,
    AskTrace,
    AskUp,
    AskWanted,
    AskWorkers,
    Beat,
    Buffer,
    ClientRecords,
    Credit,
    Done,
    DurableCopy,
    EndSessions,
    Enough,
    Fetched,
    Forget,
    Frame,
    Goodbye,
    HeadIs,
    Hello,
    ImportsFrom,
    JobsAre,
    LostWorkerRow,
    Matched,
    Message,
    MetricsAre,
    OutcomesHeard,
    OwnValues,
    ReleaseFunctions,
    ReplicaCredit,
    ReplicaPart,
    ReportIs,
    Submit,
    Unable,
    Unsent,
    ValueInterest,
    WantedIs,
    Withdraw,
    WorkersAre,
    check_software,
)

if TYPE_CHECKING:  # only a head that others connect to has one
    from grainlike.head.server._outcome_store import OutcomeStore

_MOST_LOGS = 1000
_MOST_VIEWS = 16

_UNREAD_RECORDS = 4 << 20
"""Bytes that may wait for a client before records of `logging` are dropped rather than added."""

WORKERS_S = 0.1
"""Seconds between two lists of workers to a client: with a thousand of them, each takes some milliseconds."""

_Short = (
    AskHead
    | AskJobs
    | AskJob
    | AskCancel
    | AskDepart
    | AskStop
    | AskWanted
    | AskReport
    | AskHistory
    | AskQueue
    | AskMetrics
    | AskLimits
    | PoolQuestion
    | SessionQuestion
)
"""Queries that are answered by one message, in the turn in which they arrive."""

_WANTS = (
    Submit,
    Withdraw,
    Credit,
    ReleaseFunctions,
    ImportsFrom,
    Forget,
    EndSessions,
    ValueInterest,
    DurableCopy,
    OwnValues,
    Fetched,
    Unsent,
    OutcomesHeard,
)
"""Messages of clients about their jobs and values; all else is queries."""

__all__ = ["ClientRegistry"]

logger = logging.getLogger("grainlike")


class ClientRegistry:
    """The clients of one head, of `cluster`. `cancel(job)` ends a job for everybody; False where there is none.

    `stop(forget)` ends the head itself; False if it may not be ended from outside. `alone()` is called when there is no
    client and no named session, and this may be new.
    """

    def __init__(
        self,
        head: Head,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[bool], bool],
        alone: Callable[[], None] | None,
    ) -> None:
        self.here: dict[int, ClientConnection] = {}
        self.sessions: Sessions = Sessions()
        self.store: OutcomeStore | None = None
        """Store for outcomes of sessions that do not fit into memory; None where there are no sessions."""
        self.pools: PoolQueries = PoolQueries()
        self.stores: StoreUpdates = StoreUpdates(self.here, head.view.stores)
        self._head = head
        self._cluster = cluster
        self._cancel = cancel
        self._stop = stop
        self.alone: Callable[[], None] | None = alone
        self.ends_process: bool = False
        """True if the process of the head ends with it."""
        self._opened = time.monotonic()
        head.records.clients = self._pass_records
        self._records_sent: dict[int, tuple[int, int]] = {}
        """Records of jobs that were sent to clients, and that were dropped since, by the numbers of their owners."""
        self._telling: dict[TaskGroup, bool] = {}
        """Tasks of links whose clients have just been sent the workers, and whether there are more changes to send."""
        self.lost: deque[LostWorkerRow] = deque(maxlen=10)
        """Last workers that were lost, the latest first."""
        self._views: WeakSet[anyio.CancelScope] = WeakSet()
        """Those among what clients listen to that are live views."""

    def join(
        self, hello: Hello, link: Link, tasks: TaskGroup | None, welcome: Callable[[int], object] | None = None
    ) -> ClientConnection:
        """Add an authenticated client; its tasks run in `tasks`. `welcome(number)` sends it the first message."""
        connection = ClientConnection(self._head.state.next_peer(), hello, link, tasks)
        if welcome is not None:
            welcome(connection.number)
        self.here[connection.number] = connection
        if hello.session:
            session = self.sessions.find(hello.session)
            if session is None:
                session = self.sessions.open(hello.session, self._head.state.next_peer(), self._head.now())
            elif session.connection is not None:
                self._detach(session.connection, session)
            connection.reply_to = session
            self._head.state.owners.refer(session.values())
            session.attach(connection, self._head.view.ran_s)
            self._head.client_values.tell_anew(session.values())  # their jobs' ends tell of the first workers alone
            self._count_anew(session)
        return connection

    def check_session(self, hello: Hello) -> None:
        """Check that a client may have the session that it names. A program that has died does not hold it any more.

        Raises:
            SessionError: another program has it.
        """
        session = self.sessions.find(hello.session)
        holder = None if session is None else session.connection
        if holder is not None and not is_gone(holder.hello.process):
            raise SessionError(
                f"session {hello.session!r} is in use by the program {holder.name}, heard of "
                f"{time.monotonic() - holder.heard:.0f} s ago: end that first, or use another session"
            )

    def incarnation(self, incarnation: str) -> ClientConnection | None:
        """Return the client that introduced itself so, if it has not been given up."""
        return next(
            (connection for connection in self.here.values() if connection.hello.incarnation == incarnation), None
        )

    def came_back(self, connection: ClientConnection, tasks: TaskGroup) -> None:
        """Resume a client over another link; its tasks run in `tasks` from now on."""
        connection.hush()
        self._head.values.returned(connection)
        connection.tasks = tasks
        connection.heard = time.monotonic()
        if connection.paths:
            self._send_workers(connection)
            self.pools.tell(connection)

    def leave(self, connection: ClientConnection) -> None:
        """Remove a client that has left, and cancel its jobs; those of a named session stay. The second time does
        nothing.
        """
        if self.here.pop(connection.number, None) is None:
            return
        if isinstance(connection.reply_to, NamedSession):
            self._detach(connection, connection.reply_to)
        else:
            self._head.withdraw_all(connection)
        self._head.values.left(connection)
        self.stores.listed(connection)
        self._head.release_for(connection.number)
        self._records_sent.pop(connection.number, None)
        self.look_whether_alone()

    def _detach(self, connection: ClientConnection, session: NamedSession) -> None:
        """Detach a program from its session. Its streams end: no other program could read them."""
        if session.connection is connection:
            self._head.client_values.leave(session)
            session.detach(connection)
            session.withdraws(self._head.withdraw_streams(session))
            self._head.state.nested.detach(session)

    def look_whether_alone(self) -> None:
        """A client or a job has ended, and perhaps with it the last session. Who only looks keeps nothing alive."""
        if self.alone and not self.sessions and not any(connection.paths for connection in self.here.values()):
            self.alone()

    def leave_all(self) -> None:
        """The head ends: so does what clients wanted, and all sessions."""
        for reply_to in (*self.here.values(), *self.sessions):
            self._head.withdraw_all(reply_to)

    async def send_goodbye(self) -> None:
        """Send `Goodbye` to all clients: no more messages come, and reconnecting is of no use."""
        clients = list(self.here.values())
        for connection in clients:
            if connection.session is not None:
                connection.post(Goodbye("it has closed"))
        with anyio.move_on_after(GOODBYE_S):
            for connection in clients:
                await connection.link.drain()

    def worker_lost(self, name: str, running: int, why: str) -> None:
        """Record for `head status` that a worker was lost on which so many jobs ran."""
        self.lost.appendleft(LostWorkerRow(name, time.time(), running, why))

    def workers_changed(self) -> None:
        """Send the workers to every client that submits jobs, and not just queries; changes that come together are
        sent once.
        """
        for connection in self.here.values():
            if not connection.paths:
                continue
            if connection.tasks in self._telling:
                self._telling[connection.tasks] = True
            elif connection.tasks is not None:
                self._telling[connection.tasks] = False
                self._send_workers(connection)
                connection.tasks.start_soon(self._tell_more, connection, connection.tasks)

    def fleet_changed(self) -> None:
        """Send pools and blocks to every client that submits jobs."""
        for connection in self.here.values():
            if connection.paths:
                self.pools.tell(connection)

    async def _tell_more(self, connection: ClientConnection, tasks: TaskGroup) -> None:
        """Send the workers again after a while, if they have changed by then."""
        try:
            while True:
                await anyio.sleep(WORKERS_S)
                if not self._telling[tasks]:
                    return
                self._telling[tasks] = False
                self._send_workers(connection)
        finally:
            del self._telling[tasks]

    def _count_anew(self, session: NamedSession) -> None:
        """Count the records that are sent to a program from none; it is told how many were dropped before it came."""
        _, dropped = self._records_sent.get(session.number, (0, 0))
        numbers = {*self.here, *(session.number for session in self.sessions)}
        self._records_sent = {owner: count for owner, count in self._records_sent.items() if owner in numbers}
        self._records_sent[session.number] = 0, dropped

    def _pass_records(self, owner: int, worker: str, records: list[bytes]) -> None:
        """Send records of `logging` to the client, or to the program that has the session, of this number. They are
        dropped while it is away, or does not read.
        """
        connection = self.here.get(owner)
        if connection is None:
            session = next((session for session in self.sessions if session.number == owner), None)
            if session is None:
                return  # of a client that has left
            connection = session.connection
        sent, dropped = self._records_sent.get(owner, (0, 0))
        if connection is None or connection.link.closed or connection.link.waiting() > _UNREAD_RECORDS:
            self._records_sent[owner] = sent, dropped + len(records)
            return
        sent += len(records)
        self._records_sent[owner] = sent, 0
        connection.post(ClientRecords(worker, records, sent, dropped))

    def hear(self, connection: ClientConnection, frames: Sequence[Frame]) -> None:
        """Handle the frames of one read of a client's link."""
        connection.heard = time.monotonic()
        fresh = frames if connection.session is None else connection.session.hear(frames)
        wanted = [frame for frame in fresh if isinstance(frame.message, _WANTS)]
        if wanted:  # first: who asks about his jobs may do so in the same breath
            is_plain = all(isinstance(frame.message, EndSessions) for frame in wanted)  # the command line sends these
            if connection.session is None and connection.hello.only_asks and not is_plain:
                check_software(software(), connection.hello)  # as is done for others when they come
            self._head.check_frames(wanted, connection.number)
            _check_graphs(connection.reply_to, wanted)
            self._admit(connection, wanted)
        for message, buffers in fresh:
            match message:
                case AskWorkers():
                    self._send_workers(connection, message.ask)
                case _ if isinstance(message, _Short):
                    connection.post(self._answer(message))
                case AskLogs():
                    self._tell_logs(connection, message)
                case AskLive():
                    self._show_live(connection, message)
                case AskTrace() if connection.tasks is not None:
                    connection.tasks.start_soon(send_trace, connection.link, message.ask, self._head.recorder)
                case AskOutcome() if connection.tasks is not None and self.store is not None:
                    connection.tasks.start_soon(
                        self.store.tell, connection.link, message, self._kept(connection, message.child)
                    )
                case AskUp() | AskBlockFile() if connection.tasks is not None:
                    connection.tasks.start_soon(self.pools.ask, connection, message, connection.tasks)
                case Enough():
                    connection.enough(message.ask)
                case ReplicaCredit() | ReplicaPart():
                    self._head.client_values.hear(connection, message, buffers)
                case Beat():
                    pass
                case _ if not isinstance(message, _WANTS):
                    logger.warning(
                        "client %s sent %s, which clients do not send", connection.name, type(message).__name__
                    )
        if connection.over:
            self.leave(connection)
            connection.post(Goodbye("it has left"))  # so that it knows that all it said was heard, and hangs up

    def _admit(self, connection: ClientConnection, frames: Sequence[Frame]) -> None:
        """Take a client's messages about its jobs; where no more outcomes can be kept, calls with names are refused."""
        why = None if self.store is None else self.store.refusal()
        if why is None:
            self._take(connection, frames)
            return
        for named, part in groupby(frames, _has_names):
            if named:
                self._refuse_named(connection, list(part), why)
            else:
                self._take(connection, list(part))

    def _refuse_named(self, connection: ClientConnection, frames: Sequence[Frame], why: str) -> None:
        """Make no jobs of calls with names, and send their client the reason."""
        for message, buffers in frames:
            assert isinstance(message, Submit)
            self._head.refuse_for(
                connection.reply_to, message, buffers, connection.paths, connection.number, SessionError(why)
            )

    def _kept(self, connection: ClientConnection, child: int) -> NamedCall | None:
        return connection.reply_to.kept_apart(child) if isinstance(connection.reply_to, NamedSession) else None

    def _take(self, connection: ClientConnection, frames: Sequence[Frame]) -> None:
        """Handle a client's messages about its jobs, each once, however often its link broke."""
        if len(frames) > 1 and sum(type(frame.message) is Submit for frame in frames) > 1:
            with self._head.one_pass():
                self._take_each(connection, frames)
        else:
            self._take_each(connection, frames)

    def _take_each(self, connection: ClientConnection, frames: Sequence[Frame]) -> None:
        for message, buffers in frames:
            match message:
                case Submit():
                    self._submit(connection, message, buffers)
                case Withdraw():
                    self._head.withdraw_for(connection.reply_to, message)  # first: the history has their names
                    if isinstance(connection.reply_to, NamedSession):
                        connection.reply_to.withdraws(message.children)
                        self._head.state.nested.unpin(connection.reply_to)
                case Credit():
                    self._head.credit_for(connection.reply_to, message)
                case ValueInterest():
                    self._head.client_values.take(connection.reply_to, message)
                case DurableCopy():
                    self._head.client_values.copied(connection.reply_to, message)
                case OwnValues():
                    self._head.client_values.add(connection, connection.reply_to, message)
                case Fetched() | Unsent():
                    self._head.client_values.hear(connection, message)
                case ReleaseFunctions():
                    self._head.release_for(connection.number, message.digests)
                case OutcomesHeard():
                    self._head.state.nested.heard(connection.reply_to, message.children)
                case Forget():
                    if isinstance(connection.reply_to, NamedSession):
                        connection.reply_to.forgets(message.names)
                        self._head.state.nested.unpin(connection.reply_to)
                case EndSessions():
                    self._end_sessions(message.sessions)
                case ImportsFrom():
                    connection.paths = tuple(message.paths)
                    self.pools.tell(connection)

    def _submit(self, connection: ClientConnection, message: Submit, buffers: Sequence[Buffer]) -> None:
        session = connection.reply_to if isinstance(connection.reply_to, NamedSession) else None
        if session is not None:
            session.submits(message)
        try:
            self._head.submit_for(connection.reply_to, message, buffers, connection.paths, connection.number)
        except Exception:
            if session is not None:
                session.withdraws(message.children)  # they never were
            raise

    def _end_sessions(self, names: Sequence[str]) -> None:
        for session in filter(None, map(self.sessions.find, names)):
            self._head.state.nested.end_graphs(session)
            for job in list(session.jobs.values()):
                self._head.cancel_nested(job)
            session.forget_all()
            self._head.state.nested.unpin(session)

    def _tell_logs(self, connection: ClientConnection, question: AskLogs) -> None:
        lines = self._head.view.logs_of(question.job, follow=question.follow)
        if lines is None:
            connection.link.post(self._no_job(question.ask, question.job))
        elif self._may_listen(connection, question) and connection.tasks is not None:
            connection.tasks.start_soon(
                connection.tell, connection.link, question.ask, lines, connection.listens(question.ask)
            )

    def _show_live(self, connection: ClientConnection, question: AskLive) -> None:
        if self._may_listen(connection, question) and connection.tasks is not None:
            scope = connection.listens(question.ask)  # now: an `Enough` may come before the task has begun
            self._views.add(scope)
            connection.tasks.start_soon(send_updates, connection, question, self._live_view(), scope)

    def _may_listen(self, connection: ClientConnection, question: AskLogs | AskLive) -> bool:
        """Return True if a client may listen to one more thing; send it the reason if not."""
        views = sum(scope in self._views for scope in connection.listening.values())
        is_view = isinstance(question, AskLive)
        listening, most = (views, _MOST_VIEWS) if is_view else (len(connection.listening) - views, _MOST_LOGS)
        if question.ask in connection.listening:
            why = f"question {question.ask} is being answered already"
        elif listening >= most:
            why = f"one client may follow {most} {'live views' if is_view else 'logs of jobs'} at a time"
        else:
            return True
        connection.link.post(Unable(question.ask, why))
        return False

    def _live_view(self) -> LiveView:
        head = self._head
        return LiveView(head.state, head.view, head.now, self._programs, self._up_s, lambda: len(self.here))

    def metrics(self, ask: int = 0) -> MetricsAre:
        """Return the head in figures."""
        about = (self._up_s(), self._cluster, len(self.here), len(list(self.sessions)), self.sessions.size)
        return metrics_are(ask, self._head, self._live_view(), self.pools.driver, *about)

    def _answer(self, question: _Short) -> Message:
        ask = question.ask
        why = refusal_of_question(question)
        if why:
            return Unable(ask, why)
        match question:
            case AskHead():
                return self._about_head(ask)
            case AskJobs():
                return self._jobs(question)
            case AskJob():
                found = self._head.view.explain_job(question.job)
                if found is None:
                    return self._no_job(ask, question.job)
                found = replace(found, pools=self.pools.explain(question.job))
                return job_is(ask, self._head.view.name_of(question.job), found)
            case AskCancel():
                return Done(ask) if self._cancel(question.job) else self._no_job(ask, question.job)
            case AskDepart():
                return Matched(ask, self._head.release(question.patterns, kill=question.kill))
            case AskWanted():
                return self._wanted(question)
            case AskScale() | AskDown() | AskPause() | AskEndBlock() | AskFleet():
                return self.pools.answer(question)
            case AskReport():
                return ReportIs(ask, self._head.totals(), self._head.view.unended)
            case AskHistory():
                few = self._head.program_values.why_few(question.job)
                copy = self._head.state.kept.copy_url(question.job)
                return replace(self._head.history.page(question), few=few, copy=copy)
            case AskQueue():
                return queue_is(question, self._head.state, self._head.view, self._programs())
            case AskMetrics():
                return self.metrics(ask)
            case AskLimits():
                return limits_are(question, self._head.state, self._head.now())
            case AskStop():
                why = f"this head is part of a program, process {os.getpid()}, and ends with it"
                return Done(ask) if self._stop(question.forget) else Unable(ask, why)
            case _:
                limit = 0 if self.store is None else self.store.budget
                return answer_about_sessions(question, self.sessions, self._head, limit)

    def _jobs(self, question: AskJobs) -> JobsAre:
        programs = self._programs()
        rows, after = self._head.view.some_rows(question, MOST_ROWS)
        told = [replace(row, program=programs.get(row.client, ""), named=self._named(row.job)) for row in rows]
        return JobsAre(question.ask, told, self._head.view.unended, after)

    def _programs(self) -> dict[int, str]:
        """Return the names of clients and sessions by number."""
        programs = {connection.number: connection.name for connection in self.here.values()}
        return programs | {session.number: session.name for session in self.sessions}

    def _up_s(self) -> float:
        return time.monotonic() - self._opened

    def _named(self, job: int) -> str:
        reply_to, child = self._head.view.reply_to_of(job)
        return reply_to.name_of(child) if isinstance(reply_to, NamedSession) else ""

    def _no_job(self, ask: int, job: int) -> Unable:
        last = self._head.view.last_job
        if 0 < job <= last:
            found = self._head.history.find(job)
            became = "" if found is None else f". {found}"
            return Unable(ask, f"there is no job {job} any more: it has ended{became}")
        return Unable(ask, f"there is no job {job} yet: {f'the last one is {last}' if last else 'none was submitted'}")

    def _wanted(self, question: AskWanted) -> Message:
        try:
            offer = offer_of(parse(question.offer), own_cores=())
        except GrainlikeError as error:
            return Unable(question.ask, f"{question.offer!r} is no offer: {error}")
        return WantedIs(question.ask, self._head.view.wanted(offer, question.most, question.within_s))

    def _send_workers(self, connection: ClientConnection, ask: int = 0) -> None:
        self.stores.listed(connection)
        connection.post(self._workers(ask))

    def _workers(self, ask: int) -> WorkersAre:
        return WorkersAre(ask, [worker_row(worker) for worker in self._head.view.workers()])

    def _about_head(self, ask: int) -> HeadIs:
        own = software()
        who = self._cluster, __version__, own.python, os.getpid(), self._up_s()
        counts = len(self._head.peers), len(self.here), self._head.view.states()
        ends, lost = self.ends_process, list(self.lost)
        return HeadIs(ask, *who, *counts, self._journal(), ends_process=ends, lost=lost, serializers=own.serializers)

    def _journal(self) -> str:
        """Return whether inputs are journaled, as text for clients; empty if this head does not survive its process."""
        return ""


def _has_names(frame: Frame) -> bool:
    return isinstance(frame.message, Submit) and any(frame.message.names)


def _check_graphs(reply_to: ReplyTo, frames: Sequence[Frame]) -> None:
    """Raise `ProtocolError` if somebody without a session submits calls of a graph."""
    if reply_to.graph is None and any(isinstance(frame.message, Submit) and frame.message.needs for frame in frames):
        raise ProtocolError("calls of graphs are of sessions alone")

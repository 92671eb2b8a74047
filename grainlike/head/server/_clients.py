"""Clients of a head: which are connected, and what is sent to them about workers and jobs.

A client has proved that it may: by its certificate, or, at a Unix socket, as a process of our own user. Its queries
are answered from the scheduler's own state, in the turn in which they arrive.
"""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike._version import __version__
from grainlike.errors import GrainlikeError, SessionError
from grainlike.head import FAREWELL_S, Head
from grainlike.head.server._client import Guest
from grainlike.head.server._sessions import NamedCall, NamedSession, Sessions
from grainlike.head.server._trace_rows import report_is, tell_trace
from grainlike.jobs import job_is, worker_row
from grainlike.net import Link, is_gone
from grainlike.resources import offer_of, parse
from grainlike.wire import (
    MOST_ROWS,
    AskCancel,
    AskDepart,
    AskHead,
    AskJob,
    AskJobs,
    AskLogs,
    AskOutcome,
    AskReport,
    AskSessions,
    AskStop,
    AskTrace,
    AskWanted,
    AskWorkers,
    Beat,
    Buffer,
    Done,
    EndSessions,
    EnoughLogs,
    Forget,
    Frame,
    Goodbye,
    HeadIs,
    Hello,
    ImportsFrom,
    JobRow,
    JobsAre,
    Matched,
    Message,
    Nested,
    ReleaseFunctions,
    SessionsAre,
    Unable,
    WantedIs,
    Withdraw,
    WorkersAre,
)

if TYPE_CHECKING:  # only a head that others connect to has one
    from grainlike.head.server._outcome_store import OutcomeStore

_MOST_LOGS = 1000

WORKERS_S = 0.1
"""Seconds between two lists of workers to a client: with a thousand of them, each takes some milliseconds."""

_Short = AskHead | AskWorkers | AskJobs | AskJob | AskCancel | AskDepart | AskStop | AskWanted | AskSessions | AskReport
"""Queries that are answered by one message, in the turn in which they arrive."""

_WANTS = (Nested, Withdraw, ReleaseFunctions, ImportsFrom, Forget, EndSessions)
"""Messages of clients about their jobs; all else is queries."""

__all__ = ["Guests"]

logger = logging.getLogger("grainlike")


class Guests:
    """The clients of one head, of `cluster`. `cancel(job)` ends a job for everybody; False where there is none.

    `stop()` ends the head itself; False if it may not be ended from outside. `alone()` is called when there is no
    client and no named session, and this may be new.
    """

    def __init__(
        self,
        head: Head,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[], bool],
        alone: Callable[[], None],
    ) -> None:
        self.here: dict[int, Guest] = {}
        self.sessions = Sessions()
        self.store: OutcomeStore | None = None
        """Store for outcomes of sessions that do not fit into memory; None where there are no sessions."""
        self._head = head
        self._cluster = cluster
        self._cancel = cancel
        self._stop = stop
        self._alone = alone
        self._opened = time.monotonic()
        self._telling: dict[int, bool] = {}
        """Clients that have just been sent the workers, and whether there are more changes to send."""

    def join(self, hello: Hello, link: Link, tasks: TaskGroup | None) -> Guest:
        """Take in a client that has proved itself; what is done for it runs in `tasks`."""
        guest = Guest(self._head.books.next_peer(), hello, link, tasks)
        self.here[guest.number] = guest
        if hello.session:
            session = self.sessions.find(hello.session)
            if session is None:
                session = self.sessions.open(hello.session, self._head.books.next_peer(), self._head.now())
            guest.home = session
            session.attach(guest)
        return guest

    def check_session(self, hello: Hello) -> None:
        """Check that a client may have the session that it names. A program that has died does not hold it any more.

        Raises:
            SessionError: another program has it.
        """
        session = self.sessions.find(hello.session)
        holder = None if session is None else session.guest
        if holder is not None and not is_gone(holder.hello.process):
            raise SessionError(
                f"session {hello.session!r} is in use by the program {holder.name}, heard of "
                f"{time.monotonic() - holder.heard:.0f} s ago: end that first, or use another session"
            )

    def incarnation(self, incarnation: str) -> Guest | None:
        """The client that introduced itself so, if it has not been given up."""
        return next((guest for guest in self.here.values() if guest.hello.incarnation == incarnation), None)

    def came_back(self, guest: Guest, tasks: TaskGroup) -> None:
        """Resume a client over another link; its tasks run in `tasks` from now on."""
        guest.hush()
        guest.tasks = tasks
        guest.heard = time.monotonic()
        if guest.paths:
            guest.post(self._workers(0))

    def leave(self, guest: Guest) -> None:
        """Remove a client that has left, and cancel its jobs; those of a named session stay. The second time does
        nothing.
        """
        if self.here.pop(guest.number, None) is None:
            return
        if isinstance(guest.home, NamedSession):
            guest.home.detach(guest)
        else:
            self._head.withdraw_all(guest)
        self._head.release_for(guest.number)
        self.look_whether_alone()

    def look_whether_alone(self) -> None:
        """A client or a job has ended, and perhaps with it the last session."""
        if not self.here and not self.sessions:
            self._alone()

    def leave_all(self) -> None:
        """The head ends: so does what clients wanted, and all sessions."""
        for home in (*self.here.values(), *self.sessions):
            self._head.withdraw_all(home)

    async def farewell(self) -> None:
        """Send goodbye to all clients: no more messages come, and reconnecting is of no use."""
        guests = list(self.here.values())
        for guest in guests:
            if guest.session is not None:
                guest.post(Goodbye("it has closed"))
        with anyio.move_on_after(FAREWELL_S):
            for guest in guests:
                await guest.link.drain()

    def workers_changed(self) -> None:
        """Send the workers to every client that submits jobs, and not just queries; changes that come together are
        sent once.
        """
        for guest in self.here.values():
            if not guest.paths:
                continue
            if guest.number in self._telling:
                self._telling[guest.number] = True
            elif guest.tasks is not None:
                self._telling[guest.number] = False
                guest.post(self._workers(0))
                guest.tasks.start_soon(self._tell_more, guest)

    async def _tell_more(self, guest: Guest) -> None:
        """Send the workers again after a while, if they have changed by then."""
        try:
            while True:
                await anyio.sleep(WORKERS_S)
                if not self._telling[guest.number]:
                    return
                self._telling[guest.number] = False
                guest.post(self._workers(0))
        finally:
            del self._telling[guest.number]

    def hear(self, guest: Guest, frames: Sequence[Frame]) -> None:
        """Handle the frames of one read of a client's link."""
        guest.heard = time.monotonic()
        fresh = frames if guest.session is None else guest.session.hear(frames)
        wanted = [frame for frame in fresh if isinstance(frame.message, _WANTS)]
        if wanted:  # first: who asks about his jobs may do so in the same breath
            self._head.check_frames(wanted, guest.number)
            self._admit(guest, wanted)
        for message, _ in fresh:
            match message:
                case _ if isinstance(message, _Short):
                    guest.post(self._answer(message))
                case AskLogs():
                    self._tell_logs(guest, message)
                case AskTrace() if guest.tasks is not None:
                    guest.tasks.start_soon(tell_trace, guest.link, message.ask, self._head.recorder)
                case AskOutcome() if guest.tasks is not None and self.store is not None:
                    guest.tasks.start_soon(self.store.tell, guest.link, message, self._kept(guest, message.child))
                case EnoughLogs():
                    if message.ask in guest.listening:
                        guest.listening[message.ask].cancel()
                case Beat():
                    pass
                case _ if not isinstance(message, _WANTS):
                    logger.warning("client %s sent %s, which clients do not send", guest.name, type(message).__name__)
        if guest.over:
            self.leave(guest)
            guest.post(Goodbye("it has left"))  # so that it knows that all it said was heard, and hangs up

    def _admit(self, guest: Guest, frames: Sequence[Frame]) -> None:
        """Take a client's messages about its jobs; where no more outcomes can be kept, calls with names are refused."""
        why = None if self.store is None else self.store.refusal()
        if why is None:
            self._take(guest, frames)
            return
        for named, part in groupby(frames, _has_names):
            if named:
                self._refuse_named(guest, list(part), why)
            else:
                self._take(guest, list(part))

    def _refuse_named(self, guest: Guest, frames: Sequence[Frame], why: str) -> None:
        """Make no jobs of calls with names, and send their client the reason."""
        for message, buffers in frames:
            assert isinstance(message, Nested)
            self._head.refuse_for(guest.home, message, buffers, guest.paths, guest.number, SessionError(why))

    def _kept(self, guest: Guest, child: int) -> NamedCall | None:
        return guest.home.kept_apart(child) if isinstance(guest.home, NamedSession) else None

    def _take(self, guest: Guest, frames: Sequence[Frame]) -> None:
        """Handle a client's messages about its jobs, each once, however often its link broke."""
        for message, buffers in frames:
            match message:
                case Nested():
                    self._submit(guest, message, buffers)
                case Withdraw():
                    if isinstance(guest.home, NamedSession):
                        guest.home.withdraws(message.children)
                    self._head.withdraw_for(guest.home, message)
                case ReleaseFunctions():
                    self._head.release_for(guest.number, message.digests)
                case Forget():
                    if isinstance(guest.home, NamedSession):
                        guest.home.forgets(message.names)
                case EndSessions():
                    self._end_sessions(message.sessions)
                case ImportsFrom():
                    guest.paths = tuple(message.paths)

    def _submit(self, guest: Guest, message: Nested, buffers: Sequence[Buffer]) -> None:
        session = guest.home if isinstance(guest.home, NamedSession) else None
        if session is not None:
            session.submits(message)
        try:
            self._head.submit_for(guest.home, message, buffers, guest.paths, guest.number)
        except Exception:
            if session is not None:
                session.withdraws(message.children)  # they never were
            raise

    def _end_sessions(self, names: Sequence[str]) -> None:
        for session in filter(None, map(self.sessions.find, names)):
            for job in list(session.jobs.values()):
                self._head.cancel_nested(job)
            session.forget_all()

    def _tell_logs(self, guest: Guest, question: AskLogs) -> None:
        lines = self._head.view.logs_of(question.job, follow=question.follow)
        if lines is None:
            guest.link.post(self._no_job(question.ask, question.job))
        elif len(guest.listening) >= _MOST_LOGS:
            guest.link.post(Unable(question.ask, f"one client may listen to {_MOST_LOGS} jobs at a time"))
        elif guest.tasks is not None:
            guest.tasks.start_soon(guest.tell, guest.link, question.ask, lines, guest.listens(question.ask))

    def _answer(self, question: _Short) -> Message:
        ask = question.ask
        match question:
            case AskHead():
                return self._about_head(ask)
            case AskWorkers():
                return self._workers(ask)
            case AskJobs():
                return JobsAre(ask, self._rows(max(0, min(question.most, MOST_ROWS))), self._head.view.unended)
            case AskJob():
                found = self._head.view.explain_job(question.job)
                if found is None:
                    return self._no_job(ask, question.job)
                return job_is(ask, self._head.view.name_of(question.job), found)
            case AskCancel():
                return Done(ask) if self._cancel(question.job) else self._no_job(ask, question.job)
            case AskDepart():
                return Matched(ask, self._head.let_go(question.patterns, kill=question.kill))
            case AskWanted():
                return self._wanted(question)
            case AskReport():
                return report_is(ask, self._head.totals(), self._head.view.unended)
            case AskStop():
                why = f"this head is part of a program, process {os.getpid()}, and ends with it"
                return Done(ask) if self._stop() else Unable(ask, why)
            case AskSessions():
                now = self._head.now()
                return SessionsAre(ask, [session.row(now, self._limit()) for session in self.sessions])

    def _limit(self) -> int:
        return 0 if self.store is None else self.store.budget

    def _rows(self, most: int) -> list[JobRow]:
        programs = {guest.number: guest.name for guest in self.here.values()}
        programs |= {session.number: session.name for session in self.sessions}
        rows = self._head.view.rows(most)
        return [replace(row, program=programs.get(row.client, ""), named=self._named(row.job)) for row in rows]

    def _named(self, job: int) -> str:
        home, child = self._head.view.home_of(job)
        return home.name_of(child) if isinstance(home, NamedSession) else ""

    def _no_job(self, ask: int, job: int) -> Unable:
        last = self._head.view.last_job
        if 0 < job <= last:
            return Unable(ask, f"there is no job {job} any more: it has ended")
        return Unable(ask, f"there is no job {job} yet: {f'the last one is {last}' if last else 'none was submitted'}")

    def _wanted(self, question: AskWanted) -> Message:
        try:
            offer = offer_of(parse(question.offer), own_cores=())
        except GrainlikeError as error:
            return Unable(question.ask, f"{question.offer!r} is no offer: {error}")
        return WantedIs(question.ask, self._head.view.wanted(offer, question.most, question.within_s))

    def _workers(self, ask: int) -> WorkersAre:
        return WorkersAre(ask, [worker_row(worker) for worker in self._head.view.workers()])

    def _about_head(self, ask: int) -> HeadIs:
        return HeadIs(
            ask,
            self._cluster,
            __version__,
            platform.python_version(),
            os.getpid(),
            time.monotonic() - self._opened,
            len(self._head.peers),
            len(self.here),
            self._head.view.states(),
            self._journal(),
        )

    def _journal(self) -> str:
        """Return whether inputs are journaled, as text for clients; empty if this head does not survive its process."""
        return ""


def _has_names(frame: Frame) -> bool:
    return isinstance(frame.message, Nested) and any(frame.message.names)

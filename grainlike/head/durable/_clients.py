"""Clients of a durable head: what they send about jobs is journaled before it is acted on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from anyio.abc import TaskGroup
from msgspec.structs import replace

from grainlike.errors import JournalError
from grainlike.head.durable._head import DurableHead
from grainlike.head.durable._records import ClientCame, ClientRefused, ClientSaid, ClientWent
from grainlike.head.server import ClientConnection, ClientRegistry
from grainlike.net import ClosedLink, Link
from grainlike.wire import Frame, HeadIs, Hello, Notice, Submit

__all__ = ["DurableClients"]


class DurableClients(ClientRegistry):
    """Client registry of a `DurableHead`. Implements its `RestoredClients`."""

    _head: DurableHead
    directory: str = ""
    """Path of the journal."""

    def __init__(
        self,
        head: DurableHead,
        cluster: str,
        cancel: Callable[[int], bool],
        stop: Callable[[bool], bool],
        alone: Callable[[], None] | None,
    ) -> None:
        super().__init__(head, cluster, cancel, stop, alone)
        self._warned: set[int] = set()
        """Clients that have been told that no jobs are started."""

    # --- what was -----------------------------------------------------------------------------------------------------

    def came(self, what: ClientCame) -> None:
        """Replay that a client came."""
        self.join(what.hello, ClosedLink(what.hello.name, what.host), None)

    def said(self, what: ClientSaid, frames: Sequence[Frame]) -> None:
        """Replay messages of a client."""
        connection = self._resumed(what)
        with suppress(Exception):  # it ended the connection then, and nothing else
            self._take(connection, frames)

    def refused(self, what: ClientRefused, frames: Sequence[Frame]) -> None:
        """Replay that jobs of a client were refused."""
        if what.full:
            super()._refuse_named(self._resumed(what), frames, what.why)
        else:
            self._refuse(self._resumed(what), frames, JournalError(what.why))

    def _resumed(self, what: ClientSaid | ClientRefused) -> ClientConnection:
        """Return the client of a record, with its session's counts of received and acknowledged messages as they were
        then.
        """
        connection = self.here[what.client]
        if connection.session is not None:
            connection.session.resume_at(what.received, what.heard)
        return connection

    def all_went(self) -> None:
        """Replay that the head ended all work, and all clients had left."""
        for connection in list(self.here.values()):
            self.leave(connection)
        self._end_sessions([session.name for session in self.sessions])
        for session in self.sessions:
            session.jobs.clear()  # those that were withdrawn before tell their session of no end
        self._head.workers_went()

    def went(self, what: ClientWent) -> None:
        """Replay that a client left, or was given up."""
        self.leave(self.here[what.client])

    # --- what is ------------------------------------------------------------------------------------------------------

    def join(
        self, hello: Hello, link: Link, tasks: TaskGroup | None, welcome: Callable[[int], object] | None = None
    ) -> ClientConnection:
        number = self._head.state.last_peer + 1
        with self._head.input(lambda now: ClientCame(now, number, link.host, hello)):
            connection = super().join(hello, link, tasks, welcome)
        if connection.session is not None:
            connection.session.tells = False
        self._tell_failure(connection)
        return connection

    def came_back(self, connection: ClientConnection, tasks: TaskGroup) -> None:
        super().came_back(connection, tasks)
        self._tell_failure(connection)

    def tell_failure(self) -> None:
        """Warn the programs of jobs that none are started, as the journal is not kept."""
        for connection in self.here.values():
            self._tell_failure(connection)

    def tell_mended(self) -> None:
        """Tell those who were warned that jobs are started again."""
        for number in self._warned & self.here.keys():
            self.here[number].post(Notice("the head starts jobs again: its journal is kept again"))
        self._warned.clear()

    def _tell_failure(self, connection: ClientConnection) -> None:
        """Warn a client once, if it has jobs and is there; one that is away is told when it comes back."""
        failure = self._head.failure
        is_program = bool(connection.paths or connection.hello.session)
        if failure is None or not is_program or connection.link.closed or connection.number in self._warned:
            return
        self._warned.add(connection.number)
        connection.post(Notice(f"the head starts no jobs for now, and takes none: {failure}"))

    def leave(self, connection: ClientConnection) -> None:
        self._warned.discard(connection.number)
        if connection.number in self.here:
            with self._head.input(lambda now: ClientWent(now, connection.number)):
                super().leave(connection)

    def _about_head(self, ask: int) -> HeadIs:
        return replace(super()._about_head(ask), directory=self.directory)

    def _journal(self) -> str:
        failure = self._head.failure
        return "kept" if failure is None else f"not kept, so no jobs are taken, and none are started: {failure}"

    def _take(self, connection: ClientConnection, frames: Sequence[Frame]) -> None:
        session, number = connection.session, connection.number
        received, heard = (0, 0) if session is None else (session.received, session.heard)
        if self._head.failure is not None:
            frames = self._refuse_jobs(connection, frames, received, heard)
        with self._head.input(lambda now: ClientSaid(now, number, received, heard), frames) as position:
            if self._head.failure is not None:  # this very record could not be written
                frames = self._refuse_jobs(connection, frames, received, heard)
            if session is not None:
                self._head.owe(session, position)
            super()._take(connection, frames)

    def _refuse_named(self, connection: ClientConnection, frames: Sequence[Frame], why: str) -> None:
        session = connection.session
        received, heard = (0, 0) if session is None else (session.received, session.heard)
        refused = lambda now: ClientRefused(now, connection.number, received, heard, why, full=True)  # noqa: E731
        with self._head.input(refused, frames) as position:
            if session is not None:
                self._head.owe(session, position)
            super()._refuse_named(connection, frames, why)

    def _refuse_jobs(
        self, connection: ClientConnection, frames: Sequence[Frame], received: int, heard: int
    ) -> list[Frame]:
        """Send a client why there will be no jobs; return its other messages."""
        refused = [frame for frame in frames if isinstance(frame.message, Submit)]
        why = str(self._head.failure)
        if refused:
            with self._head.input(lambda now: ClientRefused(now, connection.number, received, heard, why), refused):
                self._refuse(connection, refused, JournalError(why))
        return [frame for frame in frames if not isinstance(frame.message, Submit)]

    def _refuse(self, connection: ClientConnection, frames: Sequence[Frame], error: JournalError) -> None:
        for message, buffers in frames:
            assert isinstance(message, Submit)
            self._head.refuse_for(connection.reply_to, message, buffers, connection.paths, connection.number, error)

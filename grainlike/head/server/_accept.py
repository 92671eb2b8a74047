"""Admission to a head: the listening side of the handshake, for every link, however it was made."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import TaskGroup

from grainlike.errors import BlockEndedError, GrainlikeError, HeadLostError
from grainlike.eventloop import stays, yield_turn
from grainlike.head import Connection, Head, ReplyTo, WorkerConnection, check_data, check_hello
from grainlike.head.server._client import ClientConnection
from grainlike.head.server._clients import ClientRegistry
from grainlike.head.server._sessions import NamedSession
from grainlike.net import ByteLink, Link, is_gone, process_id, software
from grainlike.resources import parse_allocation
from grainlike.scheduler import JobState
from grainlike.system import max_message_bytes
from grainlike.wire import (
    FROM_CLIENT,
    FROM_WORKER,
    HEARTBEAT_S,
    LOST_S,
    OWN_VALUES,
    SUSPECT_S,
    AcceptingHandshake,
    Beat,
    Frame,
    FrameLimits,
    Hello,
    Notice,
    Welcome,
)

__all__ = ["Acceptor"]

logger = logging.getLogger("grainlike")

_ROLES = frozenset({"worker", "client"})

HANDSHAKE_S = 10.0

MOST_WAITING = 64 * 1024 * 1024
"""A peer with a larger send backlog, in bytes, that reads nothing for `SEND_STALL_S` is disconnected. It may reconnect
and resume while its unacknowledged messages are kept (`ResendBuffer`).
"""

SEND_STALL_S = LOST_S

ENDED_S = 2.5
"""Seconds in which a peer on another machine may reconnect after its link was closed in good order: a process that
dies leaves its link like that.
"""

SECOND_LOOK_S = 1.0
"""Seconds after that until its silence is believed."""

_SHOWN = 20
"""Numbers of jobs that a line of the log has at most."""

_LOOK_S = 0.0003
"""About the seconds that it takes to check that a process exists, and to report a broken link to the scheduler."""


@dataclass(slots=True)
class Acceptor:
    """Acceptor: admits workers to `head`, and clients to `clients`. `paths` are the imports that jobs may need.

    `settled` is called after each batch of frames, when outcomes may have come; `joined` when a worker came or left.
    `admit_block` is asked for the label of each worker that belongs to a block: the words with which it is refused, or
    None.
    `returns` is true if this head survives its process. `most` is how many bytes of values one message may bring.
    From `close` on, nothing is read and no peer is admitted: connections break, and peers try again.
    """

    head: Head
    clients: ClientRegistry
    cluster: str
    paths: list[str]
    settled: Callable[[], None]
    joined: Callable[[], None]
    admit_block: Callable[[str], str | None]
    returns: bool = False
    most: int = field(default_factory=max_message_bytes)
    pace: float = 1.0
    """Factor of the usual seconds between heartbeats, and of silence until a peer is suspected or lost."""
    closing: str = ""
    """Reason for which links are closed and nothing is read from them any more; empty while they are served."""
    sent_before: dict[int, int] = field(default_factory=dict)
    """For the peers that have not come back since this head was started, the number of messages that they had been sent
    until then. Who has more heard some that are not in the journal, whatever this head has to say to it by now.
    """

    @property
    def heartbeat_s(self) -> float:
        """Seconds between the heartbeats of either end."""
        return HEARTBEAT_S * self.pace

    @property
    def suspect_s(self) -> float:
        """Seconds of silence after which a worker gets no more jobs for now."""
        return SUSPECT_S * self.pace

    @property
    def lost_s(self) -> float:
        """Seconds of silence after which a peer counts as lost."""
        return LOST_S * self.pace

    def close(self, reason: str) -> None:
        """Break all connections, and those that come from now on."""
        self.closing = reason
        for connection in [*self.head.peers.values(), *self.clients.here.values()]:
            connection.link.close(reason)

    def await_returns(self, tasks: TaskGroup) -> None:
        """Keep the connections of peers from before this head was started, until they reconnect or are given up."""
        before: list[WorkerConnection | ClientConnection] = [*self.head.peers.values(), *self.clients.here.values()]
        for connection in before:
            if connection.session is not None:
                self.sent_before[connection.number] = connection.session.sent
            tasks.start_soon(self._await_return, connection)

    async def _await_return(self, connection: WorkerConnection | ClientConnection) -> None:
        if isinstance(connection, WorkerConnection):
            self.suspect(connection, "the head was started again", broke=False)
        if connection.session is None or not await _returns_within(self.lost_s, connection):
            logger.warning("%s %s has not come back", connection.hello.role, connection.name)
            self.give_up(connection, "it did not come back when the head was started again")

    def suspect(self, worker: WorkerConnection, why: str, *, broke: bool) -> None:
        """Have a worker get no jobs until it sends something, and tell clients so."""
        self.head.suspect(worker, why, broke=broke)
        self.clients.workers_changed()

    def give_up(self, connection: WorkerConnection | ClientConnection, reason: str) -> None:
        """Give up a peer for good: a worker's jobs are tried elsewhere, a client's are cancelled."""
        self.sent_before.pop(connection.number, None)
        if isinstance(connection, WorkerConnection):
            ran, was_here = self._running(connection.number), connection.number in self.head.peers
            self.head.leave(connection, reason)
            if not self.closing:  # else the next head has them: nothing follows from what is given up here
                if was_here and (ran or not connection.leaving):
                    self.clients.worker_lost(connection.name, len(ran), reason)
                again = [job for job in ran if job in self.head.state.scheduler.jobs]
                _warn_of_reruns(again, connection.name)
                _tell_of_reruns(map(self.head.view.reply_to_of, again), connection.name, reason)
            self.joined()
        else:
            self.clients.leave(connection)
        self.settled()

    def _running(self, worker: int) -> list[int]:
        """Return the jobs that a worker has started and not ended; none of one that has left."""
        known = self.head.state.scheduler.workers.get(worker)
        return [] if known is None else [job.id for job in known.held.values() if job.state is JobState.LEASED]

    async def admit(self, link: Link) -> None:
        """Own one link until it ends: handshake, then reports; a lost worker's jobs go elsewhere."""
        async with anyio.create_task_group() as tasks:
            handler = ConnectionHandler(self, link, tasks)
            tasks.start_soon(handler.watch)
            try:
                await link.run(handler.hear)
                await handler.wait_for_return()
            except GrainlikeError as error:
                logger.warning("the connection from %s was dropped: %s", link.peer, error)
            else:
                handler.tell_of_end()
            finally:
                handler.end()
                tasks.cancel_scope.cancel()


def _warn_of_reruns(jobs: list[int], worker: str) -> None:
    """Log which jobs of a worker that was given up run again, if there are any."""
    if jobs:
        shown = f"{', '.join(map(str, jobs[:_SHOWN]))}{' ...' if len(jobs) > _SHOWN else ''}"
        logger.warning("%s: %s", _run_again(len(jobs), "job", f"on worker {worker}"), shown)


def _tell_of_reruns(calls: Iterable[tuple[ReplyTo | None, int]], worker: str, why: str) -> None:
    """Tell programs how many of their calls run again, as the worker on which they ran was given up."""
    known: dict[ReplyTo, list[int]] = {}
    for reply_to, child in calls:
        if isinstance(reply_to, ClientConnection | NamedSession):
            known.setdefault(reply_to, []).append(child)
    for reply_to, children in known.items():
        again = _run_again(len(children), "call", "there")
        reply_to.post(Notice(f"worker {worker} was lost ({why}): {again}", children[0]))


def _run_again(count: int, noun: str, where: str) -> str:
    return f"1 {noun} that ran {where} runs again" if count == 1 else f"{count} {noun}s that ran {where} run again"


class ConnectionHandler:
    """Incoming connection: unidentified at first, a worker or a client once it has sent `Hello` and was welcomed."""

    def __init__(self, acceptor: Acceptor, link: Link, tasks: TaskGroup) -> None:
        self._acceptor = acceptor
        self._link = link
        self._tasks = tasks
        self._handshake = AcceptingHandshake(software(), _ROLES, link.role)
        self._peer: WorkerConnection | None = None
        self._connection: ClientConnection | None = None
        self._refused = False
        self._answered = anyio.Event()
        self._late = False
        self._given_up = False
        self._stalled_since: float | None = None

    def hear(self, frames: list[Frame]) -> None:
        """Take one read."""
        if self._acceptor.closing:
            self._link.close(self._acceptor.closing)
            return
        connection = self._peer or self._connection  # `_known` without its call, for each batch of frames
        if connection is None:
            frames = self._introduced(frames)
            connection = self._known
        if connection is not None and connection.link is not self._link:
            return  # what it says here, it says again on its new link
        if self._peer is not None:
            doubted = self._peer.suspect
            self._acceptor.head.hear(self._peer, frames)
            if doubted:
                self._acceptor.clients.workers_changed()
        elif self._connection is not None:
            self._acceptor.clients.hear(self._connection, frames)
        self._acceptor.settled()
        if self._acceptor.clients.alone is not None:  # rarely so: each batch of frames passes here
            self._acceptor.clients.look_whether_alone()

    def _introduced(self, frames: list[Frame]) -> list[Frame]:
        """Read until the peer is identified; return the frames that follow."""
        at = 0
        while self._known is None and at < len(frames) and not self._refused:
            self._greet(frames[at])
            at += 1
        return frames[at:]

    @property
    def _known(self) -> WorkerConnection | ClientConnection | None:
        """Peer of this connection, once it was welcomed."""
        return self._peer or self._connection

    def _greet(self, frame: Frame) -> None:
        try:
            hello = self._handshake.receive(frame.message)
            if hello.resumes:
                self._take_back(hello)
                return
            if hello.role == "client":
                self._acceptor.clients.check_session(hello)
                received = min(0, hello.received)
                welcome = partial(self._welcome, FROM_CLIENT, hello.name, "", received)
                self._connection = self._acceptor.clients.join(hello, self._link, self._tasks, welcome)
                return
            offer = parse_allocation(hello.offer)  # before the welcome: after that nothing is a refusal any more
            self._check_block(hello)
            check_data(hello)
            if self._acceptor.returns:
                check_hello(hello)
            name = self._acceptor.head.free_name(hello.name)
            store = self._acceptor.head.object_store.directory_for(hello)
            welcome = partial(self._welcome, FROM_WORKER, name, store, min(0, hello.received))
            self._peer = self._acceptor.head.join(hello, offer, name, self._link, welcome)
            self._acceptor.joined()
        except GrainlikeError as error:
            level = logging.INFO if isinstance(error, BlockEndedError) else logging.WARNING
            logger.log(level, "%s was refused: %s", self._link.peer, error)
            self._link.post(AcceptingHandshake.refusal(error))
            self._refused = True
            self._answered.set()

    def _check_block(self, hello: Hello) -> None:
        """Raise `BlockEndedError` for a worker of a block that does not live."""
        why_not = self._acceptor.admit_block(hello.block) if hello.role == "worker" and hello.block else None
        if why_not is not None:
            raise BlockEndedError(why_not)

    def _take_back(self, hello: Hello) -> None:
        """Resume the session of a peer that has reconnected, if it was not given up."""
        head, clients = self._acceptor.head, self._acceptor.clients
        known = head.incarnation if hello.role == "worker" else clients.incarnation
        connection = known(hello.incarnation)
        try:
            self._check_block(hello)
        except BlockEndedError as error:
            if connection is not None:
                self._acceptor.give_up(connection, str(error))
            raise
        if connection is None or connection.session is None:
            raise HeadLostError(
                f"{hello.role} {hello.name!r} was given up meanwhile, as one that is silent for "
                f"{self._acceptor.lost_s:g} s: its event loop may have been blocked; it may join as somebody new"
            )
        why_not = connection.session.why_not(hello.received, self._acceptor.sent_before.get(connection.number))
        if why_not is not None or not isinstance(self._link, ByteLink):
            why_not = why_not or "this link cannot take the place of another"
            self._acceptor.give_up(connection, f"when it connected again, {why_not}")
            who = f"{hello.role} {connection.name}"
            raise HeadLostError(f"the head cannot go on with {who}: {why_not}; it may join as somebody new")
        limits = FROM_WORKER if hello.role == "worker" else FROM_CLIENT
        client = connection.number if hello.role == "client" else 0
        self._welcome(limits, connection.name, "", connection.session.received, client)
        connection.go_on(self._link, hello.received)
        self._acceptor.sent_before.pop(connection.number, None)
        if isinstance(connection, WorkerConnection):
            self._peer = connection
            head.values.returned(connection)
            head.heard(connection)
            clients.workers_changed()
        else:
            self._connection = connection
            clients.came_back(connection, self._tasks)
        logger.info("%s %s is there again, from %s", hello.role, connection.name, self._link.peer)

    def _welcome(self, limits: FrameLimits, name: str, store: str, received: int, client: int = 0) -> None:
        self._link.trust(limits._replace(total=self._acceptor.most))
        self._answered.set()
        acceptor = self._acceptor
        if not all(peer.hello.replicas for peer in acceptor.head.peers.values()):
            client = 0  # a worker has nowhere to keep values: large arguments travel
        about = acceptor.cluster, acceptor.heartbeat_s, acceptor.paths, name, store, process_id()
        self._link.post(Welcome(*about, received, acceptor.returns, client * OWN_VALUES))

    async def watch(self) -> None:
        """End the link of a peer that does not identify itself, was refused, or fell silent."""
        with anyio.move_on_after(HANDSHAKE_S):
            await self._answered.wait()
        if self._known is None:
            self._late = not self._refused
            await self._link.drain(1.0)
            self._link.close(f"no handshake within {HANDSHAKE_S:g} s" if self._late else "refused")
            return
        number = 0
        acceptor = self._acceptor
        doubt = suspicion = False
        while True:
            number += 1
            self._beat(Beat(number))
            if self._link.still_comes():
                self._known.heard = time.monotonic()
            # Our own loop may have been blocked, with beats waiting to be read: no peer is given up at the first look.
            if doubt and await stays(lambda: self._silent_s >= acceptor.lost_s):
                break
            doubt = self._silent_s >= acceptor.lost_s
            if suspicion and self._peer is not None and self._silent_s >= acceptor.suspect_s and self._is_current:
                acceptor.suspect(self._peer, f"silent for {acceptor.suspect_s:g} s", broke=False)
            suspicion = self._silent_s >= acceptor.suspect_s
            self._disconnect_stalled()
            await anyio.sleep(min(acceptor.heartbeat_s, max(SECOND_LOOK_S, acceptor.lost_s - self._silent_s)))
        self._given_up = True
        self._link.close(f"silent for {acceptor.lost_s:g} s")

    def _disconnect_stalled(self) -> None:
        """Disconnect a peer that reads nothing of its send backlog, while that grows."""
        waiting = self._link.waiting()
        if waiting <= MOST_WAITING or not self._link.stands_still():
            self._stalled_since = None
            return
        now = time.monotonic()
        self._stalled_since = self._stalled_since or now
        if now - self._stalled_since >= SEND_STALL_S and self._known is not None and self._is_current:
            self._stalled_since = None
            reason = f"it has read nothing for {SEND_STALL_S:g} s, and {waiting >> 20} MiB wait for it"
            logger.warning("the link to %s %s is cut: %s", self._known.hello.role, self._known.name, reason)
            self._link.close(reason)

    def _beat(self, beat: Beat) -> None:
        if self._known is not None and self._is_current:
            self._known.post(beat)

    @property
    def _is_current(self) -> bool:
        """True if this is the peer's current link: it has not reconnected over another."""
        return self._known is not None and self._known.link is self._link

    async def wait_for_return(self) -> None:
        """Keep the connection of a peer whose link has broken, until it has reconnected, is dead, or too late."""
        connection = self._known
        if (
            connection is None
            or connection.session is None
            or connection.over
            or self._given_up
            or not self._is_current
        ):
            return
        if isinstance(connection, WorkerConnection) and connection.leaving:
            return
        await yield_turn(_LOOK_S)  # where a network breaks, hundreds of links end at once
        if not self._is_current:
            return
        if not is_gone(connection.hello.process):
            self._doubt(connection, self._link.reason or "the connection was lost")
        await _returns_within(self._patience(connection), connection)

    def _doubt(self, connection: WorkerConnection | ClientConnection, reason: str) -> None:
        """Suspect a peer whose link has broken, as it may be alive."""
        if isinstance(connection, ClientConnection):
            logger.info("the link to client %s has broken: %s", connection.name, reason)
            self._acceptor.head.values.broke(connection)
            return
        logger.warning("the link to worker %s has broken: %s", connection.name, reason)
        self._acceptor.suspect(connection, f"its link has broken: {reason}", broke=True)
        self._acceptor.settled()

    def _patience(self, connection: WorkerConnection | ClientConnection) -> float:
        """Return how many seconds a peer may take to reconnect. One whose process cannot be seen from here, and whose
        link ended in order, as that of a dead process does, has less.
        """
        ended = (self._link.reason or "").startswith("closed by the peer")
        elsewhere = not connection.hello.process.startswith(f"{process_id().partition('/')[0]}/")
        return ENDED_S if ended and elsewhere else max(0.0, self._acceptor.lost_s - self._silent_s)

    @property
    def _silent_s(self) -> float:
        assert self._known is not None
        return time.monotonic() - self._known.heard

    def tell_of_end(self) -> None:
        """Log an end that was not asked for. An unidentified peer may come and go; a refusal was logged already."""
        if self._known is not None and not self._is_current:
            return
        if self._peer is not None:
            level = logging.INFO if self._peer.leaving else logging.WARNING
            logger.log(level, "worker %s is gone: %s", self._peer.name, self._link.reason)
        elif self._connection is not None:
            # Who only asked, as the command line does, is no news.
            level = logging.DEBUG if self._connection.session is None else logging.INFO
            logger.log(level, "client %s is gone: %s", self._connection.name, self._link.reason)
        elif self._late:
            logger.warning("the connection from %s was dropped: %s", self._link.peer, self._link.reason)

    def end(self) -> None:
        """Give up the peer after the end of its link, unless it has reconnected."""
        if self._known is None or not self._is_current:
            return
        self._acceptor.give_up(self._known, self._link.reason or "the connection was lost")


async def _returns_within(seconds: float, connection: Connection) -> bool:
    """Wait until a peer has reconnected; return False if it is dead, or too late."""
    link = connection.link
    with anyio.move_on_after(seconds):
        for pause in _looks():
            await yield_turn(_LOOK_S)
            if is_gone(connection.hello.process) or connection.link is not link:
                break
            with anyio.move_on_after(pause):
                await connection.taken_over.wait()
    return connection.link is not link


def _looks() -> Iterator[float]:
    """Seconds between looks whether a process is still there: soon after its link broke it may be dying."""
    yield from (0.01, 0.02, 0.05, 0.1, 0.2)
    while True:
        yield 0.5

"""Durable head: it journals each input before it acts on it.

All that a head does is a function of its inputs, their order, and their times: the scheduler is deterministic, and
this driver adds no randomness and no clock of its own. So `replay` restores the state of a killed head, down to the
numbers of the messages that it had sent; workers and clients then resume as after any broken link.

Three things keep that true. The clock is fixed while an input is taken, and is part of its record. What is sent to
workers for other reasons, as to send a job's output, is an input too. And messages are acknowledged only once they
are on disk, so that their sender can resend them.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from grainlike.errors import JournalError
from grainlike.head import Head, ObjectStore, WorkerConnection, check_hello
from grainlike.head.durable._clock import PersistentClock
from grainlike.head.durable._records import (
    AllWent,
    ClientCame,
    ClientRefused,
    ClientSaid,
    ClientWent,
    HeadBegan,
    Input,
    JobStopped,
    RecordsMissing,
    StartsHeld,
    TimeCame,
    WorkerCame,
    WorkerDoubted,
    WorkerReturned,
    WorkerSaid,
    WorkersSentOff,
    WorkerTimeTold,
    WorkerTold,
    WorkerWent,
    WrittenBy,
    pack_input,
    unpack_input,
)
from grainlike.jobs import OutcomeListener
from grainlike.net import ClosedLink, Link, ResumableSession
from grainlike.resources import Allocation, parse_allocation
from grainlike.scheduler import StartsPaused
from grainlike.wire import (
    Beat,
    Blocked,
    Buffer,
    Follow,
    Frame,
    Halted,
    Hello,
    LoggedRecords,
    Output,
    Pulled,
    ReplicaCredit,
    ReplicaPart,
)

__all__ = ["DurableHead", "InputLog"]

logger = logging.getLogger("grainlike")

_IDLE_WORDS = (Beat, Output, Blocked, Halted, LoggedRecords, ReplicaPart, ReplicaCredit, Pulled)
"""Messages of workers that change nothing here."""

_UNNUMBERED = (Beat, ReplicaPart, ReplicaCredit, Pulled)
"""Those of them that a session does not count."""


class InputLog(Protocol):
    """Log to which inputs are appended: the interface of `grainlike.journal.Journal`."""

    def append(self, record: Sequence[Buffer]) -> int:
        """Write a record; return how far the log goes with it."""
        ...

    @property
    def failure(self) -> JournalError | None:
        """Error for which nothing is written at the moment; None if there is none."""
        ...


class RestoredClients(Protocol):
    """The clients of a head that is made again; see `DurableClients`."""

    def came(self, what: ClientCame) -> None:
        """Replay that a client came."""

    def said(self, what: ClientSaid, frames: Sequence[Frame]) -> None:
        """Replay messages of a client."""

    def refused(self, what: ClientRefused, frames: Sequence[Frame]) -> None:
        """Replay that jobs of a client were refused."""

    def went(self, what: ClientWent) -> None:
        """Replay that a client left, or was given up."""

    def all_went(self) -> None:
        """Replay that the head ended all work, and all clients had left."""


class DurableHead(Head):
    """Head that journals its inputs. `began` has the seed of all random choices."""

    def __init__(
        self, outcomes: OutcomeListener, began: HeadBegan, clock: PersistentClock, alarm: Callable[[float], None]
    ) -> None:
        super().__init__(
            outcomes,
            closed=False,
            alarm=lambda at: alarm(clock.here(at)),
            seed=began.seed,
            now=self._at,
            ahead=lambda: self.calendar,
            opened=began.now,
            object_store=ObjectStore(share=False),  # what is in memory is not there for the next head
        )
        self.decide_as(began.schema)
        self._clock = clock
        self.calendar: float = time.time() - clock()
        """Seconds by which the calendar is ahead of the clock, for what is told of ended jobs."""
        self.dated: bool = False
        """True if that is in the journal."""
        self._log: InputLog | None = None
        self._moment: float | None = None
        self._later: list[tuple[WorkerConnection, Follow]] = []
        self._unsaid: deque[tuple[int, ResumableSession, int]] = deque()
        """Pending acks: (journal position, session, count). Sent once the journal is synced up to `position`."""

    def _at(self) -> float:
        return self._clock() if self._moment is None else self._moment

    def decide_as(self, schema: int | str) -> None:
        """Decide by the rules of a release whose journals have that schema, from now on."""
        number = schema if isinstance(schema, int) else 0
        self.state.functions.decide_as(number)
        self.state.scheduler.decide_as(number)

    def set_calendar(self, ahead: float) -> None:
        """Go by the calendar as so many seconds ahead of the clock from now on."""
        self.history.close_segment()  # those that have ended did so before
        self.calendar, self.dated = ahead, True

    # --- what was -----------------------------------------------------------------------------------------------------

    def replay(self, records: Iterable[Buffer], clients: RestoredClients) -> bool:
        """Restore the state from records; return False if some follow a gap, which are not used.

        Raises:
            JournalError: one is invalid.
        """
        logger.disabled, enabled = True, logger.disabled  # all of it was told when it happened
        failed: list[str] = []
        try:
            for record in records:
                what, frames = unpack_input(record)
                if isinstance(what, RecordsMissing):
                    return False
                self._moment = what.now
                self._clock.has_been(what.now)
                try:
                    self._again(what, frames, clients)
                except JournalError:
                    raise
                except Exception as error:  # noqa: BLE001 - it ended a link when it happened, and nothing else
                    failed.append(f"{type(what).__name__} of {what.now:.3f}: {error!r}")
        finally:
            self._moment = None
            logger.disabled = enabled
            if failed:
                words = "%d inputs in the journal fail, as they did when they came; the first: %s"
                logger.warning(words, len(failed), failed[0])
        return True

    def _again(self, what: Input, frames: Sequence[Frame], clients: RestoredClients) -> None:
        match what:
            case WorkerSaid():
                peer = self.peers[what.worker]
                _session(peer).resume_at(what.received, what.heard)
                self._take(peer, frames)
            case WorkerTold():
                self._told(self.peers[what.worker], frames)
            case WorkerCame():
                self.join(what.hello, parse_allocation(what.offer), what.name, ClosedLink(what.name, what.host))
            case WorkerDoubted():
                self.suspect(self.peers[what.worker], what.why, broke=what.broke)
            case WorkerReturned():
                self.heard(self.peers[what.worker])
            case WorkerWent():
                self.leave(self.peers[what.worker], what.reason)
            case ClientCame():
                clients.came(what)
            case ClientSaid():
                clients.said(what, frames)
            case ClientRefused():
                clients.refused(what, frames)
            case ClientWent():
                clients.went(what)
            case AllWent():
                clients.all_went()
            case JobStopped():
                self.cancel_nested(what.job)
            case WorkersSentOff():
                self.send_off(what.workers, kill=what.kill)
            case WorkerTimeTold():
                self.tell_time_left(what.worker, what.left_s, what.grace_s)
            case TimeCame():
                self.tick()
            case StartsHeld():
                self.hold_starts(what.why)
            case WrittenBy():
                self.decide_as(what.schema)
                if what.calendar:
                    self.set_calendar(what.calendar)
            case _:
                raise JournalError(f"{type(what).__name__} is out of place in a journal")

    def _told(self, peer: WorkerConnection, frames: Sequence[Frame]) -> None:
        for message, _ in frames:
            if not isinstance(message, Follow):
                raise JournalError(f"a worker was told {type(message).__name__} for no reason")
            self.state.last_listener = max(self.state.last_listener, message.follower)
            peer.ask_for_output(message)

    # --- what is ------------------------------------------------------------------------------------------------------

    @property
    def failure(self) -> JournalError | None:
        """Error for which no new jobs are taken; None while they are."""
        return None if self._log is None else self._log.failure

    def keep(self, log: InputLog) -> None:
        """Journal inputs from now on. Log readers ended with the head before, or query again."""
        self._log = log
        for peer in self.peers.values():
            for job, listener in list(peer.follows):
                self._ask(peer, Follow(job, listener, False))

    def wake(self) -> None:
        """Schedule again the tick that the scheduler has asked for."""
        if self.state.scheduler.wakes_at is not None:
            self._alarm(self.state.scheduler.wakes_at)

    @contextmanager
    def input(self, make: Callable[[float], Input], frames: Iterable[Frame] = ()) -> Iterator[int]:
        """Take an input: write it down, then do what follows, all at one moment. Gives how far the log goes with it."""
        if self._moment is not None:  # it follows from another
            yield 0
            return
        self._moment = now = self._clock()
        try:
            yield self._write(make(now), frames)
        finally:
            self._moment = None
            self._ask_later()

    def _write(self, what: Input, frames: Iterable[Frame] = ()) -> int:
        assert self._log is not None, "a head that was not told where to write"
        return self._log.append(pack_input(what, frames))

    def _ask(self, peer: WorkerConnection, follow: Follow) -> None:
        self._later.append((peer, follow))
        if self._moment is None:
            self._ask_later()

    def _ask_later(self) -> None:
        """Send messages that follow from no input: after those that do, since the replay has them after these, too."""
        asked, self._later = self._later, []
        for peer, follow in asked:
            if peer.number in self.peers:
                self._write(WorkerTold(self._clock(), peer.number), [Frame(follow)])
                peer.ask_for_output(follow)

    def owe(self, session: ResumableSession, position: int) -> None:
        """Acknowledge all messages of a session so far, once the log is on disk up to `position`."""
        self._unsaid.append((position, session, session.received))

    def on_disk(self, position: int) -> None:
        """Send acks: the log is on disk up to `position`."""
        unsaid, told = self._unsaid, dict[ResumableSession, int]()
        while unsaid and unsaid[0][0] <= position:
            _, session, received = unsaid.popleft()
            told[session] = received
        for session, received in told.items():
            session.tell(received)

    # --- inputs -------------------------------------------------------------------------------------------------------

    def join(
        self, hello: Hello, offer: Allocation, name: str, link: Link, welcome: Callable[[], object] | None = None
    ) -> WorkerConnection:
        check_hello(hello)
        number = self.state.last_peer + 1
        with self.input(lambda now: WorkerCame(now, number, name, link.host, hello, str(offer))):
            peer = super().join(hello, offer, name, link, welcome)
        _session(peer).tells = False
        return peer

    def suspect(self, peer: WorkerConnection, why: str, *, broke: bool) -> None:
        if peer.number in self.peers and not peer.suspect:
            with self.input(lambda now: WorkerDoubted(now, peer.number, why, broke)):
                super().suspect(peer, why, broke=broke)

    def heard(self, peer: WorkerConnection) -> None:
        if peer.suspect:
            with self.input(lambda now: WorkerReturned(now, peer.number)):
                super().heard(peer)
        else:
            super().heard(peer)

    def leave(self, peer: WorkerConnection, reason: str) -> None:
        if peer.number in self.peers:
            with self.input(lambda now: WorkerWent(now, peer.number, reason)):
                super().leave(peer, reason)

    def _take(self, peer: WorkerConnection, frames: Iterable[Frame]) -> None:
        session, frames = _session(peer), tuple(frames)
        kept = [frame for frame in frames if not isinstance(frame.message, _IDLE_WORDS)]
        if not kept and all(isinstance(frame.message, _UNNUMBERED) for frame in frames):
            super()._take(peer, frames)
            return
        with self.input(lambda now: WorkerSaid(now, peer.number, session.received, session.heard), kept) as position:
            self.owe(session, position)
            left = iter(frames)
            try:
                super()._take(peer, left)
            except Exception:
                rest = list(left)
                if isinstance(frames[-1 - len(rest)].message, _IDLE_WORDS):
                    # It ends the link and is not in the journal; what came behind it is, and the next head has that.
                    super()._take(peer, [frame for frame in rest if not isinstance(frame.message, _IDLE_WORDS)])
                raise

    def end(self, clients: RestoredClients) -> None:
        """Record that all work and all connections have ended: the next head begins without any."""
        with self.input(AllWent):
            clients.all_went()

    def workers_went(self) -> None:
        """Remove all workers."""
        for peer in list(self.peers.values()):
            self.leave(peer, "the head has closed")

    def cancel_nested(self, number: int) -> bool:
        with self.input(lambda now: JobStopped(now, number)):
            return super().cancel_nested(number)

    def send_off(self, workers: Sequence[int], *, kill: bool) -> None:
        with self.input(lambda now: WorkersSentOff(now, list(workers), kill)):
            super().send_off(workers, kill=kill)

    def tell_time_left(self, worker: int, left_s: float, grace_s: float) -> None:
        with self.input(lambda now: WorkerTimeTold(now, worker, left_s, grace_s)):
            super().tell_time_left(worker, left_s, grace_s)

    def tick(self) -> None:
        with self.input(TimeCame):
            super().tick()

    def hold_starts(self, why: str) -> None:
        """Start no job for now, because of `why`; an empty reason resumes, unless the disk has failed once more."""
        with self.input(lambda now: StartsHeld(now, why)):
            if why or self.failure is None:
                self._tell(StartsPaused(why))


def _session(peer: WorkerConnection) -> ResumableSession:
    assert peer.session is not None, "a worker that cannot connect again joined a head that writes a journal"
    return peer.session

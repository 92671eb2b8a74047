"""The client's end of a connection to a head: it introduces itself, asks, and gets answers.

The connection to a head that may not be there yet.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar
from zlib import crc32

import anyio
from msgspec.structs import replace

from grainlike.client._introduction import (
    A,
    RefusedQueryError,
    checked_answer,
    find_client_access,
    hello_of_client,
    lines_of_job,
    own_copy,
    telling_of_death,
)
from grainlike.client._queries import LiveSubscription, LogSubscription, OutcomeFetch, PendingQuery
from grainlike.errors import GrainlikeError, HeadLostError
from grainlike.eventloop import stays
from grainlike.jobs import LogLine
from grainlike.net import (
    ByteLink,
    HeadLocator,
    Link,
    ReconnectingLink,
    dial,
    waits,
)
from grainlike.wire import (
    HEARTBEAT_S,
    LOST_S,
    TRUSTED,
    Answer,
    AskLive,
    AskLogs,
    AskOutcome,
    AskTrace,
    Beat,
    ConnectingHandshake,
    Enough,
    Frame,
    FrameDecoder,
    Goodbye,
    LiveIs,
    LogsAre,
    OutcomeIs,
    Question,
    TraceIs,
    Welcome,
)

__all__ = ["LOOK_S", "HeadClient", "call", "first_link"]


Q = TypeVar("Q", bound=PendingQuery)

logger = logging.getLogger("grainlike")

BLOCKED_S = 10.0
"""Seconds for which the program's event loop must have stood still to be warned of."""

LEAVE_S = 5.0
"""Seconds for which a client that leaves waits for the head's acknowledgement."""

_GOODBYE = Goodbye("it has left")


class HeadClient:
    """Client connection on `link`. Frames that answer no query go to `others`, the replies to their callers.

    On a `ReconnectingLink` it resumes after that has broken, and resends queries that were not answered. `session`
    names the one to which its jobs belong; `name` is what listings have, by default this process's.
    """

    def __init__(
        self, link: Link, others: Callable[[Frame], object] | None = None, session: str = "", name: str = ""
    ) -> None:
        self._link = link
        self._others = others
        self._handshake = ConnectingHandshake(
            hello_of_client(lasting=isinstance(link, ReconnectingLink), session=session, name=name)
        )
        self._heard = time.monotonic()
        self._last_ask = 0
        self._asked: dict[int, PendingQuery] = {}
        self._greeted = anyio.Event()
        self._ended = anyio.Event()
        self._failure: GrainlikeError | None = None
        self._lost: HeadLostError | None = None
        self._leaving = False
        self.beat: Callable[[], object] | None = None
        """Called every `HEARTBEAT_S` seconds while the link is served."""
        if isinstance(link, ReconnectingLink):
            link.returned = self._ask_again

    @property
    def welcome(self) -> Welcome | None:
        """Welcome of the head when it admitted us; None before."""
        return self._handshake.welcome

    @property
    def link(self) -> Link:
        """Link that carries the connection."""
        return self._link

    @property
    def lost(self) -> HeadLostError:
        """Error that there is no head any more, with the reason."""
        if self._lost is not None:
            return self._lost
        if self._failure is not None:
            return HeadLostError(f"the connection to the head at {self._link.peer} is lost: {self._failure}")
        why = self._link.reason or "closed"  # that of a link that reconnects is a sentence about the head
        named = self._link.peer in why
        return HeadLostError(why if named else f"the head at {self._link.peer} is gone: {why}")

    async def run(self) -> None:
        """Serve the link until it ends. Pending queries then raise the reason."""
        self._link.post(self._handshake.hello)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                await self._receive()
                tasks.cancel_scope.cancel()
        finally:
            self._lost = self.lost
            if self._failure is None:
                self._failure = self._lost
            self._greeted.set()
            self._ended.set()
            for asked in self._asked.values():
                asked.end()

    async def _receive(self) -> None:
        try:
            await self._link.run(self._hear)
        except GrainlikeError as error:
            self._failure = error

    async def welcomed(self) -> Welcome:
        """Wait until the head has let us in.

        Raises:
            AuthenticationError, VersionMismatchError, SessionError: the head refuses us.
            HeadLostError: the head closed the link.
        """
        await self._greeted.wait()
        if self.welcome is None:
            assert self._failure is not None
            raise own_copy(self._failure)
        return self.welcome

    async def leave(self) -> None:
        """End in good order: wait until the head has received all that was sent, for at most `LEAVE_S`.

        Where no session outlives the link, closing it is enough.
        """
        if self.welcome is not None and self.welcome.received >= 0:
            self._leaving = True
            self._link.post(_GOODBYE)
            with anyio.move_on_after(LEAVE_S):
                await self.gone()
        self._link.close()

    async def gone(self) -> None:
        """Wait until the connection has ended."""
        await self._ended.wait()

    async def ask(self, question: Question, answer: type[A], take: Callable[[A], object] | None = None) -> A:
        """Send a query, whatever the number in `question`, and wait for the answer.

        `take` is called with the answer when it comes: the caller has its turn later, when what the head has sent
        behind the answer may have been taken already.

        Raises:
            UnableError: the head refuses, with the reason.
            HeadLostError: the head is lost.
        """
        if self._failure is not None:
            raise own_copy(self._failure)
        number, asked = self._post(question, partial(PendingQuery, heard=_only(answer, take)))
        try:
            return self._checked(await asked.next(), answer)
        finally:
            del self._asked[number]

    async def logs(self, job: int, *, follow: bool) -> AsyncGenerator[LogLine, None]:
        """The lines that a job has written, and, to `follow` it, writes until it has ended.

        Raises as `ask` does.
        """
        number, asked = self._post(AskLogs(0, job, follow), LogSubscription)
        try:
            while True:
                told = self._checked(await asked.next(), LogsAre)
                for line in lines_of_job(told):
                    yield line
                if told.end:
                    return
        finally:
            del self._asked[number]
            self._link.post(Enough(number))

    async def outcome(self, child: int) -> Frame:
        """Return the kept outcome of a call in our session, as a message about it.

        Raises as `ask` does; `RefusedQueryError` also for one that is damaged.
        """
        number, asked = self._post(AskOutcome(0, child, 0), OutcomeFetch)
        data = bytearray()
        try:
            while True:
                told = self._checked(await asked.next(), OutcomeIs)
                data += told.data
                if told.end:
                    break
        finally:
            del self._asked[number]
        if crc32(data) != told.checksum:
            raise RefusedQueryError("the outcome is lost: its file at the head is damaged")
        [frame] = FrameDecoder(TRUSTED).feed(data)
        return frame

    async def trace(self) -> AsyncGenerator[TraceIs, None]:
        """Iterate over what ran where and when, piece by piece.

        Raises as `ask`.
        """
        number, asked = self._post(AskTrace(0), PendingQuery)
        try:
            while True:
                told = self._checked(await asked.next(), TraceIs)
                yield told
                if told.end:
                    return
        finally:
            del self._asked[number]

    async def live(self, every_s: float) -> AsyncGenerator[LiveIs, None]:
        """Iterate over updates of what runs, at most one in `every_s` seconds (0.1 at least); `LiveState` takes them.

        After a lost link the first update is a full one again. A reader that falls far behind loses the updates
        between, and gets a full one, too. Raises as `ask`.
        """
        number, asked = self._post(AskLive(0, every_s), LiveSubscription)
        try:
            while True:
                if asked.behind:
                    self._link.post(Enough(number))
                    del self._asked[number]
                    number, asked = self._post(AskLive(0, every_s), LiveSubscription)
                yield self._checked(await asked.next(), LiveIs)
        finally:
            self._asked.pop(number, None)
            self._link.post(Enough(number))

    def _post(self, question: Question, kind: Callable[[Question], Q]) -> tuple[int, Q]:
        if self._failure is not None:
            raise own_copy(self._failure)
        self._last_ask += 1
        question = replace(question, ask=self._last_ask)
        asked = kind(question)
        self._asked[self._last_ask] = asked
        self._link.post(question)
        return self._last_ask, asked

    def _ask_again(self) -> None:
        """Resend the pending queries over a new link: those of the old one are lost."""
        self._heard = time.monotonic()
        for asked in self._asked.values():
            question = asked.again()
            if question is not None:
                self._link.post(question)
        if self._leaving:
            self._link.post(_GOODBYE)

    def _checked(self, told: Answer | None, answer: type[A]) -> A:
        if told is None and self._failure is not None:
            raise own_copy(self._failure)
        return checked_answer(told, answer)

    def _hear(self, frames: list[Frame]) -> None:
        self._heard = time.monotonic()
        for frame in frames:
            message = frame.message
            if self.welcome is None:
                self._handshake.receive(message)
                self._greeted.set()
            elif isinstance(message, Beat):
                self._link.post(message)
            elif isinstance(message, Answer) and message.ask in self._asked:
                self._asked[message.ask].take(message)
            elif self._others is not None:
                self._others(frame)

    async def _watch(self) -> None:
        """Treat a head that sends nothing for so long as lost. Our own loop may have been blocked: check twice."""
        doubt = False
        while True:
            if self._link.still_comes():
                self._heard = time.monotonic()
            if doubt and await stays(self._head_is_silent):
                self._link.give_up(f"silent for {LOST_S:g} s")
            doubt = self._head_is_silent()
            due = time.monotonic() + HEARTBEAT_S
            await anyio.sleep(HEARTBEAT_S)
            if self.beat is not None:
                self.beat()
            self._warn_if_blocked(time.monotonic() - due)

    def _warn_if_blocked(self, seconds: float) -> None:
        """Warn after the event loop has stood still, which the head takes for the end of the program."""
        if seconds >= BLOCKED_S:
            words = (
                "the event loop of this program stood still for %.1f s; a head gives up a program that is silent for "
                "%g s, with its jobs: run long computations with asyncio.to_thread, or as jobs"
            )
            logger.warning(words, seconds, LOST_S)

    def _head_is_silent(self) -> bool:
        return time.monotonic() - self._heard >= LOST_S


def _only(kind: type[A], take: Callable[[A], object] | None) -> Callable[[Answer], object] | None:
    """Return a function that calls `take` with answers of a kind, and drops others, such as refusals."""
    return None if take is None else lambda told: take(told) if isinstance(told, kind) else None


@asynccontextmanager
async def call(head: str | Path | None = None, *, insecure: bool = False) -> AsyncIterator[HeadClient]:
    """Connect to a head as its client, for questions.

    Raises:
        HeadLostError: no head is there.
        AuthenticationError, VersionMismatchError: the head refused us.
        ValueError: `head` is no address, or not an access file.

    Example::

        async with call() as caller:
            print(await caller.ask(AskHead(0), HeadIs))
    """
    access = find_client_access(head)
    with telling_of_death(lambda: access):
        link = await dial(access, insecure=insecure)
    caller = HeadClient(link)
    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller.run)
        try:
            await caller.welcomed()
            yield caller
        except Exception as error:  # noqa: BLE001 - raised below, outside the group, which would wrap it
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


LOOK_S = 2.0
"""Longest pause between two attempts to find a head, in seconds."""

REMIND_S = 30.0
"""Seconds between two log lines that a head is still waited for."""


async def first_link(way: HeadLocator, wait: float) -> ByteLink:
    """Connect to the head, which may take up to `wait` seconds to be there. That it waits is logged: at once, and then
    every `REMIND_S` seconds.

    Raises:
        HeadLostError: no head answered within that time.
        AuthenticationError, ValueError: as `HeadLocator.first`, at once: to wait would not mend it.
    """
    said = anyio.current_time() - REMIND_S
    until = anyio.current_time() + wait
    pauses = waits()
    while True:
        try:
            return await way.first()
        except (HeadLostError, ConnectionError) as error:
            now = anyio.current_time()
            pause = min(next(pauses), LOOK_S, until - now)
            if pause <= 0:
                if not wait:
                    raise
                raise HeadLostError(f"no head came within {wait:g} s: {error}") from error.__cause__
            if now - said >= REMIND_S:
                said = now
                logger.warning("waiting for a head, for up to %.0f s: %s", until - now, error)
            await anyio.sleep(pause)

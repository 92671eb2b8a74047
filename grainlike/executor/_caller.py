"""The client's end of a connection to a head: it introduces itself, asks, and gets answers."""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from msgspec.structs import replace

from grainlike.errors import AuthenticationError, GrainlikeError, HeadLostError, ProtocolError
from grainlike.executor._door import HEARTBEAT_S, LOST_S, software
from grainlike.executor._logs import LogLine
from grainlike.net import Access, Link, dial, find_access
from grainlike.wire import (
    PROTOCOL,
    Answer,
    AskLogs,
    Beat,
    Dialer,
    EnoughLogs,
    Frame,
    Hello,
    LogsAre,
    Question,
    Unable,
    Welcome,
)

__all__ = ["Caller", "UnableError", "call", "find_client_access"]

A = TypeVar("A", bound=Answer)


class UnableError(GrainlikeError):
    """The head cannot do what it was asked for, and says why."""


def find_client_access(head: str | Path | None) -> Access:
    """The access of a client to the head that `head` means: an address, a `client.json`, or (None) the current head.

    Raises as `find_access` does; `AuthenticationError` for the file of another role.
    """
    access = find_access(head, "client")
    if access.role != "client":
        raise AuthenticationError(f"this access file is for a {access.role}; to ask takes the client.json beside it")
    return access


class Caller:
    """A client on `link`. Frames that answer no question go to `others`, the questions' answers to who asked."""

    def __init__(self, link: Link, others: Callable[[Frame], object] | None = None) -> None:
        self._link = link
        self._others = others
        self._handshake = Dialer(_hello())
        self._heard = time.monotonic()
        self._last_ask = 0
        self._asked: dict[int, _Asked] = {}
        self._greeted = anyio.Event()
        self._ended = anyio.Event()
        self._failure: GrainlikeError | None = None

    @property
    def welcome(self) -> Welcome | None:
        """What the head said when it let us in; None before."""
        return self._handshake.welcome

    @property
    def link(self) -> Link:
        """What carries it."""
        return self._link

    async def run(self) -> None:
        """Serve the link until it ends. Whoever still waits for an answer then hears why there is none."""
        self._link.post(self._handshake.hello)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch)
                await self._receive()
                tasks.cancel_scope.cancel()
        finally:
            if self._failure is None:
                self._failure = HeadLostError(f"the head at {self._link.peer} is gone: {self._link.reason}")
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
            AuthenticationError, VersionMismatchError: it will not.
            HeadLostError: it hung up.
        """
        await self._greeted.wait()
        if self.welcome is None:
            assert self._failure is not None
            raise self._failure
        return self.welcome

    async def gone(self) -> None:
        """Wait until the connection has ended."""
        await self._ended.wait()

    async def ask(self, question: Question, answer: type[A]) -> A:
        """Ask, whatever the number in `question`, and wait for the answer.

        Raises:
            UnableError: the head says why not.
            HeadLostError: it is gone.
        """
        if self._failure is not None:
            raise self._failure
        number, asked = self._post(question)
        try:
            return self._checked(await asked.next(), answer)
        finally:
            del self._asked[number]

    async def logs(self, job: int, *, follow: bool) -> AsyncGenerator[LogLine, None]:
        """The lines that a job has written, and, to `follow` it, writes until it has ended.

        Raises as `ask` does.
        """
        number, asked = self._post(AskLogs(0, job, follow))
        try:
            while True:
                told = self._checked(await asked.next(), LogsAre)
                for line, attempt, stream in zip(told.lines, told.attempts, told.streams, strict=True):
                    yield LogLine(line, attempt, stream)
                if told.end:
                    return
        finally:
            del self._asked[number]
            self._link.post(EnoughLogs(number))

    def _post(self, question: Question) -> tuple[int, _Asked]:
        if self._failure is not None:
            raise self._failure
        self._last_ask += 1
        asked = self._asked[self._last_ask] = _Asked()
        self._link.post(replace(question, ask=self._last_ask))
        return self._last_ask, asked

    def _checked(self, told: Answer | None, answer: type[A]) -> A:
        if isinstance(told, Unable):
            raise UnableError(told.why)
        if isinstance(told, answer):
            return told
        if told is None and self._failure is not None:
            raise self._failure
        raise ProtocolError(f"the head answered with {type(told).__name__}, and {answer.__name__} was asked for")

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
        """A head that says nothing at all for so long is lost. Our own loop may have been blocked: look twice."""
        doubt = False
        while not (doubt and time.monotonic() - self._heard >= LOST_S):
            doubt = time.monotonic() - self._heard >= LOST_S
            await anyio.sleep(HEARTBEAT_S)
        self._link.close(f"silent for {LOST_S:g} s")


class _Asked:
    """One question that waits."""

    __slots__ = ("_answers", "_arrived", "_over")

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._arrived = anyio.Event()
        self._over = False

    def take(self, answer: Answer) -> None:
        """An answer has come."""
        self._answers.append(answer)
        self._arrived.set()

    def end(self) -> None:
        """No more will come."""
        self._over = True
        self._arrived.set()

    async def next(self) -> Answer | None:
        """The next answer; None when the link has ended without one."""
        while not self._answers and not self._over:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._answers.popleft() if self._answers else None


@asynccontextmanager
async def call(head: str | Path | None = None, *, insecure: bool = False) -> AsyncIterator[Caller]:
    """Connect to a head as its client, for questions.

    Raises:
        HeadLostError, ConnectionError: no head is there.
        AuthenticationError, VersionMismatchError: it refused us.
        ValueError: `head` is no address, or not an access file.

    Example::

        async with call() as caller:
            print(await caller.ask(AskHead(0), HeadIs))
    """
    caller = Caller(await dial(find_client_access(head), insecure=insecure))
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


def _hello() -> Hello:
    own = software()
    return Hello(
        "client",
        PROTOCOL,
        PROTOCOL,
        own.python,
        own.serializers,
        f"{socket.gethostname()}:{os.getpid()}",
        secrets.token_hex(8),
        os.getpid(),
        "",
        [],
    )

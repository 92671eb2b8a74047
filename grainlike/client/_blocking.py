"""Client of a head for a few questions, without an event loop: to load and start one takes longer than the answers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import closing, contextmanager, suppress
from math import inf
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from grainlike.client._introduction import (
    A,
    checked_answer,
    find_client_access,
    hello_of_client,
    lines_of_job,
    telling_of_death,
)
from grainlike.errors import HeadLostError
from grainlike.jobs import LogLine
from grainlike.net import BlockingConnection, dial_blocking
from grainlike.wire import (
    LOST_S,
    Answer,
    AskLogs,
    AskTrace,
    Beat,
    ConnectingHandshake,
    LogsAre,
    Message,
    Question,
    TraceIs,
)

__all__ = ["BlockingClient", "call_blocking", "completed"]

T = TypeVar("T")


class BlockingClient:
    """Client of a head; a query holds up this thread until its answer is there, and nothing else is heard meanwhile.

    `until` is the moment on the clock of `time.monotonic` from which nothing is waited for.
    """

    def __init__(self, connection: BlockingConnection, until: float | None = None) -> None:
        self._connection = connection
        self._until = until
        self._last_ask = 0
        handshake = ConnectingHandshake(hello_of_client())
        connection.post(handshake.hello)
        while handshake.welcome is None:
            for message in self._heard()[:1]:
                handshake.receive(message)
        self.process: str = handshake.welcome.process
        """The `process_id` of the head."""

    @property
    def peer(self) -> str:
        """Address of the head."""
        return self._connection.peer

    def post(self, message: Message) -> None:
        """Send a message that is not answered. Raises `HeadLostError`."""
        self._connection.post(message)

    async def ask(self, question: Question, answer: type[A]) -> A:
        """Send a query, whatever the number in `question`, and return the answer. No event loop is needed, and none
        is served.

        Raises:
            RefusedQueryError: the head refuses, with the reason.
            HeadLostError: the head is lost.
        """
        return checked_answer(next(self._answers(question)), answer)

    async def logs(self, job: int, *, follow: bool) -> AsyncGenerator[LogLine, None]:
        """The lines that a job has written, and, to `follow` it, writes until it has ended.

        Raises as `ask`.
        """
        for answer in self._answers(AskLogs(0, job, follow)):
            told = checked_answer(answer, LogsAre)
            for line in lines_of_job(told):
                yield line
            if told.end:
                return

    async def trace(self) -> AsyncGenerator[TraceIs, None]:
        """Iterate over what ran where and when, piece by piece.

        Raises as `ask`.
        """
        for answer in self._answers(AskTrace(0)):
            told = checked_answer(answer, TraceIs)
            yield told
            if told.end:
                return

    async def pause(self, seconds: float) -> None:
        """Let so many seconds pass. Raises `HeadLostError`."""
        due = time.monotonic() + seconds
        while (left := due - time.monotonic()) > 0:
            if self._connection.wait(left):
                self._heard()

    async def gone(self) -> None:
        """Wait until the head has closed the connection."""
        with suppress(HeadLostError):
            while True:
                self._heard()

    def _answers(self, question: Question) -> Iterator[Answer]:
        """Send a query; iterate over what answers it."""
        self._last_ask += 1
        self._connection.post(replace(question, ask=self._last_ask))
        while True:
            for message in self._heard():
                if isinstance(message, Answer) and message.ask == self._last_ask:
                    yield message

    def _heard(self) -> list[Message]:
        """Wait for messages, and return them; answer those that ask whether we live."""
        left = LOST_S if self._until is None else max(0.001, min(LOST_S, self._until - time.monotonic()))
        messages = [frame.message for frame in self._connection.receive(left)]
        for message in messages:
            if isinstance(message, Beat):
                self._connection.post(message)
        return messages


@contextmanager
def call_blocking(
    head: str | Path | None = None, *, insecure: bool = False, limit_s: float | None = None
) -> Iterator[BlockingClient]:
    """Connect to a head as its client, for questions, without an event loop; raises as `call`.

    With `limit_s`, all together takes at most so many seconds, after which `HeadLostError` is raised.

    Example::

        with call_blocking() as caller:
            print(completed(caller.ask(AskHead(0), HeadIs)).pid)
    """
    until = None if limit_s is None else time.monotonic() + limit_s
    access = find_client_access(head)
    with telling_of_death(lambda: access):
        connection = dial_blocking(access, insecure=insecure, within=inf if limit_s is None else limit_s)
    with closing(connection):
        yield BlockingClient(connection, until)


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but a `BlockingClient`, and return what it returns.

    Raises:
        RuntimeError: it waits for an event loop.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    coroutine.close()
    raise RuntimeError("this coroutine waits for an event loop, and there is none")

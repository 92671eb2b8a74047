"""Connected client, as the head's driver sees it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
from anyio.abc import TaskGroup

from grainlike.head import Connection, ReplyTo
from grainlike.jobs import LogLine
from grainlike.net import Link
from grainlike.wire import Hello, LogsAre

__all__ = ["ClientConnection"]

_UNREAD = 256 * 1024
"""After how many characters of logs we wait until they have left."""


class ClientConnection(Connection):
    """A connected client."""

    def __init__(self, number: int, hello: Hello, link: Link, tasks: TaskGroup | None) -> None:
        super().__init__(number, hello.name, link, hello, time.monotonic())
        self.tasks = tasks
        """Task group of its connection, with which they end. None while it is away since before this head was
        started.
        """
        self.listening: dict[int, anyio.CancelScope] = {}
        """Queries about logs that are being answered."""
        self.paths: tuple[str, ...] = ()
        """Import paths of its program."""
        self.reply_to: ReplyTo = self
        """Owner of its jobs: itself, or a named session."""

    @property
    def receiver(self) -> Connection | None:
        """Connection that receives the bytes of values that stay: this."""
        return self

    def hush(self) -> None:
        """Cancel all answers about logs: the queries went with their link, and are repeated on the next."""
        listening, self.listening = self.listening, {}
        for scope in listening.values():
            scope.cancel()

    def listens(self, ask: int) -> anyio.CancelScope:
        """Register a query about logs; return the scope that ends the answer, should the client or its link go
        before.
        """
        scope = self.listening[ask] = anyio.CancelScope()
        return scope

    def enough(self, ask: int) -> None:
        """Cancel the answer to one query, if it goes on; the client may ask for as much again at once."""
        scope = self.listening.pop(ask, None)
        if scope is not None:
            scope.cancel()

    async def tell(self, link: Link, ask: int, lines: AsyncGenerator[LogLine, None], scope: anyio.CancelScope) -> None:
        """Answer a query of this link, as fast as the client reads."""
        with scope:
            async with aclosing(lines):
                size = 0
                async for line in lines:
                    link.post(LogsAre(ask, [str(line)], [line.attempt], [line.stream], False))
                    size += len(line)
                    if size > _UNREAD:
                        size = 0
                        await link.drain()
            link.post(LogsAre(ask, [], [], [], True))
        if self.listening.get(ask) is scope:
            del self.listening[ask]

"""One client as the head's body knows it."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio
from anyio.abc import TaskGroup

from grainlike.head import Home, LogLine, Party
from grainlike.net import Link
from grainlike.wire import Hello, LogsAre

__all__ = ["Guest"]

_UNREAD = 256 * 1024
"""After how many characters of logs we wait until they have left."""


class Guest(Party):
    """A connected client."""

    def __init__(self, number: int, hello: Hello, link: Link, tasks: TaskGroup | None) -> None:
        super().__init__(number, hello.name, link, hello, time.monotonic())
        self.tasks = tasks
        """Of its visit: they end with it. None while it is away since before this head was started."""
        self.listening: dict[int, anyio.CancelScope] = {}
        """Its questions about logs that are being answered."""
        self.paths: tuple[str, ...] = ()
        """Where its program imports from."""
        self.home: Home = self
        """Where its jobs belong: to itself, or to a named session."""

    def hush(self) -> None:
        """Answer no question about logs any more: they went with their link, and are asked anew on the next."""
        listening, self.listening = self.listening, {}
        for scope in listening.values():
            scope.cancel()

    def listens(self, ask: int) -> anyio.CancelScope:
        """It has asked a question about logs: the end of the answer, should the client or its link go before."""
        scope = self.listening[ask] = anyio.CancelScope()
        return scope

    async def tell(self, link: Link, ask: int, lines: AsyncGenerator[LogLine, None], scope: anyio.CancelScope) -> None:
        """Answer a question that came by this link, as fast as the client reads."""
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

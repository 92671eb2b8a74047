"""Connections of a dashboard's server: how many there may be, and how long one may be open without asking.

Any program that reaches the address may open connections, without a token, too: each is a descriptor of this process,
which may be the head's, or a program's.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["IDLE_S", "MOST_CONNECTIONS", "BoundedConnection", "be_quiet_here"]

MOST_CONNECTIONS = 128
"""Connections that are open at a time; for another one the one is closed that has been idle for the longest."""

IDLE_S = 10.0
"""Seconds that a connection may take for a whole request, from its begin or the last answer."""

_QUIET: ContextVar[bool] = ContextVar("_QUIET", default=False)


class BoundedConnection(H11Protocol):
    """Connection that is closed when it is idle for too long, or when others need its place.

    It is idle while no request is answered on it: also while one arrives in parts.
    """

    _idle_since = 0.0
    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, if there is a place for it."""
        others = [cast("BoundedConnection", each) for each in self.connections]
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        if len(others) >= MOST_CONNECTIONS:
            idle = [each for each in others if each.is_idle]
            # Not `close`, which waits until the peer has read what it was sent.
            min(idle, key=lambda each: each._idle_since, default=self).transport.abort()
        self._alarm = self.loop.call_later(IDLE_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Take note that it is closed."""
        if self._alarm is not None:
            self._alarm.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Take note that a request is answered."""
        self._idle_since = self.loop.time()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """True while no request is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _look(self) -> None:
        left = self._idle_since + IDLE_S - self.loop.time() if self.is_idle else IDLE_S
        if left <= 0:
            self.transport.abort()
        else:
            self._alarm = self.loop.call_later(left, self._look)


def be_quiet_here() -> None:
    """Let the server of this task and of its connections log nothing but errors: that it runs is told elsewhere, and
    what others send is none of the program's affair. Other servers of the process log as before.
    """
    _QUIET.set(True)
    logging.getLogger("uvicorn.error").addFilter(_is_wanted)


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.ERROR or not _QUIET.get()

"""Stream of updates to one open page, as server-sent events: what has changed, within its budget.

An update is an object with some of these: `lost` (why there is no head), `figures`, `anew` (forget all that came
before), `f`, `w`, `c` and `x` (pieces of the picture), `more` (pieces had no room yet), `doc` (the table of the page's
topic), `lines`, `dropped` before them, `begin` and
`end` (the log of its job).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

import anyio
import msgspec
from anyio.abc import TaskGroup
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from grainlike.dashboard._budget import BYTES_PER_S, PageBudget
from grainlike.dashboard._feed import EVERY_S, HeadFeed
from grainlike.dashboard._log_tail import LogTail

__all__ = ["LongTable", "PageStream", "PageUpdates"]

_PING_S = 15.0
"""Seconds of silence after which something is sent, so that a page that has gone is noticed."""

_KINDS = ("f", "w", "c", "x")

_encode = msgspec.json.Encoder().encode

LongTable = Callable[[], Awaitable[bytes]]
"""Coroutine function that returns the table of a topic as JSON, the same object while it is the same."""


class PageUpdates:
    """Updates of one page, from a feed: whatever it has not been sent yet, as it is at the moment of asking.

    With `slots`, it is sent who runs on which slot. `log` is the tail of a log that it follows.
    """

    def __init__(self, feed: HeadFeed, *, slots: bool = False, log: LogTail | None = None) -> None:
        self._feed = feed
        self._slots = slots
        self._log = log
        self._budget = PageBudget()
        self._version = 0
        self._epoch = -1
        self._figures = b""
        self._lost: str | None = None
        self._doc = b""

    def next(self, now: float, doc: bytes = b"") -> bytes:
        """Return the next update as JSON; empty where there is none, or it has to wait. `now` is any steady clock."""
        room = self._budget.room(now)
        if not room:
            return b""
        parts = self._news()
        size = sum(map(len, parts)) + 2
        if doc and doc != self._doc and size + len(doc) + 8 <= room:
            self._doc = doc
            parts.append(b'"doc":' + doc)
            size += len(doc) + 8
        parts += self._pieces(room - size) if self._slots else ()
        size = sum(map(len, parts)) + len(parts) + 1
        parts += self._lines(room - size)
        if not parts:
            return b""
        text = b"{" + b",".join(parts) + b"}"
        self._budget.spend(now, len(text))
        return text

    def _news(self) -> list[bytes]:
        """Return the parts that every page is sent: the loss of the head, and its figures, where they differ."""
        parts = []
        if self._feed.lost != self._lost:
            self._lost = self._feed.lost
            parts.append(b'"lost":' + _encode(self._lost))
        if self._feed.picture.state.at:
            found = self._feed.picture.figures(self._feed.age())
            told = _encode({**found, "at": 0, "up": 0})
            if told != self._figures:
                self._figures = told
                parts.append(b'"figures":' + _encode(found))
        return parts

    def _pieces(self, room: int) -> list[bytes]:
        """Return pieces of the picture that fit into `room` bytes, the oldest change first."""
        picture, parts = self._feed.picture, []
        if self._epoch != picture.epoch or self._version < picture.gone:
            self._epoch, self._version = picture.epoch, 0
            parts.append(b'"anew":true')
        left, waiting = room - 80, picture.since(self._version)
        chosen: dict[str, list[bytes]] = {}
        for piece in waiting:
            if len(piece.text) + 1 > left:
                if len(piece.text) < BYTES_PER_S // 2:
                    parts.append(b'"more":true')
                    break
                continue  # it would never fit
            left -= len(piece.text) + 1
            self._version = piece.version
            chosen.setdefault(piece.kind, []).append(piece.text)
        return parts + [
            b'"' + kind.encode() + b'":[' + b",".join(chosen[kind]) + b"]" for kind in _KINDS if kind in chosen
        ]

    def _lines(self, room: int) -> list[bytes]:
        if self._log is None:
            return []
        found = self._log.take(room - 200)
        return [] if found is None else [_encode(found)[1:-1]]


class PageStream(Response):
    """Response that streams the updates of a page until it is closed, or the dashboard is.

    `table` is that of its topic. `log` is filled by a task of this response.
    """

    media_type = "text/event-stream"

    def __init__(
        self, feed: HeadFeed, *, slots: bool = False, table: LongTable | None = None, log: LogTail | None = None
    ) -> None:
        super().__init__()
        self._feed = feed
        self._table = table
        self._log = log
        self._updates = PageUpdates(feed, slots=slots, log=log)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_closed, receive, tasks)
            if self._log is not None:
                tasks.start_soon(self._log.follow, self._feed)
            with self._feed.page():
                await self._stream(send)
            tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _stream(self, send: Send) -> None:
        silent_since = time.monotonic()
        while not self._feed.closed.is_set():
            now = time.monotonic()
            self._feed.picture.refresh(now)
            doc = b"" if self._table is None else await self._table()
            text = self._updates.next(now, doc)
            if text:
                silent_since = now
                await send({"type": "http.response.body", "body": b"data: " + text + b"\n\n", "more_body": True})
            elif now - silent_since > _PING_S:
                silent_since = now
                await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
            with anyio.move_on_after(EVERY_S):
                await self._feed.closed.wait()


async def _until_closed(receive: Receive, tasks: TaskGroup) -> None:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            tasks.cancel_scope.cancel()
            return

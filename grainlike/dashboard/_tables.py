"""Tables that pages show as a whole and follow: what waits and why, pools and blocks, limits and rates.

Each is asked for once a second at most, however many pages show it, and only while one does.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import msgspec

from grainlike.client import RefusedQueryError
from grainlike.dashboard._feed import HeadFeed
from grainlike.errors import HeadLostError
from grainlike.wire import AskFleet, AskLimits, AskQueue, FleetIs, LimitsAre, QueueIs

__all__ = ["FollowedTable", "as_object", "followed_tables"]

_EVERY_S = 1.0

_MOST_BYTES = 30_000
"""Bytes of a table: it has to fit into one update of a page. Rows that do not are counted."""

_MOST_GROUPS = 60
_LONGEST = 500
"""Groups of the queue that are shown, and characters of one text."""

_encode = msgspec.json.Encoder().encode


def as_object(row: msgspec.Struct) -> dict[str, Any]:
    """Return a row with the names of its fields, and of those of rows in it; long text is cut."""
    return {name: _plain(getattr(row, name)) for name in row.__struct_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return as_object(value)
    if isinstance(value, list):
        return list(map(_plain, value))
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


class FollowedTable:
    """A table of which pages are sent the present state. `ask` makes it."""

    def __init__(self, ask: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._ask = ask
        self._text = b""
        self._asked_at = float("-inf")
        self._asking = anyio.Lock()

    async def text(self) -> bytes:
        """Return it as JSON, at most a second old, or as it was when the head was lost; empty before it is known."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= _EVERY_S:
                try:
                    self._text = _encode(await self._ask())
                except HeadLostError:  # the page says so anyway
                    pass
                except RefusedQueryError as error:
                    self._text = _encode({"error": str(error)})
                self._asked_at = time.monotonic()
            return self._text


def followed_tables(feed: HeadFeed) -> dict[str, FollowedTable]:
    """Return the tables of a feed's head, by their topic."""

    async def queue() -> dict[str, Any]:
        found = await feed.ask(AskQueue(0, _MOST_GROUPS), QueueIs)
        rows, _ = _fitting(found.rows, _MOST_BYTES)
        return {"rows": rows, "groups": found.groups, "waiting": found.waiting}

    async def pools() -> dict[str, Any]:
        found = await feed.ask(AskFleet(0, True), FleetIs)
        pools, more_pools = _fitting(found.pools, _MOST_BYTES // 2)
        live = [block for block in found.blocks if block.state != "ended"]
        blocks, more = _fitting([*live, *(block for block in found.blocks if block.state == "ended")], _MOST_BYTES // 2)
        return {"pools": pools, "more_pools": more_pools, "blocks": blocks, "more_blocks": more}

    async def limits() -> dict[str, Any]:
        rows, more = _fitting((await feed.ask(AskLimits(0), LimitsAre)).rows, _MOST_BYTES)
        return {"rows": rows, "more": more}

    return {name: FollowedTable(ask) for name, ask in (("queue", queue), ("pools", pools), ("limits", limits))}


def _fitting(rows: Sequence[msgspec.Struct], most_bytes: int) -> tuple[list[dict[str, Any]], int]:
    """Return as many rows as fit into so many bytes, and the number of the others."""
    chosen: list[dict[str, Any]] = []
    for row in rows:
        made = as_object(row)
        most_bytes -= len(_encode(made)) + 1
        if most_bytes < 0:
            break
        chosen.append(made)
    return chosen, len(rows) - len(chosen)

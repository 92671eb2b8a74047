"""Events as JSON lines in a file: written every second, whatever becomes of the file and its disk."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import msgspec

from grainlike.telemetry._daemon_thread import call_in_daemon_thread

__all__ = ["EventFile", "EventSource", "EventWriter"]

logger = logging.getLogger("grainlike")

FLUSH_S = 0.5
"""Seconds between two writes."""

_LAST_S = 2.0
"""Seconds that the last write may take: the disk or a reader may hang, and the head is to end."""

_SLICE = 500
"""Records that are formatted before others get a turn: some milliseconds."""

_MOST_BYTES = 1 << 20
"""Bytes of one write."""

_STANDARD_OUTPUT = 1


class EventFile:
    """File to which lines are appended; `-` is the standard output. It is made for this user alone (mode 0600).

    Where it is moved away or removed, the next write makes a new one. What a full disk takes of a write is no line cut
    in two: the rest of it goes first, once there is room.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = None if str(path) == "-" else Path(path).expanduser().absolute()
        self._file = _STANDARD_OUTPUT if self._path is None else _opened(self._path)
        self._rest = b""

    def __str__(self) -> str:
        return "the standard output" if self._path is None else str(self._path)

    def write(self, lines: bytes) -> None:
        """Append lines.

        Raises:
            OSError: nothing of them was written.
        """
        if self._path is not None and not _is_at(self._file, self._path):
            fresh = _opened(self._path)
            os.close(self._file)
            self._file = fresh
            self._rest = self._rest.partition(b"\n")[2]  # a line that began in the other file
        if self._rest:
            self._rest = self._append(self._rest)
            if self._rest:
                raise OSError(errno.ENOSPC, "the disk took only a part of what is to be written")
        self._rest = self._append(lines)

    def _append(self, data: bytes) -> bytes:
        """Append what the file takes; return the rest. Raise what it raises before it took anything."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._file, view) :]
            except OSError:
                if len(view) == len(data):
                    raise
                break
        return bytes(view)

    def close(self) -> None:
        """Close the file."""
        if self._path is not None:
            os.close(self._file)


def _opened(path: Path) -> int:
    # Without a reader a pipe is an error, rather than a wait for one.
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)


def _is_at(file: int, path: Path) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(file), there)


class EventSource(Protocol):
    """Log of events that waits to be written."""

    def __len__(self) -> int: ...

    def take(self, most: int) -> list[dict[str, Any]]:
        """Return the oldest records, and keep them no more."""
        ...

    def event(self, event: str, **fields: object) -> dict[str, Any]:
        """Return the record of an event that happens now."""
        ...


class EventWriter:
    """Writer of the events of `source` to `file`: in `run`, until `close`. `opened` are fields of the first one.

    A file that cannot be written is told in the log once. Events are dropped then, and their number is the first that
    is written when it can be again.
    """

    def __init__(self, source: EventSource, file: EventFile, **opened: object) -> None:
        self._source = source
        self._file = file
        self._first = [source.event("events_opened", **opened)]
        self._lost = 0
        self._stop = anyio.Event()
        self._scope = anyio.CancelScope(shield=True)
        self._done = anyio.Event()

    async def run(self) -> None:
        """Write what there is every half second. Only `close` ends it: the last events are those of the end."""
        try:
            with self._scope:
                while not self._stop.is_set():
                    await self._flush()
                    with anyio.move_on_after(FLUSH_S):
                        await self._stop.wait()
                await self._flush()
                await self._send([_line(self._source.event("events_closed"))])
        finally:
            self._done.set()

    async def close(self) -> None:
        """Write what is left and close the file: within 2 seconds, or without the rest."""
        self._stop.set()
        with anyio.move_on_after(_LAST_S, shield=True):
            await self._done.wait()
            self._file.close()
        self._scope.cancel()

    async def _flush(self) -> None:
        lines, self._first = list(map(_line, self._first)), []
        while lines or self._source:
            # Before the first write, too: who reads it may send the head a signal, for which that is ready only then.
            await anyio.lowlevel.checkpoint()
            lines += map(_line, self._source.take(_SLICE))
            if not self._source or sum(map(len, lines)) >= _MOST_BYTES:
                await self._send(lines)
                lines = []

    async def _send(self, lines: list[bytes]) -> None:
        first = [_line(self._source.event("events_dropped", count=self._lost))] if self._lost else []
        try:
            # A disk may take long, or for ever, as the reader of a pipe may; the head has other things to do, and ends.
            await call_in_daemon_thread(partial(self._file.write, b"".join([*first, *lines])))
        except OSError as error:
            if not self._lost:
                logger.warning("events cannot be written to %s, and are dropped until they can: %s", self._file, error)
            self._lost += len(lines)
            return
        if self._lost:
            logger.info("events are written to %s again; %d were dropped", self._file, self._lost)
            self._lost = 0


_encode = msgspec.json.Encoder().encode


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        return _encode(record) + b"\n"
    except (TypeError, UnicodeEncodeError):  # a name that is no plain text: a subclass of `str`, or a lone surrogate
        return json.dumps(record).encode() + b"\n"

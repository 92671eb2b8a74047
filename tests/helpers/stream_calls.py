"""Streams of the tests of streams: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any

import anyio

from grainlike import GVAR

__all__ = [
    "computing",
    "counting",
    "dying",
    "failing",
    "large",
    "lines",
    "note",
    "noted",
    "pairs",
    "scoped",
    "shy",
    "slow",
    "told",
    "tried",
    "turns",
    "waiting",
]


def note(log: Path, what: object) -> None:
    with log.open("a") as file:
        file.write(f"{what}\n")


async def noted(path: str, n: int) -> AsyncIterator[int]:
    """Numbers; each is written down before it is given, and so is the end."""
    log = Path(path)
    try:
        for i in range(n):
            note(log, i)
            yield i
    finally:
        await anyio.lowlevel.checkpoint()
        note(log, "closed")


async def pairs(fifo: str, n: int, limit: float) -> AsyncIterator[int]:
    """Numbers, two at a time; the step after each two blocks the event loop until the FIFO has a byte."""
    fd = os.open(fifo, os.O_RDWR)
    try:
        for i in range(n):
            yield i
            if i % 2:
                if not select.select([fd], [], [], limit)[0]:
                    raise TimeoutError(i)
                os.read(fd, 1)
    finally:
        os.close(fd)


async def failing(n: int) -> AsyncIterator[int]:
    for i in range(n):
        yield i
    raise KeyError(n)


def lines(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


async def waiting(path: str) -> AsyncIterator[int]:
    try:
        yield 0
        await anyio.sleep_forever()
    finally:
        note(Path(path), "closed")


async def scoped() -> AsyncIterator[int]:
    """Numbers from a scope that is cancelled while the second of them is computed."""
    with anyio.CancelScope() as scope:
        yield 0
        scope.cancel()
        until = time.monotonic() + 0.002  # a long step
        while time.monotonic() < until:
            pass
        yield 1
        yield 2
    yield -1


async def computing(path: str, n: int) -> AsyncIterator[int]:
    """Numbers without an `await`; the second is ready once the process is asked to end."""
    log, asked = Path(path), []
    before = signal.getsignal(signal.SIGTERM)
    assert callable(before)

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        before(number, frame)

    signal.signal(signal.SIGTERM, ask)
    try:
        for i in range(n):
            note(log, i)
            yield i
            since = time.monotonic()
            while not asked or time.monotonic() < since + 0.005:
                pass
    finally:
        signal.signal(signal.SIGTERM, before)
        note(log, "closed")


turns: list[int] = []
"""Counter of the turns that another task of this process had."""


async def counting(n: int) -> AsyncIterator[int]:
    """Counts of turns, each after some time without an `await`."""
    for _ in range(n):
        since = time.monotonic()
        while time.monotonic() < since + 0.002:
            pass
        yield turns[0]


async def told() -> AsyncIterator[Any]:
    yield GVAR.res.cores, GVAR.job.name if GVAR.job else None


async def large(n: int) -> AsyncIterator[bytearray]:
    for _ in range(n):
        yield bytearray(3_000_000)


async def shy() -> AsyncIterator[object]:
    yield 1
    yield (i for i in ())


async def slow(seconds: float) -> AsyncIterator[int]:
    yield 1
    await anyio.sleep(seconds)


async def tried(path: str, good: int) -> AsyncIterator[int]:
    """Fails in its first attempt, after `good` items."""
    note(Path(path), "begun")
    first = len(lines(Path(path))) == 1
    for i in range(good if first else 3):
        yield i
    if first:
        raise OSError("the first attempt")


async def dying(path: str, good: int) -> AsyncIterator[int]:
    note(Path(path), "begun")
    if len(lines(Path(path))) == 1:
        for i in range(good):
            yield i
        import os

        os._exit(3)
    yield 7

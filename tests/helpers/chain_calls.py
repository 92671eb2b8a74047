"""Calls of the tests of chains: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import asyncio
import contextvars
import os
from pathlib import Path
from typing import TYPE_CHECKING

from grainlike import GVAR

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "MARK",
    "after_pipe",
    "allow",
    "append_to",
    "die_if",
    "divide",
    "divide_later",
    "double",
    "grow",
    "grow_later",
    "grow_soon",
    "job_and_cores",
    "number_of",
    "plus_one",
    "plus_one_later",
    "size_of",
    "unreadable",
]


MARK: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=0)


def after_pipe(x: int, path: str) -> int:
    Path(path).read_bytes()  # of a named pipe, until somebody has opened that, too, and closed it
    return x


def plus_one(x: int) -> int:
    return x + 1


async def plus_one_later(x: int) -> int:
    return x + 1


def job_and_cores(
    seen: list[tuple[int, int, tuple[int, ...]]], note: int = 0
) -> list[tuple[int, int, tuple[int, ...]]]:
    assert GVAR.job is not None
    mark = MARK.get()
    MARK.set(mark + 1)
    return [*seen, (GVAR.job.id, mark, GVAR.res.cores)]


def divide(x: int, by: int) -> int:
    return x // by


def die_if(x: int, when: int) -> int:
    if x == when:
        os._exit(7)
    return x + 1


def append_to(values: list[int], x: int) -> list[int]:
    values.append(x)
    return values


def double(a: np.ndarray) -> np.ndarray:
    a *= 2
    return a


def grow(data: bytes, by: int) -> bytes:
    return data + bytes(by)


async def grow_soon(data: bytes, by: int) -> bytes:
    return data + bytes(by)


async def grow_later(data: bytes, by: int) -> bytes:
    await asyncio.sleep(0)
    return data + bytes(by)


def size_of(data: bytes) -> int:
    return len(data)


def allow(seconds: float) -> None:
    """Let the chains of this runner take so long before they give back what they have not begun."""
    from grainlike_worker.runner.common import _chain

    _chain.LONG_S = seconds


async def divide_later(x: int, by: int) -> int:
    return x // by


class Unreadable:
    """Can be rebuilt in the process that made it alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (os.getpid(), self.number)


def _rebuilt(process: int, number: int) -> Unreadable:
    if process != os.getpid():
        raise ValueError(f"{number} is from elsewhere")
    return Unreadable(number)


def unreadable(number: int) -> Unreadable:
    return Unreadable(number)


def number_of(value: Unreadable) -> int:
    return value.number

"""Calls of the tests of pools: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from grainlike import GVAR

__all__ = ["add", "divide", "hold", "later", "slots", "square", "wait_for"]


def square(x: int) -> int:
    return x * x


def add(x: int, y: int, *, more: int = 0) -> int:
    return x + y + more


def divide(x: int, y: int) -> float:
    return x / y


def wait_for(path: Path) -> str:
    """Say that it runs, and go on when somebody lets it."""
    path.with_suffix(".begun").touch()
    with path.open("rb", buffering=0) as way:
        way.read(1)
    return path.name


def hold(path: str) -> None:
    with open(path, "w"):  # noqa: PTH123
        signal.pause()


def slots() -> tuple[tuple[int, ...], int]:
    return GVAR.res.cores, GVAR.res.memory


async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1

"""Calls of the tests of sessions: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

import asyncio

from grainlike import delayed

__all__ = ["count", "fails", "square", "stay"]


@delayed
async def square(x):
    return x * x


@delayed
async def fails():
    raise ArithmeticError("as it should")


@delayed
async def count():
    yield 1


@delayed
async def stay():
    await asyncio.Event().wait()

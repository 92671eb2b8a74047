"""Calls of the tests of storms of jobs, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio

from grainlike import delayed, gather

__all__ = [
    "array",
    "coroutine",
    "coroutine_forever",
    "crashing",
    "failing",
    "failing_twice",
    "nested",
    "plain",
    "plain_forever",
]


@delayed
def plain(value, seconds):
    import time

    time.sleep(seconds)
    return value


@delayed
async def coroutine(value, seconds):
    await asyncio.sleep(seconds)
    return value


@delayed
def failing(value):
    raise ValueError(value)


@delayed(retries=1)
async def failing_twice(value):
    await asyncio.sleep(0)
    raise ValueError(value)


@delayed
def crashing():
    import os

    os._exit(3)


@delayed(timeout=0.1)
def plain_forever():
    import time

    time.sleep(1000)


@delayed(timeout=0.1)
async def coroutine_forever():
    await asyncio.sleep(1000)


@delayed
def array(value, size):
    return value, bytes(size)


@delayed
async def nested(value, request):
    parts = await gather((plain @ request)(value, 0), (coroutine @ request)(value, 0.001), coroutine(value, 0))
    assert parts == [value] * 3
    return value

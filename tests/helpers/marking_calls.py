"""Calls of the tests of heads that are started again, for processes that import nothing else of the tests."""

from __future__ import annotations

import asyncio
import logging
import os

from grainlike import Cores, Retry, delayed, gather

__all__ = ["fails", "grows", "parent", "plain", "record", "second", "waits"]


def record(path, number, what):
    """Leave a mark; as many as there are, so often it has happened."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{number} {what}\n".encode())
    os.close(fd)
    logging.getLogger("marks").warning("%s %s", number, what)


@delayed
def plain(path, number):
    record(path, number, "begin")
    record(path, number, "end")
    return number


@delayed
async def waits(path, number):
    record(path, number, "begin")
    await asyncio.sleep(0.01)
    record(path, number, "end")
    return number


@delayed
async def parent(path, number):
    record(path, number, "begin")
    found = await gather((waits @ Cores(1))(path, number + part) for part in (0.25, 0.5, 0.75))
    record(path, number, "end")
    return sum(found) - 2 * number - 1.5


@delayed(retries=Retry(1, backoff=0.1))
def second(path, number):
    from grainlike import GVAR

    if GVAR.job.attempt == 1:
        raise OSError("not now")
    record(path, number, "begin")
    record(path, number, "end")
    return number


@delayed
def fails(path, number):
    record(path, number, "begin")
    record(path, number, "end")
    raise KeyError(number)


@delayed
def grows(path, number, array):
    record(path, number, "begin")
    record(path, number, "end")
    return array + number

"""Calls of the tests of faults: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

import os
import time
from pathlib import Path

from grainlike import GVAR, delayed

__all__ = [
    "async_one",
    "cores",
    "daemonise",
    "halved",
    "marked",
    "noted",
    "one",
    "parent",
    "square",
    "stand",
    "wait_at",
    "waits_for",
]


@delayed
def one():
    return 1


@delayed
async def async_one():
    return 1


@delayed
def square(x):
    return x * x


@delayed
def stand(visit, name):
    print("here", name, flush=True)
    visit(name)
    return name


@delayed
def wait_at(visit, name):
    visit(name)


@delayed
async def noted(path, n, hold_at=None, fail_at=None, size=0):
    """Numbers, or bytes; each is written down before it is given, and so are the beginning and the end."""
    import asyncio  # only here: most processes run one of the others, and no event loop

    def note(what):
        with Path(path).open("a") as file:
            file.write(f"{what}\n")

    note("begun")
    try:
        for i in range(n):
            if i == hold_at:
                await asyncio.Event().wait()
            if i == fail_at:
                raise ArithmeticError(i)
            note(i)
            yield bytes([i % 256]) * size if size else i
    finally:
        await asyncio.sleep(0)
        note("closed")


@delayed
def waits_for(path):
    with path.open("rb") as fifo:
        fifo.read(1)


@delayed
def marked(path, number):
    """Leave a mark for each time that it runs."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f"{number}\n".encode())
    os.close(fd)
    return number


@delayed
def cores():
    return GVAR.instance, GVAR.res.cores


@delayed
def halved(n):
    if n == 3:
        raise ValueError("odd")
    return n / 2


@delayed
def parent():
    return os.getppid()


def daemonise(count, path):
    """Start `count` daemons as a textbook does: forked twice, in sessions of their own. Their ids go into `path`."""
    told, tell = os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                with open(path, "a") as file:  # noqa: PTH123
                    file.write(f"{os.getpid()}\n")
                os.write(tell, b".")
                time.sleep(3600)
            os._exit(0)
        os.wait()
        os.read(told, 1)
    os.close(told)
    os.close(tell)

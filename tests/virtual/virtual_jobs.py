"""Jobs that the whole program runs in virtual time; each notes where and when it was, and what became of it."""

from __future__ import annotations

from typing import NamedTuple

import anyio

from grainlike import GVAR, delayed

__all__ = ["RAN", "Run", "add", "fail", "fail_twice", "work"]


class Run(NamedTuple):
    """One execution: of which job, on which cores of which worker, from when to when; `whole` if it came to its end."""

    key: int
    cores: tuple[str, ...]
    begun: float
    ended: float
    whole: bool


RAN: list[Run] = []


async def _busy(key: int, seconds: float) -> None:
    worker, begun, whole = GVAR.instance, anyio.current_time(), False
    cores = tuple(f"{worker}/{core}" for core in GVAR.res.cores)
    try:
        await anyio.sleep(seconds)
        whole = True
    finally:
        RAN.append(Run(key, cores, begun, anyio.current_time(), whole))


@delayed
async def work(key: int, seconds: float) -> int:
    """Take a while."""
    await _busy(key, seconds)
    return key


@delayed
async def fail(key: int, seconds: float) -> int:
    """Take a while for nothing."""
    await _busy(key, seconds)
    raise ValueError(key)


@delayed(retries=1)
async def fail_twice(key: int, seconds: float) -> int:
    """Take a while for nothing, and once more."""
    await _busy(key, seconds)
    raise ValueError(key)


@delayed
async def add(key: int, seconds: float, one: int, other: int) -> int:
    """Take a while with the values of two others."""
    await _busy(key, seconds)
    return one + other

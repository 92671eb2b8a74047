"""Beside what one would write without it: tasks of asyncio, and joblib over many tiny calls.

Each pair is interleaved, round by round; the medians' ratio is what to read. `joblib` is left out where it is not
installed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

from grainlike import Cores, Executor, amap, delayed, gather

COROUTINES = 10_000
CALLS = 50_000
ROUNDS = 5


async def nothing(x: int) -> int:
    return x


def tiny(x: int) -> int:
    return x


async def tasks() -> None:
    loop = asyncio.get_running_loop()
    made = [loop.create_task(nothing(i)) for i in range(COROUTINES)]
    assert sum([await task for task in made]) == COROUTINES * (COROUTINES - 1) // 2


async def embedded() -> None:
    later = delayed(nothing) @ Cores(1)
    assert sum(await gather([later(i) for i in range(COROUTINES)])) == COROUTINES * (COROUTINES - 1) // 2


async def with_joblib() -> None:
    joblib: Any = import_module("joblib")
    values = await asyncio.to_thread(lambda: joblib.Parallel(n_jobs=2)(joblib.delayed(tiny)(i) for i in range(CALLS)))
    assert sum(values) == CALLS * (CALLS - 1) // 2


async def with_amap() -> None:
    total = 0
    async for value in amap(delayed(tiny) @ Cores(1), range(CALLS), in_flight=4096):
        total += value
    assert total == CALLS * (CALLS - 1) // 2


async def beside(what: str, bare: Callable[[], Awaitable[None]], ours: Callable[[], Awaitable[None]]) -> None:
    """Run both in turn, and say how much faster ours is."""
    seconds: dict[Callable[[], Awaitable[None]], list[float]] = {bare: [], ours: []}
    for side in seconds:
        await side()  # processes up, functions known
    for _ in range(ROUNDS):
        for side, taken in seconds.items():
            begun = time.perf_counter()
            await side()
            taken.append(time.perf_counter() - begun)
    theirs, mine = median(seconds[bare]), median(seconds[ours])
    print(f"{what:52} {theirs:7.3f} s, grainlike {mine:7.3f} s: {theirs / mine:5.2f} x as fast")


async def measure() -> None:
    async with Executor(local=Cores(2)):
        await beside(f"{COROUTINES} coroutines: create_task and await", tasks, embedded)
        if find_spec("joblib") is not None:
            await beside(f"{CALLS} tiny calls: joblib, two processes; amap", with_joblib, with_amap)


def main() -> None:
    asyncio.run(measure())

"""Plain functions that do nothing, in pinned processes of a worker's daemon, beside `ProcessPoolExecutor`.

*With* run-lists is how they run: a function known to be tiny has many calls on one lease. *Isolated*
calls share leases, too, and their process is put in order after each; so it is where two functions are called
*in turn*. Calls of one function with two *timeouts* in turn share leases as those with one do. *Without*, each call
has a lease of its own, granted, told and given back, as calls have that take longer: here the function has once waited
for a job of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median
from typing import Any

from grainlike import Cores, delayed, gather
from grainlike_bench._pairs import TIMEOUTS_S, in_turn, nesting_once
from grainlike_bench.bench_jobs import daemon

JOBS = 10_000
ROUNDS = 5

_LABELS = {
    "pool": "ProcessPoolExecutor(2)",
    "with": "grainlike, with run-lists",
    "isolated": "grainlike, isolated",
    "turns": "grainlike, two in turn",
    "timeouts": "grainlike, two timeouts",
    "without": "grainlike, a lease each",
}


def nothing(x: int) -> int:
    return x


def expect(values: Sequence[int]) -> None:
    assert sum(values) == JOBS * (JOBS - 1) // 2


def other(x: int) -> int:
    return x


async def pooled(pool: ProcessPoolExecutor) -> None:
    futures = [pool.submit(nothing, i) for i in range(JOBS)]
    expect([future.result() for future in futures])


async def ours(*functions: Any) -> None:
    """Call them in turn."""
    expect(await gather([functions[i % len(functions)](i) for i in range(JOBS)]))


async def measure(rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Jobs a second of every round."""
    listed = delayed(nothing) @ Cores(1)
    isolated = delayed(nothing, isolate=True) @ Cores(1)
    two = [delayed(function) @ Cores(1) for function in (nothing, other)]
    timed = [delayed(nothing, timeout=timeout) @ Cores(1) for timeout in TIMEOUTS_S]
    alone = delayed(nesting_once(nothing)) @ Cores(1)
    with ProcessPoolExecutor(2) as pool:
        async with daemon(insecure=True):
            await alone(None)
            ways = {
                "pool": partial(pooled, pool),
                "with": partial(ours, listed),
                "isolated": partial(ours, isolated),
                "turns": partial(ours, *two),
                "timeouts": partial(ours, *timed),
                "without": partial(ours, alone),
            }
            seconds = await in_turn(list(ways.values()), rounds)
    return {name: [JOBS / took for took in taken] for name, taken in zip(ways, seconds, strict=True)}


def main() -> None:
    rates = asyncio.run(measure())
    base = median(rates["pool"])
    for name, found in rates.items():
        low, middle, high = min(found), median(found), max(found)
        print(f"{_LABELS[name]:28} {middle:9.0f} /s ({low:.0f}-{high:.0f}) {middle / base:5.2f} x")

"""Jobs of 100 ms on 128 logical slots: how much longer all of them take than 128 at a time would.

The jobs sleep, so what is measured is how soon a slot that becomes free has its next job.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from grainlike import Cores, Executor, delayed, gather
from grainlike_bench.bench_jobs import daemon

SLOTS = 128
SECONDS = 0.1
TURNS = 20
ROUNDS = 3


async def sleeper(number: int) -> int:
    await asyncio.sleep(SECONDS)
    return number


async def measure(*, listening: bool = False) -> list[float]:
    """Per cent over ideal, of every round; on a worker embedded here, or on a worker's daemon over TLS."""
    job = delayed(sleeper) @ Cores(1)
    ideal = TURNS * SECONDS
    over: list[float] = []
    async with daemon(cores=SLOTS) if listening else Executor(local=Cores(range(SLOTS))):
        await gather([job(i) for i in range(SLOTS)])
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            await gather([job(i) for i in range(TURNS * SLOTS)])
            over.append(100 * ((time.perf_counter() - begun) / ideal - 1))
    return over


def main() -> None:
    over = asyncio.run(measure())
    print(
        f"{TURNS * SLOTS} jobs of {SECONDS * 1000:.0f} ms on {SLOTS} slots: {median(over):.1f} % over ideal "
        f"({min(over):.1f}-{max(over):.1f})"
    )

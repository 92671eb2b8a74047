"""A million jobs in one session: whether the last are as fast as the first, and whether memory stays what it was.

They come by ten thousand, each batch when the one before has ended. The rates of the first and the last tenth are
medians of their batches.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from statistics import median

from grainlike import Cores, Executor, delayed, gather

JOBS = 1_000_000
BATCH = 10_000


def nothing(number: int) -> int:
    return number


def resident() -> float:
    """MB of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure() -> None:
    rates: list[float] = []
    memory: list[float] = []
    async with Executor(local=Cores(2)):
        job = delayed(nothing) @ Cores(1)
        await gather([job(i) for i in range(BATCH)])
        for _ in range(JOBS // BATCH):
            begun = time.perf_counter()
            values = await gather([job(i) for i in range(BATCH)])
            rates.append(BATCH / (time.perf_counter() - begun))
            assert values[-1] == BATCH - 1
            memory.append(resident())
    tenth = len(rates) // 10
    first, last = median(rates[:tenth]), median(rates[-tenth:])
    print(f"{JOBS} jobs: first tenth {first:.0f}/s, last tenth {last:.0f}/s, {last / first:.2f} x")
    print(f"memory of the caller: {memory[tenth - 1]:.0f} MB after the first tenth, {memory[-1]:.0f} MB at the end")


def main() -> None:
    asyncio.run(measure())

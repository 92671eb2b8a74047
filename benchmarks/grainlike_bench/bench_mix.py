"""Mixed jobs over a real executor with 16 logical cores: how near the best possible order comes the scheduler's.

W5: 200 sleeps of 0.05 to 0.4 s on 1 to 8 cores; makespan over the lower bound (the area, or the longest job), in random
order and widest first. W6: jobs that want gpu0, gpu0, gpu0 and gpu1, gpu1: when the last starts. W6b: a 16-core job
submitted as the 10th of 200 one-core jobs of 0.1 s: at which part of the makespan it starts.
"""

from __future__ import annotations

import asyncio
import random
import time
from statistics import median

from grainlike import Cores, Executor, Request, Resource, delayed, gather

CORES = 16
SEEDS = 5


@delayed
async def sleep(seconds: float) -> float:
    began = time.monotonic()
    await asyncio.sleep(seconds)
    return began


async def timed(jobs: list[tuple[Request, float]]) -> tuple[float, list[float]]:
    """Makespan, and when each job started, in seconds from the submission."""
    begun = time.monotonic()
    starts = await gather([(sleep @ request)(seconds) for request, seconds in jobs])
    return time.monotonic() - begun, [start - begun for start in starts]


def mixed(seed: int) -> list[tuple[int, float]]:
    dice = random.Random(seed)
    return [(dice.choice([1, 2, 4, 8]), dice.choice([0.05, 0.1, 0.2, 0.4])) for _ in range(200)]


async def w5(*, widest_first: bool) -> list[float]:
    """Makespan over lower bound, for each seed."""
    ratios = []
    for seed in range(SEEDS):
        jobs = mixed(seed)
        if widest_first:
            jobs.sort(key=lambda job: -job[0])
        bound = max(sum(c * seconds for c, seconds in jobs) / CORES, *(seconds for _, seconds in jobs))
        async with Executor(local=Cores(CORES)):
            await timed([(Cores(1), 0.0)] * 16)
            makespan, _ = await timed([(Cores(cores), seconds) for cores, seconds in jobs])
        ratios.append(makespan / bound)
    return ratios


async def w6() -> float:
    """Seconds until the last of the four starts."""
    gpu0, gpu1 = Resource("gpu0", 1), Resource("gpu1", 1)
    async with Executor(local=gpu0 & gpu1):
        await timed([(gpu0, 0.0)])
        _, starts = await timed([(gpu0, 1.0), (gpu0, 1.0), (gpu0 & gpu1, 1.0), (gpu1, 1.0)])
    return starts[3]


async def w6b() -> tuple[float, float]:
    """When the wide job starts, as a part of the makespan; and that, in seconds."""
    async with Executor(local=Cores(CORES)):
        await timed([(Cores(1), 0.0)] * 16)
        jobs = [(Cores(1), 0.1)] * 200
        jobs.insert(9, (Cores(CORES), 0.1))
        makespan, starts = await timed(jobs)
    return starts[9] / makespan, makespan


async def measure() -> None:
    print(f"W5   makespan / lower bound, median of {SEEDS}: random order {median(await w5(widest_first=False)):.3f}")
    print(f"W5   widest first {median(await w5(widest_first=True)):.3f}")
    print(f"W6   the last of four starts at {await w6():.4f} s")
    shares = [await w6b() for _ in range(3)]
    print(f"W6b  the wide job starts at {median(s for s, _ in shares):.3f} of {median(m for _, m in shares):.2f} s")


def main() -> None:
    asyncio.run(measure())

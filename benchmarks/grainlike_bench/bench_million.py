"""A million jobs in one session: whether the last are as fast as the first, and whether memory stays what it was.

They come by ten thousand, each batch when the one before has ended. The figures of the first and the last tenth are
medians of their batches. CPU time is the caller's, with the worker embedded in it, and told beside that of a fixed
piece of Python which is run in between: on a busy machine both take longer, and the rate says nothing.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from grainlike import Cores, Executor, delayed, gather

JOBS = 1_000_000
BATCH = 10_000


@dataclass
class Session:
    """For each batch: jobs a second, CPU time a job, that beside the fixed piece, and memory after it."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)


def ends(values: list[float]) -> tuple[float, float]:
    """The medians of the first and of the last tenth."""
    tenth = len(values) // 10
    return median(values[:tenth]), median(values[-tenth:])


def nothing(number: int) -> int:
    return number


def fixed() -> float:
    """CPU seconds of some dictionary's work."""
    begun = time.process_time()
    table: dict[int, list[int]] = {}
    for number in range(60_000):
        table[number] = [number]
    return time.process_time() - begun


def resident() -> float:
    """MB of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure() -> Session:
    found = Session()
    async with Executor(local=Cores(2)):
        job = delayed(nothing) @ Cores(1)
        await gather([job(i) for i in range(BATCH)])
        for _ in range(JOBS // BATCH):
            begun, used = time.perf_counter(), time.process_time()
            values = await gather([job(i) for i in range(BATCH)])
            found.rates.append(BATCH / (time.perf_counter() - begun))
            found.cpu_us.append((time.process_time() - used) / BATCH * 1e6)
            found.beside.append((time.process_time() - used) / fixed())
            assert values[-1] == BATCH - 1
            found.memory_mb.append(resident())
    return found


def main() -> None:
    found = asyncio.run(measure())
    rates, cpu, beside = ends(found.rates), ends(found.cpu_us), ends(found.beside)
    print(f"{JOBS} jobs, first tenth and last tenth:")
    print(f"  {rates[0]:.0f}/s and {rates[1]:.0f}/s")
    print(
        f"  {cpu[0]:.1f} us and {cpu[1]:.1f} us of the caller's CPU time a job, "
        f"{beside[1] / beside[0]:.2f} x beside the fixed piece"
    )
    print(
        f"  {found.memory_mb[JOBS // BATCH // 10 - 1]:.0f} MB and {found.memory_mb[-1]:.0f} MB of memory of the caller "
        "at the end of them"
    )

"""No-op jobs: throughput of 10 000 at once and the round trip of one after another, beside ProcessPoolExecutor.

Systems are interleaved run by run and warmed up; the figures are medians with minimum and maximum, and the ratio to
`ProcessPoolExecutor` (2 processes, no network, no slots) of the same run is what to compare between machines. CPU time
a job is that of all processes together, in the least disturbed round: it bounds the rate from above. "TLS" is
a worker daemon started by hand on loopback, with its runners in processes of their own, and "TCP" the same without TLS;
"embedded" is the worker inside the calling process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from statistics import median
from typing import Any

from grainlike import Cores, Executor, delayed, gather
from grainlike_bench._processes import cpu_seconds, processes

JOBS = 10_000
TRIPS = 500
ROUNDS = 5


def plain(x: int) -> int:
    return x


async def coroutine(x: int) -> int:
    return x


class Figures:
    """What one system did in all rounds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rates: list[float] = []
        self.cpu: list[float] = []
        self.trips: list[float] = []
        self.slow: list[float] = []

    def row(self, base: Figures) -> str:
        rate, trip = median(self.rates), median(self.trips)
        return (
            f"{self.name:28} {rate:9.0f} /s ({min(self.rates):.0f}-{max(self.rates):.0f}) "
            f"{rate / median(base.rates):5.1f} x   cpu {min(self.cpu) * 1e6:5.1f} us   "
            f"p50 {trip * 1e6:6.0f} us ({min(self.trips) * 1e6:.0f}-{max(self.trips) * 1e6:.0f}) "
            f"p99 {median(self.slow) * 1e6:6.0f} us {trip / median(base.trips):5.2f} x"
        )

    @contextmanager
    def many(self) -> Iterator[None]:
        """Measure what the block does: `JOBS` jobs at once."""
        pids = processes(os.getpid())
        used, begun = cpu_seconds(pids), time.perf_counter()
        yield
        self.rates.append(JOBS / (time.perf_counter() - begun))
        self.cpu.append((cpu_seconds(pids) - used) / JOBS)

    def add_trips(self, seconds: list[float]) -> None:
        seconds.sort()
        self.trips.append(median(seconds))
        self.slow.append(seconds[int(0.99 * len(seconds))])


def pool_round(pool: ProcessPoolExecutor, figures: Figures) -> None:
    with figures.many():
        futures = [pool.submit(plain, i) for i in range(JOBS)]
        assert sum(future.result() for future in futures) == JOBS * (JOBS - 1) // 2
    seconds = []
    for i in range(TRIPS):
        begun = time.perf_counter()
        pool.submit(plain, i).result()
        seconds.append(time.perf_counter() - begun)
    figures.add_trips(seconds)


async def grain_round(function: Any, figures: Figures) -> None:
    with figures.many():
        values = await gather([function(i) for i in range(JOBS)])
        assert sum(values) == JOBS * (JOBS - 1) // 2
    seconds = []
    for i in range(TRIPS):
        begun = time.perf_counter()
        await function(i)
        seconds.append(time.perf_counter() - begun)
    figures.add_trips(seconds)


@asynccontextmanager
async def daemon(*, insecure: bool = False, cores: int = 2) -> AsyncIterator[Executor]:
    """An executor with a worker's daemon on this machine, over TLS or without."""
    async with Executor(listen="tcp://127.0.0.1:0", insecure=insecure) as executor:
        assert executor.address is not None
        command = [
            sys.executable,
            "-m",
            "grainlike_worker",
            "--head",
            executor.address,
            "--resources",
            f"cores={cores}",
        ]
        process = await asyncio.create_subprocess_exec(*command, "--log-level", "error", *["--insecure"] * insecure)
        await executor.wait_for_workers(1)
        yield executor
    await process.wait()


async def measure() -> list[Figures]:
    functions = {"plain": delayed(plain) @ Cores(1), "async": delayed(coroutine) @ Cores(1)}
    table = {"pool": Figures("ProcessPoolExecutor(2)")}
    for where in ("embedded", "TLS", "TCP"):
        table.update({f"{where} {kind}": Figures(f"grainlike {where}, {kind}") for kind in functions})
    with ProcessPoolExecutor(2) as pool:
        for future in [pool.submit(plain, i) for i in range(50)]:
            future.result()
        for _ in range(ROUNDS):
            pool_round(pool, table["pool"])
            async with Executor(local=Cores(2)):
                await rounds("embedded", functions, table)
            for where, insecure in (("TLS", False), ("TCP", True)):
                async with daemon(insecure=insecure):
                    await rounds(where, functions, table)
    return list(table.values())


async def rounds(where: str, functions: dict[str, Any], table: dict[str, Figures]) -> None:
    for kind, function in functions.items():
        await gather([function(i) for i in range(50)])
        await grain_round(function, table[f"{where} {kind}"])


def main() -> None:
    rows = asyncio.run(measure())
    print(f"{JOBS} no-op jobs at once, then {TRIPS} one by one; medians of {ROUNDS} rounds (min-max), x the pool's")
    for figures in rows:
        print(figures.row(rows[0]))

"""What a head and a worker use while there is nothing to do: CPU seconds of both, and of the worker's processes."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from grainlike import Cores, Executor, delayed
from grainlike_bench._processes import cpu_seconds, processes

SECONDS = 20.0


def nothing() -> None:
    pass


async def measure() -> dict[str, tuple[float, int]]:
    """Per cent of a core that each used, and how many processes it is."""
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        assert executor.address is not None
        command = [sys.executable, "-m", "grainlike_worker", "--head", executor.address, "--resources", "cores=2"]
        worker = await asyncio.create_subprocess_exec(*command, "--log-level", "error")
        await executor.wait_for_workers(1)
        await (delayed(nothing) @ Cores(1))()  # so that there is a process for jobs, which stays
        await asyncio.sleep(2.0)
        there = {"head": [os.getpid()], "worker, with its processes": processes(worker.pid)}
        before = {who: cpu_seconds(pids) for who, pids in there.items()}
        begun = time.perf_counter()
        await asyncio.sleep(SECONDS)
        took = time.perf_counter() - begun
        found = {who: (100 * (cpu_seconds(pids) - before[who]) / took, len(pids)) for who, pids in there.items()}
    await worker.wait()
    return found


def main() -> None:
    for who, (percent, count) in asyncio.run(measure()).items():
        print(f"{who:26} {percent:.2f} % of a core, {count} processes")

"""What a head and a worker use while there is nothing to do: CPU seconds of both, and of the worker's processes."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from grainlike import Cores, Executor, delayed

SECONDS = 20.0


def nothing() -> None:
    pass


def processes(root: int) -> list[int]:
    """A process and all that came from it."""
    found = [root]
    for process in found:
        for task in Path(f"/proc/{process}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def cpu_seconds(process: int) -> float:
    """What all threads of a process have used, in nanoseconds as the system counts them."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks) / 1e9


async def measure() -> None:
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        assert executor.address is not None
        command = [sys.executable, "-m", "grainlike_worker", "--head", executor.address, "--resources", "cores=2"]
        worker = await asyncio.create_subprocess_exec(*command, "--log-level", "error")
        await executor.wait_for_workers(1)
        await (delayed(nothing) @ Cores(1))()  # so that there is a process for jobs, which stays
        await asyncio.sleep(2.0)
        there = {"head": [os.getpid()], "worker, with its processes": processes(worker.pid)}
        before = {who: sum(map(cpu_seconds, pids)) for who, pids in there.items()}
        begun = time.perf_counter()
        await asyncio.sleep(SECONDS)
        took = time.perf_counter() - begun
        for who, pids in there.items():
            used = sum(map(cpu_seconds, pids)) - before[who]
            print(f"{who:26} {100 * used / took:.2f} % of a core, {len(pids)} processes")
    await worker.wait()


def main() -> None:
    asyncio.run(measure())

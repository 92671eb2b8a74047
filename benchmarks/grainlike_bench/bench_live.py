"""Cost of viewers: no-op jobs on a head of its own process with and without two live views of ten updates a second.

CPU seconds of the head's process and seconds to the last result, in turn in one run; and what the head uses while
nothing runs and both viewers are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from grainlike import Cores, connect, delayed, gather
from grainlike_bench._processes import cpu_seconds

JOBS = 20_000
ROUNDS = 8
VIEWERS = 2
IDLE_S = 10.0

_VIEWER = """
import anyio
from grainlike.client import call
from grainlike.live import LiveState
async def main():
    state = LiveState()
    async with call() as client:
        async for told in client.live(0.1):
            state.take(told)
anyio.run(main)
"""


async def nothing() -> None:
    pass


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


async def _measure(head: int) -> None:
    async with connect(wait=30.0) as executor:
        await executor.wait_for_workers(1)
        call = delayed(nothing) @ Cores(1)
        await gather(call() for _ in range(JOBS))
        found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        for number in range(2 * ROUNDS):
            viewed = bool(number % 2)
            with contextlib.ExitStack() as stack:
                if viewed:
                    for _ in range(VIEWERS):
                        stack.enter_context(_process("-c", _VIEWER))
                    await asyncio.sleep(1.5)
                used, begun = cpu_seconds([head]), time.perf_counter()
                await gather(call() for _ in range(JOBS))
                found[viewed].append((cpu_seconds([head]) - used, time.perf_counter() - begun))
        for column, what in enumerate(("CPU of the head", "seconds")):
            without, beside = (statistics.median(row[column] for row in found[viewed]) for viewed in (False, True))
            print(
                f"{what:16} {1e6 * without / JOBS:7.1f} us a job alone, {1e6 * beside / JOBS:7.1f} with {VIEWERS} "
                f"viewers: throughput {without / beside:.3f} x"
            )
        with contextlib.ExitStack() as stack:
            for _ in range(VIEWERS):
                stack.enter_context(_process("-c", _VIEWER))
            await asyncio.sleep(2.0)
            used = cpu_seconds([head])
            await asyncio.sleep(IDLE_S)
            print(f"idle, with {VIEWERS} viewers: {100 * (cpu_seconds([head]) - used) / IDLE_S:.2f} % of a core")


def main() -> None:
    with tempfile.TemporaryDirectory() as state:
        os.environ["XDG_STATE_HOME"] = state
        with _process("-m", "grainlike", "head", "start", "--listen", "tcp://127.0.0.1:0") as head:
            while not (Path(state) / "grainlike" / "current").exists():
                time.sleep(0.05)
            with _process("-m", "grainlike", "worker", "start", "--resources", "cores=2"):
                asyncio.run(_measure(head.pid))


if __name__ == "__main__":
    main()

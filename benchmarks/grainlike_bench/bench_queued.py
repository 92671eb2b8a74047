"""Bytes of the caller's memory for each job that waits: its placeholder and the head's records, by `tracemalloc`.

Bytes are the same on a busy machine as on an idle one. Tables grow by doubling, so several numbers of jobs are counted.
A job that does not end has the only core.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import TYPE_CHECKING, cast

import anyio
import anyio.lowlevel

from grainlike import Cores, Executor, cancel, delayed, gather, start

if TYPE_CHECKING:
    from grainlike.executor._local_head import LocalHead

NUMBERS = (2_500, 10_000, 15_000, 40_000)


def nothing(x: int) -> int:
    return x


def traced() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def queued(jobs: int) -> float:
    """Bytes for each of so many, all of which wait."""
    job = delayed(nothing) @ Cores(1)
    async with Executor(local=Cores(1)) as executor:
        held_ = start((delayed(anyio.sleep_forever) @ Cores(1))())
        first_ = start(job(0))
        await has(executor, 2)
        items = list(range(1_000, 1_000 + jobs))  # what is passed is the user's
        before = traced()
        all_ = start(gather([job(item) for item in items]))
        await has(executor, 2 + jobs)
        taken = traced() - before
        for placeholder_ in (all_, first_, held_):
            cancel(placeholder_)
    return taken / jobs


async def has(executor: Executor, jobs: int) -> None:
    """Until the head has so many that have not ended."""
    while cast("LocalHead", executor._service).head.view.unended < jobs:
        await anyio.lowlevel.checkpoint()


def measure() -> dict[int, float]:
    """Bytes a job, for each number of jobs."""
    tracemalloc.start()
    try:
        return {jobs: asyncio.run(queued(jobs)) for jobs in NUMBERS}
    finally:
        tracemalloc.stop()


def main() -> None:
    for jobs, taken in measure().items():
        print(f"{jobs:7} jobs that wait: {taken:5.0f} bytes each")

"""Bytes of the head's memory for a value that stays at its worker, and for one more replica of it, by `tracemalloc`.

The head is in the program, which holds every placeholder: what a job with a small value takes, with its placeholder
and its place in the history, is taken off. What is left has the program's reference in it. A replica comes to be as a
job on another worker reads the value. Workers are processes of their own.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grainlike import Cores, Delayed, Resource, delayed, gather, wait
from grainlike_bench._far_workers import far_workers

SMALL, LARGE = 10, 70_000
"""Bytes of a value that comes to the program, and of one that stays."""

VALUES, TOGETHER = 2_000, 50
"""As many as fill a table that doubles by three quarters of what it takes."""

WARM = 200


def made(number: int, size: int) -> bytes:
    return bytes(size)


def total(*values: bytes) -> int:
    return sum(map(len, values))


@dataclass
class Held:
    """Bytes of the head for each."""

    value: float
    replica: float


class _Grown:
    bytes = 0


@asynccontextmanager
async def _growth() -> AsyncIterator[_Grown]:
    """Count what the block leaves, once what it began has ended."""
    gc.collect()
    grown, before = _Grown(), tracemalloc.get_traced_memory()[0]
    yield grown
    await asyncio.sleep(1)  # reports of stores come within a tenth of it
    gc.collect()
    grown.bytes = tracemalloc.get_traced_memory()[0] - before


async def _made(size: int, numbers: range) -> list[Delayed[bytes]]:
    make = delayed(made) @ (Cores(1) & Resource("n0", 1))
    return await wait([make(number, size) for number in numbers])


async def _read(values: list[Delayed[bytes]]) -> None:
    read = delayed(total) @ (Cores(1) & Resource("n1", 1))
    groups = [values[first : first + TOGETHER] for first in range(0, len(values), TOGETHER)]
    assert sum(await gather(read(*group) for group in groups)) == len(values) * LARGE


async def _measure() -> Held:
    offers = {name: ["--resources", f"cores=2 {name}=2", "--store", "1Gi"] for name in ("n0", "n1")}
    async with far_workers(offers):
        kept = [await _made(SMALL, range(WARM)), await _made(LARGE, range(WARM))]
        await _read(kept[-1])
        async with _growth() as small:
            kept.append(await _made(SMALL, range(VALUES)))
        async with _growth() as large:
            kept.append(await _made(LARGE, range(VALUES)))
        async with _growth() as more:
            await _read(kept[-1])
        return Held((large.bytes - small.bytes) / VALUES, more.bytes / VALUES)


def measure() -> Held:
    """Return what values and replicas take in the head of this process."""
    tracemalloc.start()
    try:
        return asyncio.run(_measure())
    finally:
        tracemalloc.stop()


def main() -> None:
    held = measure()
    print(f"a value that stays {held.value:.0f} bytes, one more replica {held.replica:.0f} bytes")


if __name__ == "__main__":
    main()

"""Arithmetic that keeps a core busy: a loop on one core, and the same parts on two, by `ProcessPoolExecutor` and by us.

The pool shows what the machine can give: where two cores share units or a clock, each is slower when both are busy, and
then no program is twice as fast on them. So does the CPU time of the parts: what they take on a core whose neighbour is
busy, beside what they take in the loop. Processes are up before the clock starts.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from statistics import median

from grainlike import Cores, Executor, delayed, gather

PARTS = 24
STEPS = 2_000_000
ROUNDS = 5


@dataclass
class Side:
    """One way to do all parts: for each round its seconds, and the CPU seconds of the parts alone."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def add(self, seconds: float, parts: list[float]) -> None:
        """One round."""
        assert len(parts) == PARTS
        self.seconds.append(seconds)
        self.cpu.append(sum(parts))


def busy(part: int) -> float:
    """CPU seconds that a part took."""
    begun, total = time.process_time(), part
    for i in range(STEPS):
        total = (total + i * i) % 1_000_003
    assert total >= 0
    return time.process_time() - begun


async def measure(rounds: int = ROUNDS) -> dict[str, Side]:
    """A loop, the pool and ours, in turn."""
    found = {"loop": Side(), "pool": Side(), "grainlike": Side()}
    later = delayed(busy) @ Cores(1)
    async with Executor(local=Cores(2)):
        with ProcessPoolExecutor(2) as pool:
            list(pool.map(busy, range(2)))
            await gather([later(part) for part in range(2)])
            for _ in range(rounds):
                begun = time.perf_counter()
                parts = [busy(part) for part in range(PARTS)]
                found["loop"].add(time.perf_counter() - begun, parts)
                begun = time.perf_counter()
                parts = list(pool.map(busy, range(PARTS)))
                found["pool"].add(time.perf_counter() - begun, parts)
                begun = time.perf_counter()
                parts = await gather([later(part) for part in range(PARTS)])
                found["grainlike"].add(time.perf_counter() - begun, parts)
    return found


def main() -> None:
    found = asyncio.run(measure())
    loop = found["loop"]
    print(f"{PARTS} parts that keep a core busy, two cores; medians of {ROUNDS} rounds")
    for name, side in found.items():
        ratios = [alone / took for alone, took in zip(loop.seconds, side.seconds, strict=True)]
        dearer = median(side.cpu) / median(loop.cpu)
        print(
            f"{name:10} {median(side.seconds):6.3f} s, {median(ratios):4.2f} x the loop "
            f"({min(ratios):.2f}-{max(ratios):.2f}); CPU time of the parts {median(side.cpu):6.3f} s, {dearer:4.2f} x"
        )

"""Graphs of 100 000 placeholders: what it costs to build one, and to have its value, beside the jobs themselves.

The nodes are operators, which run where they are awaited: so all of the time is the graph's and the engine's own. A
chain is as deep as it is long; a tree, and a `gather` of pairs, are wide.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from grainlike import Cores, Executor, delayed_value, gather

NODES = 100_000
ROUNDS = 3


def chain(nodes: int) -> tuple[Any, int]:
    """One operator on another; with the value that has to come."""
    value = delayed_value(0)
    for _ in range(nodes):
        value = value + 1
    return value, nodes


def tree(nodes: int) -> tuple[Any, int]:
    """Sums of two each, down to leaves of one."""
    one = delayed_value(1)
    level = [one + 0 for _ in range(nodes // 2)]
    leaves = len(level)
    while len(level) > 1:
        level = [first + second for first, second in zip(level[::2], level[1::2], strict=False)] + level[
            len(level) & ~1 :
        ]
    return level[0], leaves


def pairs(nodes: int) -> tuple[Any, list[int]]:
    """Many short sums at once, none of which needs another."""
    one = delayed_value(1)
    return gather([one + number for number in range(nodes)]), list(range(1, nodes + 1))


async def measure(shape: Callable[[int], tuple[Any, Any]]) -> tuple[list[float], list[float]]:
    """Microseconds a node to build it, and to resolve it, of every round."""
    built, resolved = [], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        value, expected = shape(NODES)
        ready = time.perf_counter()
        assert await value == expected
        resolved.append((time.perf_counter() - ready) / NODES * 1e6)
        built.append((ready - begun) / NODES * 1e6)
        del value, expected  # the next round should not pay for taking this one apart
    return built, resolved


async def measure_all() -> dict[str, tuple[list[float], list[float]]]:
    async with Executor(local=Cores(1)):
        return {shape.__name__: await measure(shape) for shape in (chain, tree, pairs)}


def main() -> None:
    for shape, (built, resolved) in asyncio.run(measure_all()).items():
        build, resolve = median(built), median(resolved)
        print(f"{shape:6} of {NODES}: {build:5.2f} us a node to build, {resolve:5.2f} us to resolve")

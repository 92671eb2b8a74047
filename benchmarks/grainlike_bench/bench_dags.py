"""Named graphs of jobs that do nothing: nodes a second by the size of the graph, in layers of 100.

Each node needs two of the layer above. Building the graph is not counted in the first figure. What one node costs
should not depend on how many there are.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from grainlike import Cores, Dag, Executor

LAYER = 100
ROUNDS = 3


def nothing(*values: int) -> int:
    return len(values)


def layered(nodes: int, *, costs: bool) -> Dag:
    dag = Dag()
    for number in range(nodes):
        above = [number - LAYER, number - LAYER + 1] if number >= LAYER else []
        values = [dag[str(need)] for need in above]
        dag.add(str(number), nothing, *values, request=Cores(1), cost=float(number % 7) if costs else None)
    return dag


async def measure(nodes: int, *, costs: bool) -> None:
    rates, built = [], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        dag = layered(nodes, costs=costs)
        ready = time.perf_counter()
        report = await dag.run()
        assert report.succeeded == nodes
        rates.append(nodes / (time.perf_counter() - ready))
        built.append((ready - begun) / nodes)
        del dag, report  # the next round should not pay for taking this one apart
    what = "with costs" if costs else "without"
    rate, per_node = median(rates), median(built)
    print(
        f"{nodes:7} nodes, {what:10} {rate:8.0f} nodes/s ({min(rates):.0f}-{max(rates):.0f}), "
        f"{1e6 / rate:5.1f} us a node; built in {per_node * 1e6:.1f} us a node"
    )


async def measure_all() -> None:
    async with Executor(local=Cores([0, 1])):
        await layered(4000, costs=False).run()
        for costs in (False, True):
            for nodes in (100, 1000, 4000, 40_000):
                await measure(nodes, costs=costs)


def main() -> None:
    asyncio.run(measure_all())

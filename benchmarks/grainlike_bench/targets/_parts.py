"""The rows that `grainlike bench` does not give: each part is one of the other benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from grainlike import Cores, Executor
from grainlike_bench import (
    _dask_mix,
    bench_bare,
    bench_idle,
    bench_million,
    bench_mix,
    bench_placeholders,
    bench_plain,
    bench_queued,
    bench_scheduler,
    bench_simulation,
    bench_sleepers,
    bench_start,
    bench_sweep,
)
from grainlike_bench._pairs import in_turn

__all__ = ["PARTS", "Found", "Part"]

Found = dict[str, list[float]]
"""Of each row, its figure of every round."""


@dataclass(frozen=True)
class Part:
    """Measures some rows, in a process of its own."""

    measure: Callable[[int], Found]
    """Takes the number of rounds; where one round is long, or has many samples, it makes do with fewer."""
    rows: tuple[str, ...]
    seconds: int
    """About how long it takes with three rounds on two cores."""
    needs: tuple[str, ...] = ()
    """Modules without which some of its rows are not measured."""


def _ratios(ours: list[float], theirs: list[float]) -> list[float]:
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def _bare(rounds: int) -> Found:
    async def measure() -> Found:
        async with Executor(local=Cores(2)):
            tasks, jobs = await in_turn([bench_bare.tasks, bench_bare.embedded], rounds)
            found = {"w1-embedded": _ratios(tasks, jobs)}
            if find_spec("joblib") is not None:
                joblib, amap = await in_turn([bench_bare.with_joblib, bench_bare.with_amap], rounds)
                found["amap"] = _ratios(joblib, amap)
        return found

    return asyncio.run(measure())


def _queued(_: int) -> Found:
    return {"w1b": list(bench_queued.measure().values())}


def _plain(rounds: int) -> Found:
    rates = asyncio.run(bench_plain.measure(rounds))
    return {f"plain-{name}": _ratios(rates[name], rates["pool"]) for name in ("with", "without")}


def _mix(_: int) -> Found:
    """Five seeds, as the table says."""

    async def measure() -> Found:
        return {
            "w5-random": await bench_mix.w5(widest_first=False),
            "w5-widest": await bench_mix.w5(widest_first=True),
        }

    return asyncio.run(measure())


def _wide(rounds: int) -> Found:
    found: Found = {"w6": [], "w6b-start": [], "w6b-dask": []}
    for _ in range(rounds):
        found["w6"].append(asyncio.run(bench_mix.w6()))
        start, makespan = asyncio.run(bench_mix.w6b())
        found["w6b-start"].append(start)
        if find_spec("distributed") is not None:
            found["w6b-dask"].append(makespan / _dask_mix.makespan())
    return found


def _start(_: int) -> Found:
    imports, seconds = bench_start.measure()
    return {
        "w7-embedded": seconds["plain"],
        "w7-daemon": seconds["plain, a daemon of its own"],
        "w7b": imports,
    }


def _graph(_: int) -> Found:
    """Building and resolving together."""
    shapes = asyncio.run(bench_placeholders.measure_all())
    return {f"graph-{shape}": list(map(sum, zip(*both, strict=True))) for shape, both in shapes.items()}


def _million(_: int) -> Found:
    """Once: it has a hundred batches."""
    found = asyncio.run(bench_million.measure())
    rates, cpu, memory = bench_million.ends(found.rates), bench_million.ends(found.beside), found.memory_mb
    return {
        "million-rate": [rates[1] / rates[0]],
        "million-cpu": [cpu[0] / cpu[1]],
        "million-memory": [memory[-1] / memory[len(memory) // 10 - 1]],
    }


def _scheduler(rounds: int) -> Found:
    """The 99th percentile of 2 000 passes."""
    return {"scheduler": [1e3 * bench_scheduler.measure()[2][1980] for _ in range(rounds)]}


def _simulation(_: int) -> Found:
    """Once: it has millions of events."""
    few, many = (bench_simulation.measure(workers, 60_000) for workers in (10, 10_000))
    return {
        "simulation": [bench_simulation.measure(10_000, 1_000_000).rate],
        "simulation-flat": [few.rate / many.rate],
    }


def _sweep(rounds: int) -> Found:
    sides = asyncio.run(bench_sweep.measure(rounds))
    loop = sides["loop"].seconds
    return {
        "sweep": _ratios(loop, sides["grainlike"].seconds),
        "sweep-pool": _ratios(loop, sides["pool"].seconds),
    }


def _sleepers(_: int) -> Found:
    return {"sleepers": asyncio.run(bench_sleepers.measure())}


def _idle(_: int) -> Found:
    """Once: it is a sum over twenty seconds."""
    head, worker = (percent for percent, _ in asyncio.run(bench_idle.measure()).values())
    return {"idle-head": [head], "idle-worker": [worker]}


PARTS: dict[str, Part] = {
    "bare": Part(_bare, ("w1-embedded", "amap"), 15, ("joblib",)),
    "queued": Part(_queued, ("w1b",), 5),
    "plain": Part(_plain, ("plain-with", "plain-without"), 15),
    "mix": Part(_mix, ("w5-random", "w5-widest"), 45),
    "wide": Part(_wide, ("w6", "w6b-start", "w6b-dask"), 20, ("distributed",)),
    "start": Part(_start, ("w7-embedded", "w7-daemon", "w7b"), 20),
    "graph": Part(_graph, ("graph-chain", "graph-tree", "graph-pairs"), 15),
    "million": Part(_million, ("million-rate", "million-memory"), 20),
    "scheduler": Part(_scheduler, ("scheduler",), 5),
    "simulation": Part(_simulation, ("simulation", "simulation-flat"), 150),
    "sweep": Part(_sweep, ("sweep",), 30),
    "sleepers": Part(_sleepers, ("sleepers",), 10),
    "idle": Part(_idle, ("idle-head", "idle-worker"), 25),
}

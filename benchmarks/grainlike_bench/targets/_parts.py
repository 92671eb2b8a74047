"""The rows that `grainlike bench` does not give: each part is one of the other benchmarks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from grainlike import Cores, Executor
from grainlike_bench import (
    _dask_mix,
    bench_bare,
    bench_broadcast,
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
    bench_stays,
    bench_sweep,
    bench_trees,
)
from grainlike_bench._pairs import in_turn

if TYPE_CHECKING:
    from grainlike_bench.bench_spread import Way

__all__ = ["PARTS", "Found", "Part", "spread_rows"]

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
    apart: bool = False
    """True if it counts what goes over loopback, and so takes a network of its own."""


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


def _queued_default(_: int) -> Found:
    return {"default-queued": list(bench_queued.measure(listening=True).values())}


_PLAIN = ("with", "turns", "timeouts", "isolated", "without")
"""Ways of `bench_plain` that are set against its pool."""


def _plain(rounds: int) -> Found:
    rates = asyncio.run(bench_plain.measure(rounds))
    return {f"plain-{name}": _ratios(rates[name], rates["pool"]) for name in _PLAIN}


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
    return {
        "sleepers": asyncio.run(bench_sleepers.measure()),
        "default-sleepers": asyncio.run(bench_sleepers.measure(listening=True)),
    }


def spread_rows(found: dict[str, dict[str, list[Way]]]) -> Found:
    """The rows of what the systems did with large values."""
    from grainlike_bench import bench_spread  # it takes numpy

    ours = found["grainlike"]
    rows: Found = {
        "spread-program": [way.program / bench_spread.VALUE for way in ours["fan"]],
        "spread-growth": [way.growth / 1e6 for way in ours["fan"]],
        "spread-array": [way.program / bench_spread.VALUE for way in ours["own array"]],
        "spread-value": [way.program / bench_spread.VALUE for way in ours["own value"]],
        "spread-chain-network": [way.network / (bench_spread.LINK * bench_spread.LINKS) for way in ours["chain"]],
    }
    for what, peers in {"fan": ("dask", "ray"), "chain": ("ray",)}.items():
        name = "spread" if what == "fan" else "spread-chain"
        for peer in peers:
            if peer in found:
                theirs = [way.seconds for way in found[peer][what]]
                rows[f"{name}-{peer}"] = _ratios([way.seconds for way in ours[what]], theirs)
    return rows


def _spread(rounds: int) -> Found:
    from grainlike_bench import bench_spread  # it takes numpy

    return spread_rows(bench_spread.measure(rounds))


def _link(rounds: int) -> Found:
    from grainlike_bench import bench_data  # it takes data servers, which older revisions lack

    # Seven at the least, each of half a second: the first ones find no memory that was in use before.
    return {"data-link": [bare / pulled for bare, pulled in bench_data.measure(max(rounds, bench_data.ROUNDS))]}


def _broadcast(rounds: int) -> Found:
    """Twice at the most: each is half a minute."""
    found = [bench_broadcast.measure() for _ in range(min(rounds, 2))]
    return {"broadcast-first": [each.copies for each in found], "broadcast-time": [each.time for each in found]}


def _pressure(rounds: int) -> Found:
    from grainlike_bench import bench_pressure  # it takes numpy

    found = bench_pressure.measure(rounds)
    ours = found["grainlike"]
    rows = {"pressure-daemons": [each.growth / 1e6 for each in ours]}
    if "dask" in found:
        rows["pressure-dask"] = _ratios([each.seconds for each in ours], [each.seconds for each in found["dask"]])
    return rows


def _tree(_: int) -> Found:
    """Once: it has thousands of jobs."""
    return {"tree-peak": [bench_trees.peak()]}


def _loss(rounds: int) -> Found:
    """Twice at the most: each is half a minute."""
    found = [bench_trees.loss() for _ in range(min(rounds, 2))]
    return {
        "loss-time": [each.seconds / each.undisturbed for each in found],
        "loss-again": [each.again / each.needed for each in found],
    }


def _stays(_: int) -> Found:
    """Once: bytes are the same on a busy machine."""
    held = bench_stays.measure()
    return {"stays-value": [held.value], "stays-replica": [held.replica]}


def _shared(rounds: int) -> Found:
    """One array for many calls, beside joblib's own processes."""
    from grainlike.adapters import register_joblib
    from grainlike_bench import bench_shared  # it takes joblib

    register_joblib()
    found: Found = {"shared-joblib": [], "shared-gather": []}
    for _ in range(rounds):
        for row, ours, size in (
            ("shared-joblib", partial(bench_shared.by_joblib, "grainlike"), 200),
            ("shared-gather", bench_shared.by_gather, 8),
        ):
            array = bench_shared.array_of(size)
            found[row].append(ours(array)[0] / bench_shared.by_joblib("loky", array)[0])
    return found


def _idle(_: int) -> Found:
    """Once: it is a sum over twenty seconds."""
    head, worker = (percent for percent, _ in asyncio.run(bench_idle.measure()).values())
    return {"idle-head": [head], "idle-worker": [worker]}


PARTS: dict[str, Part] = {
    "bare": Part(_bare, ("w1-embedded", "amap"), 15, needs=("joblib",)),
    "queued": Part(_queued, ("w1b",), 5),
    "queued-default": Part(_queued_default, ("default-queued",), 10),
    "plain": Part(_plain, tuple(f"plain-{name}" for name in _PLAIN), 21),
    "mix": Part(_mix, ("w5-random", "w5-widest"), 45),
    "wide": Part(_wide, ("w6", "w6b-start", "w6b-dask"), 20, needs=("distributed",)),
    "start": Part(_start, ("w7-embedded", "w7-daemon", "w7b"), 20),
    "graph": Part(_graph, ("graph-chain", "graph-tree", "graph-pairs"), 15),
    "million": Part(_million, ("million-rate", "million-memory"), 20),
    "scheduler": Part(_scheduler, ("scheduler",), 5),
    "simulation": Part(_simulation, ("simulation", "simulation-flat"), 150),
    "spread": Part(
        _spread,
        (
            "spread-program",
            "spread-growth",
            "spread-dask",
            "spread-ray",
            "spread-array",
            "spread-value",
            "spread-chain-network",
            "spread-chain-ray",
        ),
        150,
        apart=True,
        needs=("numpy", "distributed", "ray"),
    ),
    "broadcast": Part(_broadcast, ("broadcast-first", "broadcast-time"), 45, apart=True),
    "pressure": Part(_pressure, ("pressure-dask", "pressure-daemons"), 40, needs=("numpy", "distributed")),
    "tree": Part(_tree, ("tree-peak",), 30),
    "loss": Part(_loss, ("loss-time", "loss-again"), 60),
    "stays": Part(_stays, ("stays-value", "stays-replica"), 30),
    "link": Part(_link, ("data-link",), 10),
    "shared": Part(_shared, ("shared-joblib", "shared-gather"), 40, needs=("numpy", "joblib")),
    "sweep": Part(_sweep, ("sweep",), 30),
    "sleepers": Part(_sleepers, ("sleepers", "default-sleepers"), 25),
    "idle": Part(_idle, ("idle-head", "idle-worker"), 25),
}

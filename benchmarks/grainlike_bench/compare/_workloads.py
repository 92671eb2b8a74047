"""Workloads: each drives a session and returns figures in its own units."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from statistics import median
from typing import Any

from grainlike_bench.compare._system import Session
from grainlike_bench.compare._usage import PARTS, Spent, memory_bytes
from grainlike_bench.compare.jobs import add, compute, echo, identity, increment

__all__ = ["LESS_IS_BETTER", "WARM_UP", "WORKLOADS", "Measurement", "detail"]

WARM_UP = 50
"""Number of jobs before anything is timed, so that processes are up and functions were sent to them."""


_TURNS = 3
"""Number of times that a large array goes there and back."""

LESS_IS_BETTER = frozenset({"µs", "MB"})
"""Units of times and sizes; of all others, more is better."""


def detail(workload: str, part: str) -> str:
    """Return the name of a figure that every workload has beside its own: one of `PARTS`, for each operation."""
    assert part in PARTS
    return f"{workload}: {part}"


@dataclass(frozen=True)
class Measurement:
    """A workload. `measure` returns its figures by name, and `units` has the unit of each; beside them are those of
    `detail`.
    """

    name: str
    title: str
    units: dict[str, str]
    measure: Callable[[Session, int], Awaitable[dict[str, float]]]
    size: int
    """The default size: jobs, or bytes."""


async def _at_once(session: Session, size: int) -> dict[str, float]:
    spent = Spent(session.daemon)
    values = await session.at_once(identity, range(size))
    seconds, each = spent.stop(), spent.each(size)
    _expect(sum(values), size * (size - 1) // 2)
    found = {"at once": size / seconds, "CPU a job": each["CPU"], "memory": memory_bytes() / 1e6}
    return found | _details("throughput", each)


async def _leases(session: Session, size: int) -> dict[str, float]:
    await session.alone(identity, range(WARM_UP))
    spent = Spent(session.daemon)
    values = await session.alone(identity, range(size))
    seconds = spent.stop()
    _expect(sum(values), size * (size - 1) // 2)
    return {"a lease each": size / seconds, **_details("leases", spent.each(size))}


async def _short(session: Session, size: int) -> dict[str, float]:
    await session.at_once(compute, range(WARM_UP))  # its time is known from then on
    spent = Spent(session.daemon)
    values = await session.at_once(compute, range(size))
    seconds = spent.stop()
    _expect(sum(values), size * (size - 1) // 2)
    return {"jobs of 5 ms": size / seconds, **_details("short", spent.each(size))}


async def _trips(session: Session, size: int) -> dict[str, float]:
    seconds: list[float] = []
    spent = Spent(session.daemon)
    for i in range(size):
        begun = time.perf_counter()
        value = await session.one(identity, i)
        seconds.append(time.perf_counter() - begun)
        _expect(value, i)
    spent.stop()
    seconds.sort()
    found = {"p50": median(seconds) * 1e6, "p99": seconds[int(0.99 * size)] * 1e6}
    return found | _details("trips", spent.each(size))


async def _tree(session: Session, size: int) -> dict[str, float]:
    leaves = (size + 1) // 2
    spent = Spent(session.daemon)
    value = await session.tree(add, [(i, i) for i in range(leaves)])
    seconds = spent.stop()
    _expect(value, leaves * (leaves - 1))
    return {"tree": size / seconds, **_details("tree", spent.each(size))}


async def _chain(session: Session, size: int) -> dict[str, float]:
    spent = Spent(session.daemon)
    value = await session.chain(increment, size)
    seconds = spent.stop()
    _expect(value, size)
    return {"chain": size / seconds, **_details("chain", spent.each(size))}


def _bulk(figure: str) -> Callable[[Session, int], Awaitable[dict[str, float]]]:
    async def measure(session: Session, size: int) -> dict[str, float]:
        if size > session.largest:
            return {}
        data = _array(size)
        rates: list[float] = []
        spent = Spent(session.daemon)
        for _ in range(_TURNS):
            begun = time.perf_counter()
            back = await session.one(echo, data)
            rates.append(2 * size / 1e6 / (time.perf_counter() - begun))
            _expect(len(back), len(data))
        spent.stop()
        return {figure: median(rates), **_details(figure, spent.each(_TURNS))}

    return measure


def _details(workload: str, each: dict[str, float]) -> dict[str, float]:
    return {detail(workload, part): value for part, value in each.items()}


def _array(size: int) -> Any:
    """Return a NumPy array, which systems that can send apart from its pickle; plain bytes where there is no NumPy."""
    try:
        numpy: Any = import_module("numpy")
    except ImportError:
        return bytearray(size)
    return numpy.ones(size // 8)


def _expect(value: object, right: object) -> None:
    """Raise `AssertionError` for a wrong value: a run that computes nonsense is not measured."""
    if value != right:
        raise AssertionError(f"a job gave {value!r}, not {right!r}")


WORKLOADS = {
    workload.name: workload
    for workload in (
        Measurement(
            "throughput",
            "no-op jobs, all at once",
            {"at once": "jobs/s", "CPU a job": "µs", "memory": "MB"},
            _at_once,
            10_000,
        ),
        Measurement("leases", "no-op jobs that share no lease", {"a lease each": "jobs/s"}, _leases, 2_000),
        Measurement("short", "jobs of 5 ms, all at once", {"jobs of 5 ms": "jobs/s"}, _short, 400),
        Measurement("trips", "no-op jobs, one after another", {"p50": "µs", "p99": "µs"}, _trips, 500),
        Measurement("tree", "a tree of additions", {"tree": "jobs/s"}, _tree, 4_095),
        Measurement("chain", "a chain of additions", {"chain": "jobs/s"}, _chain, 1_000),
        Measurement("bulk", "an array there and back", {"bulk": "MB/s"}, _bulk("bulk"), 8_000_000),
        Measurement("large", "a large array there and back", {"large": "MB/s"}, _bulk("large"), 200_000_000),
    )
}

"""Trees of sums on several nodes: the most values that are stored at once, and what it costs to lose nodes half-way.

*Peak*: 4 096 leaves of 1 MB, summed by eights, whose values are as large; bytes of all files in the stores, looked at
every few milliseconds. *Loss*: a smaller tree on six nodes, two of which are killed once half of its jobs have ended,
beside the same tree left alone. Of a job that has run, the file that its runs write has a line.

Nodes are workers on this machine that share no memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from grainlike import GVAR, Cores, Delayed, Executor, delayed
from grainlike_bench._far_workers import far_workers
from grainlike_bench._processes import processes

VALUE = 1_000_000
FAN_IN = 8
LEAVES, DEPTH = 4_096, 4
NODES, CORES = 2, 2
LOSS_LEAVES, LOSS_JOBS, LOSS_NODES, KILLED, LOSS_JOB_S = 512, 585, 6, 2, 0.1
LOOK_S = 0.005


def leaf(level: int, at: int, log: str, seconds: float) -> bytearray:
    time.sleep(seconds)
    if log:
        _note(log, level, at)
    return bytearray(VALUE)


def total(level: int, at: int, log: str, seconds: float, *values: bytearray) -> bytearray:
    assert all(len(value) == VALUE for value in values)
    return leaf(level, at, log, seconds)


def _note(log: str, level: int, at: int) -> None:
    job = GVAR.job
    assert job is not None
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{level} {at} {job.id} {GVAR.instance}\n".encode())
    os.close(descriptor)


def tree(leaves: int, log: str = "", seconds: float = 0.0) -> Delayed[bytearray]:
    """Return the placeholder of the last sum; nothing else refers to the others."""
    make, add = delayed(leaf) @ Cores(1), cast("Any", delayed(total) @ Cores(1))  # values it takes are placeholders
    level, row = 0, [make(0, at, log, seconds) for at in range(leaves)]
    while len(row) > 1:
        level += 1
        groups = [row[first : first + FAN_IN] for first in range(0, len(row), FAN_IN)]
        row = [add(level, at, log, seconds, *group) for at, group in enumerate(groups)]
    return row[0]


async def _fetched(root_: Delayed[bytearray]) -> int:
    return len(await root_)


def _head(executor: Executor) -> Any:
    service: Any = executor._service
    return service.head


# --- peak ------------------------------------------------------------------------------------------------------------

BOUND = NODES * CORES + FAN_IN * DEPTH
"""Values that a tree needs at once: one a slot, and those of one group at each level."""


async def _peak() -> int:
    """Return the most bytes in the stores of all workers at once."""
    offers = {f"n{node}": ["--resources", f"cores={CORES}"] for node in range(NODES)}
    async with far_workers(offers) as (executor, _):
        await _fetched(tree(FAN_IN**2))
        ended = asyncio.ensure_future(_fetched(tree(LEAVES)))
        homes, most = [Path(peer.hello.replicas) for peer in _head(executor).peers.values()], 0
        while not ended.done():
            most = max(most, sum(map(_stored, homes)))
            await asyncio.sleep(LOOK_S)
        assert await ended == VALUE
        return most


def _stored(home: Path) -> int:
    found = 0
    for file in home.glob("v*"):
        with suppress(FileNotFoundError):
            found += file.stat().st_size
    return found


def peak() -> float:
    """Return the most values that were stored at once, over what the tree needs."""
    return asyncio.run(_peak()) / VALUE / BOUND


# --- loss ------------------------------------------------------------------------------------------------------------

Spot = tuple[int, int]
"""Level, from the leaves, and place in it."""


@dataclass
class Loss:
    """Seconds of a tree left alone and of one that lost nodes; jobs that ran again, and values lost and needed."""

    undisturbed: float = 0.0
    seconds: float = 0.0
    again: int = 0
    needed: int = 0


@dataclass
class Runs:
    """Notes of the runs of a tree's jobs: how many each had, and of the last its number and node."""

    count: Counter[Spot]
    last: dict[Spot, tuple[int, str]]

    @classmethod
    def read(cls, log: Path) -> Runs:
        rows = [line.split() for line in log.read_text(encoding="ascii").splitlines()]
        last = {(int(level), int(at)): (int(job), node) for level, at, job, node in rows}
        return cls(Counter((int(level), int(at)) for level, at, *_ in rows), last)


def needed_again(runs: Runs, whole: Callable[[Spot, bool], bool]) -> set[Spot]:
    """Return the jobs whose values are lost, and needed by jobs that have not run, or to make such a value again.

    `whole` says of a job that has run whether its value has a replica left; it is told whether what needs it has run.
    """
    found: set[Spot] = set()

    def need(spot: Spot, *, by_ended: bool) -> None:
        if not whole(spot, by_ended):
            found.add(spot)
            for child in _inputs(spot):
                need(child, by_ended=True)

    for spot in runs.last:
        above = spot[0] + 1, spot[1] // FAN_IN
        if above not in runs.last:
            need(spot, by_ended=False)
    return found


def _inputs(spot: Spot) -> list[Spot]:
    level, at = spot
    return [(level - 1, FAN_IN * at + number) for number in range(FAN_IN)] if level else []


def _lost(executor: Executor, runs: Runs, killed: set[str]) -> set[Spot]:
    """Return what `needed_again` is as these nodes die."""
    head = _head(executor)
    nodes = {number: peer.name for number, peer in head.peers.items()}
    values = head.state.scheduler._values._table.values

    def whole(spot: Spot, by_ended: bool) -> bool:
        job, node = runs.last[spot]
        known = values.get(job)
        if known is None:  # its report is on its way; or it was dropped, as what needed it has ended
            return not by_ended and node not in killed
        return any(nodes[worker] not in killed for worker in known.replicas)

    return needed_again(runs, whole)


async def _grown(log: Path, kill: int) -> Loss:
    """Run a tree, and kill so many nodes once half of its jobs have run."""
    offers = {f"n{node}": ["--resources", "cores=1"] for node in range(LOSS_NODES)}
    async with far_workers(offers) as (executor, workers):
        await _fetched(tree(FAN_IN * LOSS_NODES))
        found, begun = Loss(), time.perf_counter()
        ended = asyncio.ensure_future(_fetched(tree(LOSS_LEAVES, str(log), LOSS_JOB_S)))
        if kill:
            while Runs.read(log).count.total() < LOSS_JOBS // 2:  # noqa: ASYNC110 - other processes write it
                await asyncio.sleep(LOOK_S)
            for name in list(workers)[:kill]:
                for process in processes(workers[name].pid):
                    os.kill(process, signal.SIGKILL)
            found.needed = len(_lost(executor, Runs.read(log), set(list(workers)[:kill])))
        assert await ended == VALUE
        found.seconds = time.perf_counter() - begun
        found.again = Runs.read(log).count.total() - LOSS_JOBS
        return found


def loss() -> Loss:
    """Return what it costs to lose nodes half-way through a tree."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, name) for name in ("alone", "lost")]
        for log in logs:
            log.touch()
        alone, found = (asyncio.run(_grown(log, kill)) for log, kill in zip(logs, (0, KILLED), strict=True))
        found.undisturbed = alone.seconds
        return found


def main() -> None:
    print(f"peak: {peak():.2f} times the {BOUND} values that the tree needs")
    found = loss()
    print(f"{KILLED} of {LOSS_NODES} nodes killed: {found.seconds:.2f} s, undisturbed {found.undisturbed:.2f} s")
    print(f"{found.again} jobs ran again for {found.needed} values that were lost and needed")


if __name__ == "__main__":
    main()

"""Large values between nodes, beside Dask and Ray: seconds, and bytes as the kernel counts them.

*Fan*: a job makes 50 MB, and eight jobs read it. There are two nodes. *Own*: the program has the 50 MB. *Chain*: ten
jobs in a row on one node, each of which makes 20 MB of what the one before made.

Nodes are workers on this machine that share no memory, as on two machines. Bytes of the network are all that go over
loopback, so it takes a network of its own: `targets` gives it one, and so does `unshare -rn sh -c "ip link set lo up;
python -m grainlike_bench spread"`. Bytes of the program are those of its sockets.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from grainlike import Cores, delayed, delayed_value, gather
from grainlike_bench._far_workers import far_workers

VALUE, LINK = 50_000_000, 20_000_000
READERS, LINKS = 8, 10
NODES, CORES = 2, 4

_SENT = re.compile(rb"bytes_(?:sent|received):(\d+)")


def made(size: int) -> Any:
    return np.ones(size // 8)


def read(array: Any, at: int) -> float:
    return float(array.sum()) + at


def longer(array: Any) -> Any:
    return array + 1


TOTAL = float(VALUE // 8 * READERS + sum(range(READERS)))
"""Sum of what the readers find."""


@dataclass
class Way:
    """Figures of one system: seconds, and bytes of the network, of the program, and how much the program grew."""

    seconds: float = 0.0
    network: int = 0
    program: int = 0
    growth: int = 0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count what the block does."""
        gc.collect()
        network, program, memory, begun = _network(), _program(), _memory(), time.perf_counter()
        yield
        self.seconds = time.perf_counter() - begun
        self.network, self.program, self.growth = _network() - network, _program() - program, _memory() - memory


def _network() -> int:
    """Bytes that loopback has carried, in the network of this process."""
    for line in Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == "lo":
            return int(counts.split()[0])
    return 0


def _program() -> int:
    """Bytes that the connections of this process have carried both ways."""
    lines = subprocess.run(["ss", "-tinpHO"], capture_output=True, check=True).stdout.splitlines()
    mine = f"pid={os.getpid()},".encode()
    return sum(int(count) for line in lines if mine in line for count in _SENT.findall(line))


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _workers(nodes: int) -> AbstractAsyncContextManager[Any]:
    return far_workers({f"n{number}": ["--resources", f"cores={CORES}"] for number in range(nodes)})


async def _ours() -> dict[str, Way]:
    ways = {name: Way() for name in ("fan", "own array", "own value", "chain")}
    make, use = delayed(made) @ Cores(1), delayed(read) @ Cores(1)
    link = delayed(longer) @ Cores(1)
    async with _workers(NODES):
        await gather(use(make(8), at) for at in range(4 * READERS))
        with ways["fan"].measured():
            value = make(VALUE)
            found = await gather(use(value, at) for at in range(READERS))
        assert sum(found) == TOTAL, found
        del value
        array = made(VALUE)
        with ways["own array"].measured():
            found = await gather(use(array, at) for at in range(READERS))
        assert sum(found) == TOTAL, found
        array = made(VALUE)  # another, which is at no worker yet
        with ways["own value"].measured():
            given = delayed_value(array)
            found = await gather(use(given, at) for at in range(READERS))
        assert sum(found) == TOTAL, found
    async with _workers(1):
        await gather(use(link(make(8)), at) for at in range(READERS))
        with ways["chain"].measured():
            value = make(LINK)
            for _ in range(LINKS - 1):
                value = link(value)
            end = await use(value, 0)
        assert end == LINK // 8 * LINKS, end
    return ways


def _dask() -> dict[str, Way]:
    distributed: Any = import_module("distributed")
    ways = {name: Way() for name in ("fan", "own array", "chain")}

    @contextmanager
    def cluster(nodes: int) -> Iterator[Any]:
        with (
            distributed.LocalCluster(
                n_workers=nodes, threads_per_worker=CORES, processes=True, dashboard_address=None
            ) as started,
            distributed.Client(started) as client,
        ):
            yield client

    def spread(client: Any, value: Any) -> None:
        found = client.gather([client.submit(read, value, at, pure=False) for at in range(READERS)])
        assert sum(found) == TOTAL, found

    with cluster(NODES) as client:
        small = client.submit(made, 8, pure=False)
        client.gather([client.submit(read, small, at, pure=False) for at in range(4 * READERS)])
        with ways["fan"].measured():
            spread(client, client.submit(made, VALUE, pure=False))
        array = made(VALUE)
        with ways["own array"].measured():
            spread(client, client.scatter(array))
    with cluster(1) as client:
        client.submit(read, client.submit(longer, client.submit(made, 8)), 0).result()
        with ways["chain"].measured():
            value = client.submit(made, LINK, pure=False)
            for _ in range(LINKS - 1):
                value = client.submit(longer, value, pure=False)
            end = client.submit(read, value, 0).result()
        assert end == LINK // 8 * LINKS, end
    return ways


def _ray() -> dict[str, Way]:
    ray: Any = import_module("ray")
    utilities: Any = import_module("ray.cluster_utils")
    ways = {name: Way() for name in ("fan", "own array", "chain")}
    make, use, link = ray.remote(made), ray.remote(read).options(scheduling_strategy="SPREAD"), ray.remote(longer)

    @contextmanager
    def cluster(nodes: int) -> Iterator[None]:
        """Nodes with an object store each, and one without cores for the program."""
        started = utilities.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        try:
            for _ in range(nodes):
                started.add_node(num_cpus=CORES)
            ray.init(address=started.address, log_to_driver=False, logging_level="ERROR")
            yield
        finally:
            ray.shutdown()
            started.shutdown()

    def spread(value: Any) -> None:
        found = ray.get([use.remote(value, at) for at in range(READERS)])
        assert sum(found) == TOTAL, found

    with cluster(NODES):
        ray.get([use.remote(make.remote(8), at) for at in range(4 * READERS)])
        with ways["fan"].measured():
            spread(make.remote(VALUE))
        array = made(VALUE)
        with ways["own array"].measured():
            spread(ray.put(array))
    with cluster(1):
        ray.get(use.remote(link.remote(make.remote(8)), 0))
        with ways["chain"].measured():
            value = make.remote(LINK)
            for _ in range(LINKS - 1):
                value = link.remote(value)
            end = ray.get(use.remote(value, 0))
        assert end == LINK // 8 * LINKS, end
    return ways


SYSTEMS: dict[str, Callable[[], dict[str, Way]]] = {
    "grainlike": lambda: asyncio.run(_ours()),
    "dask": _dask,
    "ray": _ray,
}


def measure(rounds: int) -> dict[str, dict[str, list[Way]]]:
    """Return the figures of each installed system in every round, in turn: by system, and by task."""
    modules = {"dask": "distributed", "ray": "ray"}
    found: dict[str, dict[str, list[Way]]] = {}
    for _ in range(rounds):
        for name, run in SYSTEMS.items():
            if find_spec(modules.get(name, "grainlike")) is not None:
                for what, way in run().items():
                    found.setdefault(name, {}).setdefault(what, []).append(way)
    return found


def main() -> None:
    for name, ways in measure(1).items():
        for what, rounds in ways.items():
            seconds, network, program, growth = (
                median(getattr(way, figure) for way in rounds) for figure in ("seconds", "network", "program", "growth")
            )
            print(
                f"{name:10} {what:10} {seconds:6.2f} s  {network / 1e6:7.1f} MB on the network  "
                f"{program / 1e6:7.1f} MB of the program  it grew by {growth / 1e6:6.1f} MB"
            )


if __name__ == "__main__":
    main()

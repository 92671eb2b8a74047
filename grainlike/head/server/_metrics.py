"""A head in figures, for monitoring systems: counted when somebody asks, by workers and classes rather than jobs."""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from grainlike._version import __version__
from grainlike.head import Head, LiveView
from grainlike.resources import UNIT
from grainlike.scheduler import WorkerState
from grainlike.wire import MetricsAre, WorkerUse

if TYPE_CHECKING:
    from grainlike.head.fleet import FleetDriver

__all__ = ["metrics_are"]


def metrics_are(
    ask: int,
    head: Head,
    live: LiveView,
    driver: FleetDriver | None,
    up_s: float,
    cluster: str,
    clients: int,
    sessions: int,
    kept_bytes: int,
) -> MetricsAre:
    """Return a head in figures; `driver` has its pools, if there are any."""
    states, running = live.counts()
    scheduler, peers = head.state.scheduler, head.peers
    workers = [
        _use(worker, peers[number].hello.block, running[number])
        for number, worker in scheduler.workers.items()
        if number in peers
    ]
    pools = [] if driver is None else driver.view.pool_rows()
    blocks = Counter((row.pool, row.state) for row in ([] if driver is None else driver.view.block_rows()))
    return MetricsAre(
        *(ask, time.time(), up_s, cluster, __version__, platform.python_version(), states, head.totals()),
        *(sum(bool(cls.queued) for cls in scheduler.classes.values()), clients, sessions, kept_bytes),
        *(len(head.history), head.history.nbytes, workers, pools),
        [(pool, state, count) for (pool, state), count in blocks.items()],
    )


def _use(worker: WorkerState, block: str, jobs: int) -> WorkerUse:
    offered = _plain(worker.capacity)
    used = {name: max(0.0, amount - worker.free.get(name, 0) / UNIT) for name, amount in offered.items()}
    return WorkerUse(worker.name, block, _state(worker), jobs, offered, used)


def _state(worker: WorkerState) -> str:
    if worker.leaving or worker.draining:
        return "leaving"
    return next(iter(worker.shut), "up")


def _plain(units: Mapping[str, int]) -> dict[str, float]:
    return {name: amount / UNIT for name, amount in units.items()}

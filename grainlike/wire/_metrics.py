"""Figures of a head for monitoring systems: one question, and one answer that is bounded by workers and pools."""

from __future__ import annotations

import msgspec

from grainlike.wire._base import BaseMessage
from grainlike.wire._fleet import PoolRow
from grainlike.wire._rows import BaseAnswer
from grainlike.wire._totals import Totals

__all__ = ["AskMetrics", "MetricsAre", "WorkerUse"]


class AskMetrics(BaseMessage, frozen=True, tag=148):
    """Ask for the head in figures; answered by `MetricsAre`."""

    ask: int


class WorkerUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A worker in figures.

    `state` is `up`, `suspect` (its link has broken, or it is silent), `quarantine` or `leaving`. `offered` and `used`
    are amounts by kind of resource, memory in bytes; what a job lends while it waits is not used.
    """

    name: str
    block: str
    state: str
    jobs: int
    offered: dict[str, float]
    used: dict[str, float]


class MetricsAre(BaseAnswer, frozen=True, tag=149):
    """The head in figures.

    Attributes:
        at: the moment, as `time.time()` has it at the head.
        up_s: seconds for which the head has been up.
        cluster: its cluster; `embedded` for the head of a program to which no process connects.
        version: its version of grainlike.
        python: its version of Python.
        jobs: number of jobs that have not ended, by state, as in `HeadIs`.
        totals: how jobs have ended since the head was first started.
        queue_groups: groups of alike jobs that wait.
        clients: clients that are connected.
        sessions: named sessions.
        kept_bytes: bytes of outcomes that named sessions keep, in memory and on disk.
        history_jobs: ended jobs that the head remembers.
        history_bytes: bytes that they take.
        workers: the workers.
        pools: the pools of workers.
        blocks: number of blocks that have not ended, by pool and state, in rows.
    """

    ask: int
    at: float
    up_s: float
    cluster: str
    version: str
    python: str
    jobs: dict[str, int]
    totals: Totals
    queue_groups: int
    clients: int
    sessions: int
    kept_bytes: int
    history_jobs: int
    history_bytes: int
    workers: list[WorkerUse]
    pools: list[PoolRow]
    blocks: list[tuple[str, str, int]]

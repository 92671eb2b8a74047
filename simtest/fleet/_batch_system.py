"""Imitation of a batch system: native jobs that wait, start, run and end, and listings of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from grainlike.dialects import ListedBlock
from grainlike.fleet import FleetPool
from simtest.fleet._weather import Weather

__all__ = ["ANOTHER_WAY", "BatchSystem", "BatchSystems", "NativeJob", "SimWorker"]

ANOTHER_WAY = " via login2"
"""End of the key by which a batch system is reached in another way."""


@dataclass(slots=True, eq=False)
class SimWorker:
    """Worker on one node of a native job."""

    native: NativeJob
    node: int
    alive: bool = True
    connected: bool = False
    leaving: bool = False
    job: int | None = None

    @property
    def label(self) -> str:
        """Label of its block."""
        return self.native.label


@dataclass(slots=True, eq=False)
class NativeJob:
    """Job of the batch system, which is one block if all goes well.

    `headless` marks those whose workers ended as they found no head.

    `extra` marks those that exist by the batch system's own doing: taken twice, or shown only long after.
    """

    native: str
    name: str
    label: str
    pool: FleetPool
    taken_at: float
    shown_at: float
    extra: bool
    state: str = "pending"
    reason: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    broken: bool = False
    headless: bool = False
    by_others: bool = False
    workers: list[SimWorker] = field(default_factory=list)

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self.state != "ended"

    def core_hours(self, now: float) -> float:
        """Return what it has taken until now."""
        if self.started_at is None:
            return 0.0
        end = now if self.ended_at is None else self.ended_at
        return (self.pool.cores or 4) * self.pool.nodes * (end - self.started_at) / 3600

    def left_s(self, now: float) -> float | None:
        """Return seconds until its walltime."""
        if self.pool.walltime_s is None or self.started_at is None:
            return None
        return self.started_at + self.pool.walltime_s - now


class BatchSystem:
    """Native jobs of one batch system."""

    def __init__(self, name: str, weather: Weather) -> None:
        self.name = name
        self.weather = weather
        self.jobs: dict[str, NativeJob] = {}

    def take(self, name: str, label: str, pool: FleetPool, now: float, *, shown_at: float, extra: bool) -> NativeJob:
        """Take a submission."""
        native = f"{self.name}{len(self.jobs) + 1}"
        made = NativeJob(native, name, label, pool, now, shown_at, extra)
        self.jobs[native] = made
        return made

    def listing(self, now: float) -> tuple[ListedBlock, ...]:
        """Return all that it tells of its jobs."""
        return tuple(self._rows(now))

    def _rows(self, now: float) -> Iterator[ListedBlock]:
        for job in self.jobs.values():
            if now < job.shown_at:
                continue
            if job.state == "pending":
                yield ListedBlock(job.native, job.name, "pending", "Priority")
            elif job.state == "running":
                yield ListedBlock(job.native, job.name, "running", left_s=job.left_s(now), nodes=("n1",))
            elif job.ended_at is not None and now < job.ended_at + self.weather.forgets:
                yield ListedBlock(job.native, job.name, "ended", job.reason)

    def of_label(self, label: str) -> Sequence[NativeJob]:
        """Return the jobs of a block, of which there may be two if it was taken twice."""
        return [job for job in self.jobs.values() if job.label == label]

    def alive(self) -> Sequence[NativeJob]:
        """Return the jobs that have not ended."""
        return [job for job in self.jobs.values() if job.alive]


class BatchSystems(dict[str, BatchSystem]):
    """Batch systems by key: those too that are reached in another way, but once among all."""

    def __missing__(self, key: str) -> BatchSystem:
        """Return the system that another key means, too."""
        if not key.endswith(ANOTHER_WAY):
            raise KeyError(key)
        return self[key.removesuffix(ANOTHER_WAY)]

"""Pools as the fleet scheduler knows them: limits and prices, and what has become of their submissions."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["FleetPool", "PoolState"]

UNPROVEN_BLOCKS = 3
"""Blocks that may be without workers until the first worker of a pool has joined: what a broken environment costs."""


@dataclass(frozen=True, slots=True)
class FleetPool:
    """Numbers of a pool that decide how many blocks it has.

    Attributes:
        name: name of the pool.
        system: key of the batch system that starts its blocks; pools with one key share listings.
        min: workers at least.
        max: workers at most.
        nodes: workers in one block.
        walltime_s: seconds after which a block ends; None: it lasts until it is ended.
        cores: cores of one worker; 0: learned from the first that joins.
        pending: blocks in the batch queue at once.
        idle_s: seconds without jobs after which a block ends.
        join_s: seconds from the start of a block within which its first worker joins.
        budget: core-hours at most, for the life of the pool; None: as many as it takes.

    Raises:
        ValueError: numbers that are not in blocks, or a budget for blocks without an end.

    Example::

        >>> FleetPool("cpu", "slurm", min=0, max=8, nodes=2, walltime_s=3600.0, cores=16).max
        8
    """

    name: str
    system: str
    min: int = 0
    max: int = 1
    nodes: int = 1
    walltime_s: float | None = None
    cores: int = 0
    pending: int = 4
    idle_s: float = 300.0
    join_s: float = 300.0
    budget: float | None = None

    def __post_init__(self) -> None:
        """Check that the numbers go together."""
        if not 0 <= self.min <= self.max or self.nodes < 1 or self.min % self.nodes or self.max % self.nodes:
            raise ValueError(f"{self.name}: {self.min} to {self.max} workers are not in blocks of {self.nodes}")
        if self.budget is not None and self.walltime_s is None:
            raise ValueError(f"{self.name}: a budget needs a walltime")


@dataclass(slots=True)
class PoolState:
    """State of a pool: what it is, and how its submissions fared.

    Attributes:
        pool: its numbers.
        workers: workers that would be of use now beside those that have joined; None: not known since one joined.
        kept: labels of blocks whose idle workers a gang waits for.
        joined_at: version of the books at which a worker last joined: older counts of what is wanted do not hold.
        paused: why it submits nothing until somebody says otherwise; empty: it does.
        going: True after `PoolGone`: it is forgotten when its last block has ended.
        at_once: True if the jobs of its blocks are not waited for.
        deaths: blocks in a row that ended before a worker joined.
        proven: True once a worker has joined under these numbers.
        dormant: True if a block had no job in its whole life: `min` then waits for a job.
        held_until: time before which nothing is submitted.
        held: how often in a row it was held, from which the next wait follows.
        reason: why it was held, for people.
        too_many_since: since when more blocks are pending than are wanted.
        cores: cores of one worker, as set or as learned; 0: not known yet.
        spent: core-hours of blocks that have ended.
    """

    pool: FleetPool
    workers: int | None = None
    kept: frozenset[str] = frozenset()
    joined_at: int = 0
    paused: str = ""
    going: bool = False
    at_once: bool = False
    deaths: int = 0
    proven: bool = False
    dormant: bool = False
    held_until: float = 0.0
    held: int = 0
    reason: str = ""
    too_many_since: float | None = None
    cores: int = field(default=0)
    spent: float = 0.0

    @property
    def unproven_room(self) -> int | None:
        """Blocks that may be without workers until one has joined; None: as many as are wanted."""
        return None if self.proven and not self.deaths else max(1, UNPROVEN_BLOCKS - self.deaths)

    def forget_failures(self) -> None:
        """Start anew after a pause, or with other numbers."""
        self.paused = self.reason = ""
        self.deaths = self.held = 0
        self.held_until = 0.0
        self.dormant = False

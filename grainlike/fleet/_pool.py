"""Pools as the fleet scheduler knows them: limits and prices, and the results of their submissions."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["FleetPool", "PoolState"]

UNPROVEN_BLOCKS = 3
"""Most blocks without workers until the first worker of a pool has joined: a broken environment costs no more."""


@dataclass(frozen=True, slots=True)
class FleetPool:
    """Numbers of a pool that decide how many blocks it has.

    Attributes:
        name: name of the pool.
        system: key of the batch system that starts the blocks; pools with one key share listings.
        min: least workers.
        max: most workers.
        nodes: workers in one block.
        walltime_s: seconds after which a block ends; None if it lasts until it is ended.
        cores: cores of one worker; 0 if they are learned from the first worker that joins.
        pending: most blocks in the batch queue.
        idle_s: seconds without jobs after which a block ends.
        join_s: seconds from the start of a block within which its first worker joins.
        budget: most core-hours for the life of the pool; None without a budget.

    Raises:
        ValueError: `min` or `max` is not in whole blocks, or there is a budget for blocks without an end.

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
        """Check that the numbers fit together."""
        if not 0 <= self.min <= self.max or self.nodes < 1 or self.min % self.nodes or self.max % self.nodes:
            raise ValueError(f"{self.name}: {self.min} to {self.max} workers are not in blocks of {self.nodes}")
        if self.budget is not None and self.walltime_s is None:
            raise ValueError(f"{self.name}: a budget needs a walltime")


@dataclass(slots=True)
class PoolState:
    """State of a pool: its numbers, and the results of its submissions.

    Attributes:
        pool: its numbers.
        workers: workers that would be of use now besides those that have joined; None if unknown since a worker joined.
        kept: labels of blocks whose idle workers a gang waits for.
        joined_at: version of the records at which a worker last joined; counts of wanted workers from before are too
            old.
        paused: why the pool submits nothing until it is resumed; empty if it submits.
        going: True after `PoolGone`: the pool is forgotten when its last block has ended.
        at_once: True if the jobs of its blocks are not waited for.
        deaths: blocks in a row that ended before a worker joined.
        proven: True once a worker has joined under these numbers.
        dormant: True if a block had no job in its whole life; `min` then waits for a job.
        held_until: time before which nothing is submitted.
        held: how many times in a row the pool was held, which sets the next wait.
        reason: why it was held, for people.
        too_many_since: time since which more blocks are pending than are wanted.
        cores: cores of one worker, as set or learned; 0 if unknown.
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
        """Most blocks without workers until a worker has joined; None without a limit."""
        return None if self.proven and not self.deaths else max(1, UNPROVEN_BLOCKS - self.deaths)

    def forget_failures(self) -> None:
        """Forget failures after a pause, or when the numbers have changed."""
        self.paused = self.reason = ""
        self.deaths = self.held = 0
        self.held_until = 0.0
        self.dormant = False

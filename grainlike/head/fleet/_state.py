"""State of a fleet: its scheduler, its pools as they were written, and the clients of their batch systems."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from grainlike.dialects import native_name
from grainlike.fleet import Block, EndedBlock, FleetPool, FleetScheduler
from grainlike.head.fleet._records_file import RecordsFile
from grainlike.launch import LaunchContext, PoolClient, WorkerPool, client_of, system_key
from grainlike.net import state_directory
from grainlike.resources import UNIT, Allocation, offer_of, parse

__all__ = ["FleetState"]

START_S = 60.0
"""Time that a block may take from its start until its workers have joined: a job that needs it, too, asks for more."""


class FleetState:
    """State of a fleet whose workers connect with the access file `access`.

    `file` has the records of the head before, if there was one; None: they end with this head.

    Raises:
        JournalError: the records in the file are damaged.
    """

    def __init__(self, access: Path, file: RecordsFile | None) -> None:
        self.pools: dict[str, WorkerPool] = {}
        self.offers: dict[str, str] = {}
        """Offers of workers of pools of whole nodes, as text, once one has joined."""
        self._file = file
        self._clients: dict[str, PoolClient] = {}
        self._systems: dict[str, PoolClient] = {}
        self._now = 0.0
        kept = None if file is None else file.read()
        self.is_restored: bool = kept is not None
        if kept is None:
            self.scheduler: FleetScheduler = FleetScheduler(secrets.token_hex(4))
        else:
            records, self.pools, self.offers, self._now = kept
            self.scheduler = FleetScheduler(records.digest, records)
        self.context: LaunchContext = LaunchContext(state_directory(), access, self.scheduler.records.digest)

    @property
    def is_empty(self) -> bool:
        """True if there is no pool and no block."""
        return not self.scheduler.records.pools and not self.scheduler.records.blocks

    def time(self) -> float:
        """Return the time in seconds since 1970, which never goes back: records outlive a machine's uptime."""
        self._now = max(self._now, time.time())
        return self._now

    def unwritten(self) -> bytes | None:
        """Return the text of the file of records; None if it has it already, or there is no file."""
        if self._file is None:
            return None
        return self._file.encode(self.scheduler.records, self.pools, self.offers, self._now)

    def write(self, data: bytes) -> None:
        """Replace the file of records.

        Raises:
            OSError: the disk refuses.
        """
        assert self._file is not None
        self._file.write(data)

    def name_of(self, block: Block | EndedBlock) -> str:
        """Return the native name of a block."""
        return native_name(self.scheduler.records.digest, block.number)

    def client(self, pool: str) -> PoolClient:
        """Return the client of a pool's batch system."""
        known = self._clients.get(pool)
        if known is None or known.pool is not self.pools[pool]:
            blocks = self.scheduler.records.blocks_of(pool)
            known = self._clients[pool] = client_of(self.pools[pool], self.context, known)
            known.remember((self.name_of(block), block.native, block.place) for block in blocks)
            self._systems[system_key(known.pool, pool)] = known
        return known

    def client_of_system(self, system: str) -> PoolClient | None:
        """Return a client of a batch system; None if no pool has been there."""
        for name in self.pools:
            self.client(name)
        return self._systems.get(system)  # also of a pool that is of another kind now

    def numbers(self, name: str, pool: WorkerPool) -> FleetPool:
        """Return what the scheduler knows of a pool."""
        offer = pool.offer
        return FleetPool(
            name,
            system_key(pool, name),
            min=pool.min,
            max=pool.max,
            nodes=pool.block_nodes,
            walltime_s=None if pool.walltime is None else pool.seconds("walltime"),
            cores=0 if offer is None else -(-offer.units.get("cores", 0) // UNIT),
            pending=pool.pending,
            idle_s=pool.seconds("idle"),
            join_s=pool.seconds("join"),
            budget=pool.budget,
        )

    def usable(self, name: str) -> Allocation | None:
        """Return what a worker of a pool offers, for as long as its jobs may last."""
        pool = self.pools[name]
        offer = pool.offer
        if offer is None and name in self.offers:
            offer = offer_of(parse(self.offers[name]), own_cores=())
        if offer is None or pool.walltime is None:
            return offer
        walltime = pool.seconds("walltime")
        return offer.lasting(max(1.0, walltime - pool.margin_s - min(START_S, walltime / 10)))

"""Clients of batch systems: what a head asks of each, and which one a pool has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from grainlike.dialects import Listing
from grainlike.launch._batch_client import BatchClient, Submission
from grainlike.launch._other_pools import Kubernetes
from grainlike.launch._pool import WorkerPool

__all__ = ["PoolClient", "client_of"]


class PoolClient(Protocol):
    """Client of the batch system of a pool. Nothing raises but cancellation: what cannot be done is said."""

    @property
    def pool(self) -> WorkerPool:
        """Pool whose blocks it submits."""
        ...

    @property
    def title(self) -> str:
        """Name of the batch system, for people."""
        ...

    def log(self, name: str) -> str:
        """Return the path of a block's log."""
        ...

    async def submit(self, name: str, label: str) -> Submission:
        """Submit a block."""
        ...

    async def listing(self) -> Listing:
        """Return the blocks that the batch system knows, of whichever cluster."""
        ...

    async def end(self, natives: Sequence[str], names: Sequence[str], *, kill: bool = False) -> None:
        """Tell the batch system to end jobs, whose native names are beside their ids; a listing says when they have."""
        ...

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        ...


def client_of(pool: WorkerPool, state: Path, access: Path, digest: str) -> PoolClient:
    """Return the client of a pool: blocks are in `state`, workers get the file `access`, `digest` is the cluster's."""
    if isinstance(pool, Kubernetes):
        from grainlike.launch._kubernetes_client import KubernetesClient

        return KubernetesClient(pool, state, access, digest)
    return BatchClient(pool, state, access)

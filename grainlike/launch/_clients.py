"""Clients of batch systems: what a head asks of each, and which one a pool has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from grainlike.dialects import Listing
from grainlike.launch._batch_client import BatchClient, Submission
from grainlike.launch._block_files import FilePart
from grainlike.launch._context import LaunchContext
from grainlike.launch._other_pools import SSH, Kubernetes
from grainlike.launch._pool import WorkerPool
from grainlike.launch._ssh_client import SSHClient

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

    def remember(self, blocks: Iterable[tuple[str, str, str]]) -> None:
        """Take the blocks of an earlier client or head: name, id, and machine."""
        ...

    async def end(self, natives: Sequence[str], *, kill: bool = False) -> None:
        """Tell the batch system to end jobs; a listing says when they have."""
        ...

    async def read_log(self, name: str) -> str | None:
        """Return the end of a block's log; None if there is none."""
        ...

    async def read_part(self, name: str, file: str, start: int) -> FilePart:
        """Return what a file of a block, `log` or `script`, has from a place on."""
        ...


def client_of(pool: WorkerPool, context: LaunchContext, before: PoolClient | None = None) -> PoolClient:
    """Return the client of a pool's batch system; `before` is the one that the pool had until now.

    Example::

        client_of(Slurm("cores=1", walltime=60), LaunchContext(state, access, digest))
    """
    if isinstance(pool, Kubernetes):
        from grainlike.launch._kubernetes_client import KubernetesClient  # others do without

        return KubernetesClient(pool, context)
    return SSHClient(pool, context, before) if isinstance(pool, SSH) else BatchClient(pool, context)

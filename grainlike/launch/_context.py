"""Context of the clients of one head: where its files are, and what its clients share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from grainlike.dialects import ListedBlock
from grainlike.launch._tunnels import Tunnels

__all__ = ["KubernetesBlocks", "LaunchContext"]

_KEPT = 200


@dataclass(slots=True)
class KubernetesBlocks:
    """Blocks in one namespace of a Kubernetes: what the clients of all pools there know of them.

    Attributes:
        ended: those that have ended, by native name, with the reason that Kubernetes gave while it had them.
        delivered: those whose Secret is there, or is not wanted, as they were refused.
        submitting: those whose submission is under way.
    """

    ended: dict[str, ListedBlock] = field(default_factory=dict[str, ListedBlock])
    delivered: set[str] = field(default_factory=set[str])
    submitting: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class LaunchContext:
    """Context in which the clients of one head submit.

    Attributes:
        state: directory of the head's files; those of blocks are below it.
        access: the workers' access file.
        digest: of the cluster, which its blocks have in their names.
        tunnels: connections that forward the head's port.
        ended: last rows of blocks of machines by SSH, of which nothing is left there, by native name.
        logs: ends of their logs.
        delivered: blocks to which files were delivered whose rest is still to be removed, by batch system: native name,
            and the time (monotonic) before which a listing without the block does not say that it has ended.
        kubernetes: blocks of pools of Kubernetes, by batch system.
    """

    state: Path
    access: Path
    digest: str
    tunnels: Tunnels = field(default_factory=Tunnels)
    ended: dict[str, ListedBlock] = field(default_factory=dict[str, ListedBlock])
    logs: dict[str, str] = field(default_factory=dict[str, str])
    delivered: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    kubernetes: dict[str, KubernetesBlocks] = field(default_factory=dict[str, KubernetesBlocks])

    def owns(self, name: str) -> bool:
        """Return True for the native name of a block of this cluster."""
        return name.startswith(f"gl{self.digest[:8].lower()}-")

    def forget(self, rows: Iterable[ListedBlock], logs: Mapping[str, str]) -> None:
        """Keep what is known of blocks whose directories are removed, the last of them."""
        self.ended.update((row.name, row) for row in rows)
        # Machines that share a directory tell one after the other, and the last one finds it empty.
        self.logs.update((name, text) for name, text in logs.items() if text or name not in self.logs)
        for kept in (self.ended, self.logs):
            while len(kept) > _KEPT:
                del kept[next(iter(kept))]

"""The hosts of a job on several nodes, for the programs that it starts: two files, and the environment.

`GRAINLIKE_HOSTFILE` is the path of a file with a line for each host, the job's own first: `HOST slots=CORES`, with the
cores of all its nodes on that host. `GRAINLIKE_RANKFILE` beside it binds ranks to cores, one each: `rank N=HOST
slot=CORE`. Open MPI and its like read both. `GRAINLIKE_NODES` is the number of nodes. The daemon makes the files,
because it outlives the job's process however that ends; the process shows them to its children (`_gang_env`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from grainlike.resources import parse_allocation
from grainlike.wire import Gang, NodeSpec

__all__ = ["HostFiles"]

logger = logging.getLogger("grainlike.worker")


class HostFiles:
    """The host and rank files of one daemon, by lease: in directories of their own that only this user can read."""

    def __init__(self) -> None:
        self.by_lease: dict[int, Path] = {}
        """The directories of files; read-only for callers."""

    def write(self, lease: int, gang: Gang) -> str:
        """Make the files for a lease; return the host file's path, empty where they cannot be made.

        That is no error of the job, which may not need them. The rank file lies beside the host file.
        """
        import tempfile  # here, because runners share this module, and start sooner without

        try:
            directory = self.by_lease[lease] = Path(tempfile.mkdtemp(prefix="grainlike-gang-"))
            path = directory / "hostfile"
            path.write_text(_hosts(gang.nodes), encoding="utf-8")
            path.with_name("rankfile").write_text(_ranks(gang.nodes), encoding="utf-8")
        except OSError as error:
            logger.warning("job %d gets no host file: %s", gang.job, error)
            return ""
        return str(path)

    def remove(self, lease: int) -> None:
        """The lease has ended. Others than gangs' have no file."""
        directory = self.by_lease.pop(lease, None)
        if directory is not None:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)

    def remove_all(self) -> None:
        """The daemon ends."""
        for lease in list(self.by_lease):
            self.remove(lease)


def _hosts(nodes: Sequence[NodeSpec]) -> str:
    """Return a line for each host; several workers of one host make one line, which is all that `mpirun` reads."""
    slots: dict[str, int] = {}
    for node in nodes:
        host = _host(node)
        slots[host] = slots.get(host, 0) + max(1, parse_allocation(node.allocation).N)
    return "".join(f"{host} slots={count}\n" for host, count in slots.items())


def _host(node: NodeSpec) -> str:
    """Return one name for this machine, which workers of its own reach in several ways."""
    return "localhost" if node.host in ("127.0.0.1", "::1") else node.host


def _ranks(nodes: Sequence[NodeSpec]) -> str:
    """Return a line for each core, node by node in the order of the job's nodes."""
    places = [(_host(node), core) for node in nodes for core in parse_allocation(node.allocation).cores]
    return "".join(f"rank {rank}={host} slot={core}\n" for rank, (host, core) in enumerate(places))

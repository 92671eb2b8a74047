"""The hosts of a job on several nodes, as programs that it starts are told of them: a file, and the environment.

`GRAINLIKE_HOSTFILE` is the path of a file with a line for each node, the job's own first: `HOST slots=CORES`, as Open
MPI and its like read it. `GRAINLIKE_NODES` is how many there are. The daemon makes the file, because it outlives the
job's process however that ends; the process shows it to its children.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from grainlike.resources import parse_allocation
from grainlike.wire import Gang, NodeSpec

__all__ = ["HOSTFILE", "NODES", "HostFiles", "show_nodes"]

logger = logging.getLogger("grainlike.worker")

HOSTFILE = "GRAINLIKE_HOSTFILE"
NODES = "GRAINLIKE_NODES"


class HostFiles:
    """The host files of one daemon, by lease: each in a directory of its own that only this user can read."""

    def __init__(self) -> None:
        self._directories: dict[int, Path] = {}

    def write(self, lease: int, gang: Gang) -> str:
        """Make the file for a lease; return its path, empty where it cannot be made: the job may not need it."""
        import tempfile  # here, because runners share this module, and start sooner without

        try:
            directory = self._directories[lease] = Path(tempfile.mkdtemp(prefix="grainlike-gang-"))
            path = directory / "hostfile"
            path.write_text("".join(map(_line, gang.nodes)), encoding="utf-8")
        except OSError as error:
            logger.warning("job %d gets no host file: %s", gang.job, error)
            return ""
        return str(path)

    def remove(self, lease: int) -> None:
        """The lease has ended. Others than gangs' have no file."""
        directory = self._directories.pop(lease, None)
        if directory is not None:
            import shutil

            shutil.rmtree(directory, ignore_errors=True)

    def remove_all(self) -> None:
        """The daemon ends."""
        for lease in list(self._directories):
            self.remove(lease)


def _line(node: NodeSpec) -> str:
    return f"{node.host} slots={max(1, parse_allocation(node.allocation).N)}\n"


def show_nodes(gang: Gang | None) -> None:
    """Put the nodes of the next job into this process's environment; what the last job's were is gone."""
    for name in (HOSTFILE, NODES):
        os.environ.pop(name, None)
    if gang is not None:
        os.environ[NODES] = str(len(gang.nodes))
        if gang.hostfile:
            os.environ[HOSTFILE] = gang.hostfile

"""Environment variables of a job on several nodes, for the programs that it starts."""

from __future__ import annotations

import os
from pathlib import Path

from grainlike.resources import BINDINGS, parse_allocation, spread_over_nodes
from grainlike.wire import Gang

__all__ = ["HOSTFILE", "NODES", "RANKFILE", "show_nodes"]

HOSTFILE = "GRAINLIKE_HOSTFILE"
NODES = "GRAINLIKE_NODES"
RANKFILE = "GRAINLIKE_RANKFILE"
_PHYSICAL = "OMPI_MCA_rmaps_rank_file_physical"
"""With it Open MPI up to 4 takes the cores of a rankfile for the system's numbers; later ones always do."""

_replaced: dict[str, str | None] = {}
"""Variables that the last gang has changed, with the values to be put back."""


def show_nodes(gang: Gang | None) -> None:
    """Put the nodes of the next job into this process's environment, and take out the last job's.

    To be called after the environment of the slots has been set.
    """
    for name in (HOSTFILE, NODES, RANKFILE, _PHYSICAL):
        os.environ.pop(name, None)
    while _replaced:
        name, value = _replaced.popitem()
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if gang is None:
        return
    os.environ[NODES] = str(len(gang.nodes))
    if gang.hostfile:
        os.environ[HOSTFILE] = gang.hostfile
        os.environ[RANKFILE] = str(Path(gang.hostfile).with_name("rankfile"))
        os.environ[_PHYSICAL] = "1"
    if len({parse_allocation(node.allocation).cores for node in gang.nodes}) > 1:
        _replaced.update((name, os.environ.get(name)) for name in BINDINGS)
        spread_over_nodes(os.environ)

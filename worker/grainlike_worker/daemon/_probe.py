"""Resources of this machine, or of the part of it that this process may use."""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path

from grainlike.resources import Allocation, Cores, Memory, Request, Topology, logical_cores, offer_of
from grainlike.system import cpu_limit, own_memory

__all__ = ["logical_in", "offer_for", "offer_of_daemon", "own_cores", "topology", "warn_of_logical"]

logger = logging.getLogger("grainlike.worker")


def own_cores() -> tuple[int, ...]:
    """The core ids that this process may run on: its affinity, cut to the processor time that its cgroup allows.

    Never the machine's processor count: in a container or a batch job that is somebody else's.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    time = cpu_limit()
    return tuple(cores if time is None else cores[: max(1, math.ceil(time))])


def offer_for(what: Request | None) -> Allocation:
    """Return the offer of the embedded worker of this process: `what` with concrete ids, or its own cores.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    cores = own_cores()
    return offer_of(Cores(cores) if what is None else what, own_cores=cores)


def offer_of_daemon(what: Request | None) -> Allocation:
    """Return the offer of a worker that is a process of its own: `what` with concrete ids, or all cores and memory it
    may use.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    memory = own_memory()
    return offer_for(Cores(own_cores()) & Memory(memory) if what is None and memory else what)


_SHOWN = 20
"""How many ids a warning lists."""


def logical_in(offer: Allocation) -> tuple[int, ...]:
    """The core ids of an offer that this machine does not have: given out and shown, never pinned."""
    return logical_cores(offer, own_cores())


def warn_of_logical(offer: Allocation) -> None:
    """Log a warning if there are such cores in the offer of this process."""
    logical = logical_in(offer)
    if logical:
        some = (
            list(logical[:_SHOWN])
            if len(logical) <= _SHOWN
            else f"{[*logical[:_SHOWN]]} and {len(logical) - _SHOWN} more"
        )
        logger.warning("cores %s are not of this machine: given out and shown, never pinned", some)


def topology(root: Path = Path("/")) -> Topology:
    """The NUMA nodes of this machine with their cores and devices; without any where the system does not say.

    Raises:
        ResourceSpecError: a file holds what a kernel would not write.
    """
    paths = [path for pattern in Topology.sources for path in root.glob(pattern.lstrip("/"))]
    texts = {f"/{path.relative_to(root)}": _read(path) for path in paths}
    return Topology.read({path: text for path, text in texts.items() if text is not None})


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None

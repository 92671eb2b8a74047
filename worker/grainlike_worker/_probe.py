"""What this machine, or the part of it that this process may use, has to give."""

from __future__ import annotations

import math
import os
from pathlib import Path

from grainlike.resources import Allocation, Cores, Request, Topology, logical_cores, offer_of

__all__ = ["logical_in", "offer_for", "own_cores", "topology"]

_CGROUPS = Path("/sys/fs/cgroup")


def own_cores() -> tuple[int, ...]:
    """The core ids that this process may run on: its affinity, cut to the processor time that its cgroup allows.

    Never the machine's processor count: in a container or a batch job that is somebody else's.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    quota = _quota()
    return tuple(cores if quota is None else cores[: max(1, math.ceil(quota))])


def offer_for(what: Request | None) -> Allocation:
    """What a worker in this process gives: `what` with concrete ids, or its own cores.

    Raises:
        ResourceSpecError: `what` is no offer.
    """
    cores = own_cores()
    return offer_of(Cores(cores) if what is None else what, own_cores=cores)


def logical_in(offer: Allocation) -> tuple[int, ...]:
    """The core ids of an offer that this machine does not have: given out and shown, never pinned."""
    return logical_cores(offer, own_cores())


def topology(root: Path = Path("/")) -> Topology:
    """The NUMA nodes of this machine with their cores and devices; without any where the system does not say.

    Raises:
        ResourceSpecError: a file holds what a kernel would not write.
    """
    paths = [path for pattern in Topology.sources for path in root.glob(pattern.lstrip("/"))]
    texts = {f"/{path.relative_to(root)}": _read(path) for path in paths}
    return Topology.read({path: text for path, text in texts.items() if text is not None})


def _quota() -> float | None:
    """How many cores' time the cgroup allows (v2, else v1); None without a limit."""
    text = _read(_CGROUPS / "cpu.max")
    if text is not None:
        allowed, _, period = text.partition(" ")
        return None if allowed == "max" else int(allowed) / int(period)
    allowed = _read(_CGROUPS / "cpu" / "cpu.cfs_quota_us") or "-1"
    period = _read(_CGROUPS / "cpu" / "cpu.cfs_period_us") or "100000"
    return None if int(allowed) <= 0 else int(allowed) / int(period)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None

"""Locks on the cores that a worker offers, by which programs of one machine see which of them are in use."""

from __future__ import annotations

import logging

from grainlike.resources import Allocation
from grainlike.subprocesses import CoreLocks, open_core_locks
from grainlike_worker.daemon._probe import logical_in

__all__ = ["core_locks"]

logger = logging.getLogger("grainlike.worker")


def core_locks(name: str, offer: Allocation) -> CoreLocks:
    """Open the locks on the cores of an offer that this machine has; say once who offers the same."""
    logical = set(logical_in(offer))
    locks = open_core_locks(core for core in offer.cores if core not in logical)
    for pid, cores in locks.overlaps().items():
        words = "worker %s and process %d both offer cores %s: each takes those that the other does not use, if it can"
        logger.info(words, name, pid, ",".join(map(str, cores)))
    return locks

"""Locks on the cores that a worker offers, by which programs of one machine see which of them are in use."""

from __future__ import annotations

import logging

from grainlike.resources import Allocation
from grainlike.subprocesses import CoreLocks, open_core_locks
from grainlike_worker.daemon._probe import logical_in

__all__ = ["CoreWatch", "core_locks"]

logger = logging.getLogger("grainlike.worker")

LOOK_S = 0.01
"""How old what is known of other programs' cores may be: to ask costs a system call or two."""


def core_locks(name: str, offer: Allocation) -> CoreLocks:
    """Open the locks on the cores of an offer that this machine has; say once who offers the same."""
    logical = set(logical_in(offer))
    locks = open_core_locks(core for core in offer.cores if core not in logical)
    for pid, cores in locks.overlaps().items():
        words = "worker %s and process %d both offer cores %s: each takes those that the other does not use, if it can"
        logger.info(words, name, pid, ",".join(map(str, cores)))
    return locks


class CoreWatch:
    """Tells by `locks` which cores are in use here, and which other programs use."""

    __slots__ = ("_held", "_locks", "_looked", "_taken")

    def __init__(self, locks: CoreLocks) -> None:
        self._locks = locks
        self._looked = -LOOK_S
        self._held = self._taken = 0

    def changed(self, now: float) -> int | None:
        """Return the cores that other programs use, if that has changed since the last look; else None."""
        if now - self._looked < LOOK_S:
            return None
        self._looked = now
        before, self._taken = self._taken, self._locks.others()
        return None if self._taken == before else self._taken

    def hold(self, cores: int) -> None:
        """Tell other programs which cores are in use here."""
        if cores != self._held:
            self._held = cores
            self._locks.hold(cores)

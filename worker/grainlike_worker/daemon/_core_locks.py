"""Locks on the cores that a worker offers, by which programs of one machine see which of them are in use."""

from __future__ import annotations

import logging
import time

from grainlike.eventloop import Alarm
from grainlike.resources import Allocation
from grainlike.subprocesses import CoreLocks, open_core_locks
from grainlike_worker.daemon._probe import logical_in

__all__ = ["UsedCores", "core_locks"]

logger = logging.getLogger("grainlike.worker")

LINGER_S = 0.02
"""Seconds for which a core stays locked at the most that no lease uses any more: mostly the next one does, and each
change costs system calls.
"""


def core_locks(name: str, offer: Allocation) -> CoreLocks:
    """Open the locks on the cores of an offer that this machine has; say once who offers the same."""
    logical = set(logical_in(offer))
    locks = open_core_locks(core for core in offer.cores if core not in logical)
    for pid, cores in locks.overlaps().items():
        words = (
            "worker %s and process %d both offer cores %s: jobs take those that the other does not use; only when none "
            "is left they share one, and are slower. To prevent that offer each its own, as cores=[0,1] and cores=[2,3]"
        )
        # No warning: two programs with all cores each are usual, and tests in several processes have many such.
        logger.info(words, name, pid, ",".join(map(str, cores)))
    return locks


class UsedCores:
    """Locks the cores that leases use: at once when they begin to, and if it `lingers`, until a moment after they have
    ended. Not in a program whose event loop may be blocked by then: they would stay locked for as long.

    Example::

        cores = UsedCores(locks, lingers=True)
        tasks.start_soon(cores.run)
        cores.use(0b11)
        cores.use(0b01)    # core 1 stays locked, for `LINGER_S` at the most
    """

    def __init__(self, locks: CoreLocks, *, lingers: bool) -> None:
        self._locks = locks
        self._lingers = lingers
        self._held = 0
        self._lets_go = False
        """True if the alarm is set."""
        self._alarm = Alarm(self._let_go)
        self.run = self._alarm.run
        self.used = 0
        """The cores that leases use, as a mask; read-only for callers."""

    def use(self, cores: int) -> None:
        """Note that leases use just these cores, a mask, from now on."""
        self.used = cores
        held = cores | self._held if self._lingers else cores
        if held != self._held:
            self._held = held
            self._locks.hold(held)
        if held != cores and not self._lets_go:
            self._lets_go = True
            self._alarm.set(time.monotonic() + LINGER_S)

    def others(self) -> int:
        """Return the mask of the cores that others use now."""
        return self._locks.others()

    def _let_go(self) -> None:
        self._lets_go = False
        if self.used != self._held:
            self._held = self.used
            self._locks.hold(self.used)

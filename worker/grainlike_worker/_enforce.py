"""Holding a process to its allocation, and reading back what holds.

Enforced are the cores of all its threads, the width of native thread pools, and the devices that CUDA shows. Children
inherit all three. Only Linux can pin; elsewhere the environment is all there is, and the receipt says so.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from grainlike.resources import Allocation
from grainlike.wire import ReceiptSpec
from grainlike_worker._pools import NativePools

__all__ = ["Enforcer", "read_receipt"]

WIDTHS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
)
"""What native libraries read when they are loaded, and children when they start."""

DEVICES = "CUDA_VISIBLE_DEVICES"


class Enforcer:
    """Holds the calling process to one allocation after another. Made before any job could move the process.

    Ids outside the cores that the process was born with are logical: they were allocated, but there is nothing to pin
    to. An allocation without a single real core leaves the process on all that it was born with.
    """

    __slots__ = ("_mask", "_own", "_pools")

    def __init__(self) -> None:
        self._own = _affinity()
        self._mask = self._own
        self._pools = NativePools()

    def enforce(self, allocation: Allocation) -> None:
        """Take effect now; what the last allocation or a job left behind is gone."""
        self._pin(self._own.intersection(allocation.cores) or self._own)
        width = max(1, len(allocation.cores))
        for name in WIDTHS:
            _export(name, str(width))
        # Without devices the variable is empty, not absent: absent would show CUDA every device of the node.
        _export(DEVICES, ",".join(map(str, allocation.gpus)))
        self._pools.limit(width)

    def receipt(self) -> ReceiptSpec:
        """Ask the system and the libraries, not our own memory, what this process is held to."""
        return read_receipt(self._pools.widths())

    def _pin(self, mask: frozenset[int]) -> None:
        # A job may have moved its process by itself, so the kernel is asked; but only for this thread. The threads of
        # a native pool, or ones that a job left behind, move whenever the allocation changes.
        if mask != self._mask or _affinity() != mask:
            _pin_all_threads(mask)
            self._mask = mask


def read_receipt(threads: dict[str, int]) -> ReceiptSpec:
    """What the system says of this process now, and `threads`, the widths of its native pools."""
    return ReceiptSpec(os.getpid(), sorted(_affinity()), threads, _devices(), "none")


def _export(name: str, value: str) -> None:
    if os.environ.get(name) != value:
        os.environ[name] = value


def _devices() -> list[int]:
    return sorted(int(item) for item in os.environ.get(DEVICES, "").split(",") if item.strip().isdecimal())


def _unpinned() -> frozenset[int]:
    return frozenset()


def _kernel_affinity() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))


_affinity: Callable[[], frozenset[int]] = _kernel_affinity if hasattr(os, "sched_getaffinity") else _unpinned


def _pin_all_threads(mask: frozenset[int]) -> None:
    """Pin every thread of this process: `sched_setaffinity` moves one thread, and a warm process has more."""
    if not mask:
        return
    seen: set[int] = set()
    # A thread that is not pinned yet may start another while we look: look until there is no new one.
    while threads := {int(name) for name in os.listdir("/proc/self/task")} - seen:  # noqa: PTH208 - hot
        for thread in threads:
            # The thread has ended meanwhile; or the node took these cores away, which the receipt will show.
            with suppress(OSError):
                os.sched_setaffinity(thread, mask)
        seen |= threads

"""Holding a process to its allocation, and reading back what holds.

Enforced are the cores of all its threads, the width of native thread pools, and the devices that CUDA shows. Children
inherit all three. Only Linux can pin; elsewhere the environment is all there is, and the receipt says so.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from grainlike.resources import Allocation, keep_in_job, keep_unbound, program_environment
from grainlike.subprocesses import cores_count_in_order
from grainlike.wire import ReceiptSpec
from grainlike_worker.runner.common._devices import ORDER, VISIBLE, Devices, device_library_loaded
from grainlike_worker.runner.common._thread_pools import NativePools

__all__ = ["Enforcer", "read_receipt"]

_VISIBLE = VISIBLE.encode()
_MEMORY = b"GRAINLIKE_MEMORY"
_environment: dict[bytes, bytes] = vars(os.environ)["_data"]


class Enforcer:
    """Holds the calling process to one allocation after another. Made before any job could move the process.

    Ids outside the cores that the process was started with are logical: they were allocated, but there is nothing to
    pin to. An allocation without a single real core leaves the process on all that it was started with.
    """

    __slots__ = (
        "_allocation",
        "_data",
        "_devices",
        "_exports",
        "_mask",
        "_own",
        "_pid",
        "_pools",
        "_seen",
        "_shown",
        "_wanted",
        "_width",
    )

    def __init__(self, devices: Devices | None = None) -> None:
        self._devices = devices if devices is not None else Devices()
        self._shown: str | None = None
        self._allocation: Allocation | None = None
        self._exports: list[tuple[bytes, bytes | None]] = []
        self._width = 1
        self._seen: tuple[bytes, list[int]] = (b"", [])
        self._data = _environment
        # A mask that the worker was given is in the order that it was given with.
        os.environ.setdefault(ORDER, "PCI_BUS_ID")
        keep_unbound(os.environ)
        keep_in_job(os.environ)
        self._pid = os.getpid()
        self._own = _affinity()
        self._mask = self._wanted = self._own
        self._pools = NativePools()

    def enforce(self, allocation: Allocation) -> None:
        """Take effect now; what the last allocation or a job left behind is gone."""
        if allocation is not self._allocation:  # the same object comes again and again
            self._prepare(allocation)
        self.hold()
        for name, value in self._exports:
            # The bytes behind the mapping, which would decode and encode each of them, for every lease.
            if self._data.get(name) != value:
                _export(name, value)

    def hold(self) -> None:
        """Hold the process to the last allocation again, if a job has moved it; its environment is left as it is."""
        if self._allocation is not None:
            self._pin(self._wanted)
            self._pools.limit(self._width)

    def show_memory(self, memory: int) -> None:
        """Put the bytes that one job may take into the environment, for the programs that it starts."""
        _export(_MEMORY, b"%d" % memory)

    def _prepare(self, allocation: Allocation) -> None:
        """Work out what it takes to hold the process to this allocation."""
        self._shown = self._devices.shown(allocation.gpus)
        real = self._own.intersection(allocation.cores)
        self._wanted = real or self._own
        self._width = max(1, len(allocation.cores))
        exports = program_environment(allocation, real, counted_in_order=cores_count_in_order())
        exports[VISIBLE] = self._shown
        self._exports = [(name.encode(), None if value is None else value.encode()) for name, value in exports.items()]
        self._allocation = allocation

    def is_unfit_for(self, allocation: Allocation) -> bool:
        """Return True if a library of this process, which looks once, has seen other devices than this allocation's."""
        if allocation is self._allocation:
            return False
        return self._devices.shown(allocation.gpus) != self._shown and device_library_loaded()

    def receipt(self, memory_tier: str = "none") -> ReceiptSpec:
        """Ask the system and the libraries, not our own memory, what this process is held to."""
        mask = self._data.get(_VISIBLE, b"")
        if mask != self._seen[0]:
            self._seen = (mask, self._devices.ids(os.fsdecode(mask)))
        return ReceiptSpec(self._pid, sorted(_affinity()), self._pools.widths(), self._seen[1], memory_tier)

    def _pin(self, mask: frozenset[int]) -> None:
        # A job may have moved its process by itself, so the kernel is asked; but only for this thread. The threads of
        # a native pool, or ones that a job left behind, move whenever the allocation changes.
        if mask != self._mask or _affinity() != mask:
            _pin_all_threads(mask)
            self._mask = mask


def _export(name: bytes, value: bytes | None) -> None:
    if value is None:
        del os.environb[name]
    else:
        os.environb[name] = value


def read_receipt() -> ReceiptSpec:
    """Return what the system says of this process now, which is not held to an allocation."""
    return ReceiptSpec(os.getpid(), sorted(_affinity()), {}, [], "none")


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

"""Memory of processes, and how a runner is held to what its job asked for."""

import os
import signal
import time
from contextlib import suppress

from grainlike.payload import is_shared_file
from grainlike_worker.ipc._claims import ClaimPage
from grainlike_worker.linux._cgroup_memory import KernelLimit

__all__ = ["LEAST", "MemoryLimit", "resident", "share", "stored"]

LEAST = 16 * 2**20
"""Bytes below which memory is counted, and never enforced: an interpreter itself comes and goes by as much."""

_PAGE = os.sysconf("SC_PAGE_SIZE")

_WAKE_S = 0.2
"""How long the keeper may take to say that it looks."""


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds now; 0 when it is gone, or where there is no `/proc`."""
    with suppress(OSError, IndexError), open(f"/proc/{pid}/statm", "rb") as told:  # noqa: PTH123 - hot
        return int(told.read().split()[1]) * _PAGE
    return 0


def share(pid: int) -> int:
    """Return the bytes that a process holds, with a fair part of those that it shares: forks share much. Slower."""
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup", "rb") as told:  # noqa: PTH123 - as above
        _, found, rest = told.read().partition(b"\nPss:")
        if found:
            return int(rest.split(maxsplit=1)[0]) * 1024
    return resident(pid)


def stored(pid: int, *, fair: bool = False) -> int:
    """Bytes of these, or with `fair` of the fair part, that belong to values in shared memory and were not changed.

    They are the store's, which counts them once, as the kernel's limit does; a process that reads here and there holds
    whole huge pages of them. Much slower than the others.
    """
    total = 0
    with suppress(OSError), open(f"/proc/{pid}/smaps", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123 - as above
        counted = "Pss:" if fair else "Rss:"
        of_value, held = False, 0
        for line in lines:
            name, _, rest = line.partition(" ")
            if not name.endswith(":"):  # another mapping: addresses, and what else tells of it
                of_value = is_shared_file(rest.split(maxsplit=4)[-1].strip())
            elif of_value and name == counted:
                held = int(rest.split()[0]) * 1024
            elif of_value and name == "Anonymous:":
                total += max(0, held - int(rest.split()[0]) * 1024)
    return total


class MemoryLimit:
    """Has this runner, and all that it starts, killed when a lease takes more memory than it was given.

    What the process holds when the lease begins is not the lease's: the interpreter, and what earlier jobs imported.
    The kernel keeps the limit where the runner has a cgroup for that. Else the keeper looks: it sees the limit in the
    page of claims. Without either there is no limit.
    """

    __slots__ = ("_claims", "_keeper", "_kernel", "stands")

    def __init__(self, claims: ClaimPage | None, keeper: int | None, kernel: KernelLimit | None = None) -> None:
        self._claims = claims if keeper is not None else None
        self._keeper = keeper
        self._kernel = kernel
        self.stands = False
        """True while a lease is held to a limit, which is to be lifted."""

    def set(self, memory: int | None) -> None:
        """A lease begins that was given `memory` bytes, or did not ask for any."""
        claims = self._claims
        if claims is None or self._keeper is None or not memory or memory < LEAST:
            return
        base = resident(os.getpid())
        held = None if self._kernel is None else self._kernel.set(base, memory)
        claims.kernel = int(held is not None)
        claims.base = base if held is None else held
        claims.leases += 1
        claims.limit = claims.base + memory
        self.stands = True
        if held is None:
            _be_watched(claims, self._keeper)

    def lift(self) -> None:
        """The lease has ended."""
        claims = self._claims
        if claims is not None and self.stands:
            claims.limit = 0
            self.stands = False
            if self._kernel is not None and claims.kernel:
                self._kernel.lift()

    @property
    def tier(self) -> str:
        """Return what holds the running lease to its memory."""
        claims = self._claims
        if claims is None or not self.stands:
            return "none"
        if claims.kernel:
            return "cgroup" if self._kernel is not None and self._kernel.holds(claims.limit) else "none"
        return "watchdog" if claims.watched else "none"


def _be_watched(claims: ClaimPage, keeper: int) -> None:
    """Have the keeper look, if it does not already, and wait until it does."""
    if claims.watched:
        return
    with suppress(ProcessLookupError):
        os.kill(keeper, signal.SIGUSR1)
    deadline = time.monotonic() + _WAKE_S
    while not claims.watched and time.monotonic() < deadline:
        time.sleep(0.00005)

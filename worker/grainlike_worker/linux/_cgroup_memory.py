"""Memory limits kept by the kernel, in the cgroup of a runner: set by the runner, read by its keeper after its end."""

import os
from contextlib import suppress

from grainlike.system import Cgroup

__all__ = ["KernelLimit", "was_out_of_memory"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


class KernelLimit:
    """That of this process's own cgroup."""

    __slots__ = ("_group",)

    def __init__(self, path: str) -> None:
        self._group = Cgroup(path)

    def set(self, base: int, memory: int) -> int | None:
        """Let it take `memory` bytes beyond what is held now; what that is, at least `base`. None where it cannot be.

        `base` is what the process itself holds. Pages that it shares with its keeper are the keeper's, until either
        writes to them: that must not count as the job's.
        """
        try:
            base = max(base, self._held())
            self._group.write("memory.max", str(base + -(-memory // _PAGE) * _PAGE))
        except (OSError, ValueError):
            return None
        return base

    def lift(self) -> None:
        """Let it take what it likes."""
        with suppress(OSError):
            self._group.write("memory.max", "max")

    def holds(self, limit: int) -> bool:
        """Return True if the kernel keeps this limit, as it says itself; rounded up to a page."""
        with suppress(OSError, ValueError):
            return 0 <= int(self._group.read("memory.max")) - limit < _PAGE
        return False

    def _held(self) -> int:
        """Return the bytes charged to the cgroup that would not be given back: files in the page cache would."""
        told = self._group.numbers("memory.stat")
        clean = told["active_file"] + told["inactive_file"] - told["file_dirty"] - told["file_writeback"]
        return int(self._group.read("memory.current")) - max(0, clean)


def was_out_of_memory(group: Cgroup) -> bool:
    """Return True if the kernel has ended what was in this cgroup at the cgroup's own limit; asked before it is
    removed.

    A whole machine, or a whole container, that is out of memory is something else.
    """
    with suppress(OSError):
        told = group.numbers("memory.events")
        return bool(told.get("oom") and told.get("oom_kill"))
    return False

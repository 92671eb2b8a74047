"""Message size limit of a head: half of the memory that it may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["room_for_one"]

_SHARE = 2
_UNKNOWN = 2**62


def room_for_one(root: Path = Path("/")) -> int:
    """Return the limit in bytes of buffers: half of the machine's memory, or of the limit of this process's cgroup.

    A larger message could be received, but hardly be sent on: it is taken off the wire, and its job fails.
    """
    return min([_machine(), *_allowed(root)]) // _SHARE


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return _UNKNOWN


def _allowed(root: Path) -> Iterator[int]:
    """Iterate over the memory limits of this process's cgroups, of the unified tree."""
    own = ""
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text(encoding="ascii", errors="replace").splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), "")
    path = root / "sys/fs/cgroup" / own.lstrip("/")
    for group in (path, *path.parents):
        if group == root / "sys/fs":
            return
        with suppress(OSError, ValueError):  # "max" is no number, and no limit
            yield int((group / "memory.max").read_text(encoding="ascii"))

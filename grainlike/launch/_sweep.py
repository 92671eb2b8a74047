"""Removal of the directories of blocks that ended long ago."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["sweep_blocks"]

KEEP_S = 30 * 86400.0
"""Seconds for which the script and the log of a block are kept after something was last written there."""


def sweep_blocks(state: Path, now: float | None = None) -> list[str]:
    """Remove the directories of blocks in which nothing was written for 30 days; return their names.

    Scripts and logs outlive their blocks, for people who look for what went wrong. What cannot be removed is left.

    Args:
        state: the state directory, which has the directory `blocks`.
        now: seconds since 1970; by default the present.

    Example::

        sweep_blocks(state_directory())
    """
    late = (time.time() if now is None else now) - KEEP_S
    gone: list[str] = []
    for folder in sorted((state / "blocks").glob("gl*-*")):
        with suppress(OSError):
            written = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
            if written < late and not folder.is_symlink():
                shutil.rmtree(folder)
                gone.append(folder.name)
    return gone

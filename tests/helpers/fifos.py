"""FIFOs of tests: whoever reads a byte waits until the test gives one."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path

__all__ = ["Fifo"]


class Fifo(AbstractContextManager["Fifo"]):
    """FIFO at `path`, made here; both ends are open here, so that nobody waits for the other to open it.

    Example::

        with Fifo(tmp_path / "go") as go:
            ...    # somebody reads a byte of go.path
            go.write()
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR)

    def write(self) -> None:
        """Let one reader go on, now or when it comes."""
        os.write(self._fd, b"x")

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

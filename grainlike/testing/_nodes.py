"""Nodes of a test's cluster: processes of worker daemons."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Self

import anyio
from anyio.abc import Process

from grainlike.resources import Request

__all__ = ["FIRST_CORE", "NodeProcess", "with_own_cores"]

FIRST_CORE = 32768
"""First id of a core that no machine has: it is given out and shown, and nothing is pinned to it."""


class NodeProcess:
    """A worker daemon in a process of its own; what it logs is in a file."""

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, name: str, offer: str, directory: Path) -> Self:
        """Start a worker of the head whose access files are in a directory."""
        command = [sys.executable, "-m", "grainlike_worker", "--head", str(directory / "worker.json")]
        path = directory / f"{name}.log"
        with path.open("wb") as log:
            process = await anyio.open_process(
                [*command, "--name", name, "--resources", offer],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        return cls(name, process, path)

    def log(self) -> str:
        """Return what it has logged so far."""
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill the daemon; its processes end with it."""
        if self._process.returncode is None:
            self._process.kill()

    async def wait(self) -> None:
        """Wait until it has exited."""
        await self._process.wait()

    async def end(self, *, within: float) -> None:
        """Wait until it has exited, and kill it when that takes longer than `within` seconds."""
        with anyio.move_on_after(within):
            await self._process.wait()
        self.kill()
        await self._process.wait()


def with_own_cores(offer: Request, first: int) -> tuple[str, int]:
    """Return an offer as text in which a number of cores has become ids from `first` on, and the next free id.

    Example::

        >>> with_own_cores(Cores(2) & GPUs(1), 32768)
        ('cores=[32768,32769] gpus=1', 32770)
    """
    text = str(offer)
    asked = re.search(r"\bcores=(\d+)\b", text)
    if asked is None:
        return text, first
    following = first + int(asked[1])
    ids = ",".join(map(str, range(first, following)))
    return f"{text[: asked.start()]}cores=[{ids}]{text[asked.end() :]}", following

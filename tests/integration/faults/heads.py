"""Heads in processes of their own, which tests kill."""

import asyncio
import contextlib
import os
import subprocess
import sys
from pathlib import Path

from limits import LIMIT_S
from ports import free_port

ROOT = Path(__file__).parents[3]
ELSEWHERE = "import grainlike.payload as p\np.memory_id = lambda: {name!r}"
"""Code of a worker that shares no memory with others."""


def head_process(journal: Path, *more: str, listen: bool = True) -> "subprocess.Popen[str]":
    """Start `grainlike head start --journal`; see `listens`.

    The first with a journal listens where nobody else is given a port, so that the next one finds it free: it says 0,
    and listens where the one before it did. Without `listen` it does not say where.
    """
    port = 0 if journal.exists() else free_port()
    command = [sys.executable, "-m", "grainlike", "head", "start"]
    command += ["--listen", f"tcp://127.0.0.1:{port}"] if listen else []
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'worker'}"}
    command += ["--journal", str(journal), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


async def listens(process: "subprocess.Popen[str]") -> str:
    """Return the address of a head once it listens."""
    assert process.stdout is not None
    said = await asyncio.to_thread(process.stdout.readline)
    assert said.startswith("head at "), process.communicate()
    return said.split()[2].rstrip(",")


class Heads:
    """Heads of one journal, one after another, each in a process of its own."""

    def __init__(self, journal):
        self.journal, self._heads, self.address = journal, [], ""

    @property
    def pid(self) -> int:
        return self._heads[-1].pid

    @property
    def size(self) -> int:
        """Bytes of the journal."""
        return sum(path.stat().st_size for path in self.journal.rglob("*") if path.is_file())

    async def begin(self) -> str:
        self._heads.append(head_process(self.journal))
        self.address = await listens(self._heads[-1])
        return self.address

    async def kill_and_begin(self) -> None:
        before = self.address
        self.kill()
        assert await self.begin() == before

    def kill(self) -> None:
        for head in self._heads:
            head.kill()
            head.communicate()


@contextlib.asynccontextmanager
async def head_with_journal(directory):
    heads = Heads(directory / "journal")
    async with asyncio.timeout(LIMIT_S):
        try:
            await heads.begin()
            yield heads
        finally:
            heads.kill()

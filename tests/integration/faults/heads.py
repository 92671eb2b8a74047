"""Heads in processes of their own, which tests kill."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from ports import free_port

ROOT = Path(__file__).parents[3]


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

"""Workers on this machine that take themselves for machines of their own: they share no memory, and speak over TLS."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from grainlike import Executor

__all__ = ["far_workers"]

_FAR = (
    "import grainlike.payload as p; p.memory_id = lambda: {name!r}; from grainlike_worker.__main__ import main; main()"
)


@asynccontextmanager
async def far_workers(offers: Mapping[str, list[str]]) -> AsyncIterator[tuple[Executor, dict[str, Process]]]:
    """Open an executor with these workers; of each, by name, the options that say what it offers."""
    async with Executor(listen="tcp://127.0.0.1:0") as executor:
        workers = {}
        for name, options in offers.items():
            command = [sys.executable, "-c", _FAR.format(name=name), "--head", str(executor.address), "--name", name]
            command += [*options, "--log-level", "error"]
            workers[name] = await asyncio.create_subprocess_exec(*command)
        await executor.wait_for_workers(len(workers))
        yield executor, workers
    for worker in workers.values():
        await worker.wait()

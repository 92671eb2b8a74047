"""Programs that use the device beside their jobs, each in an interpreter of its own. What one prints last is JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from gpu_calls import multiply, product, seen, spin, squares

from grainlike import Cores, Executor, GPUs, SerializationError

COUNT = 1000


async def show() -> Any:
    """Say what a job with a device finds, and one without."""
    async with Executor(local=Cores(4) & GPUs(1)):
        with_one = await (seen @ GPUs(1))()
        return {"with": with_one._asdict(), "without": (await (seen @ Cores(1))())._asdict()}


async def initialised() -> Any:
    """Use the device before and while jobs do."""
    import torch

    before = torch.ones(3, device="cuda")
    async with Executor(local=Cores(4) & GPUs(1)):
        at_job = await (multiply @ GPUs(1))(64)
    at_home = product(64, "cuda").cpu()
    return {"own": float(before.sum()), "same": bool(torch.equal(at_job, at_home))}


async def array(library: str) -> Any:
    """Get an array that a job has made on the device."""
    async with Executor(local=Cores(4) & GPUs(1)):
        got = await (squares @ GPUs(1))(library, COUNT)
    kind = type(got)
    return {"type": f"{kind.__module__}.{kind.__qualname__}", "where": str(got.device), "sum": int(got.sum())}


async def hidden() -> Any:
    """Get one in a program that is shown no device."""
    async with Executor(local=Cores(4) & GPUs(1)):
        await (seen @ GPUs(1))()
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # CUDA looks when it is first used: in this process, not yet
        try:
            got = await (squares @ GPUs(1))("torch", COUNT)
        except SerializationError as error:
            return {"error": str(error)}
        return {"where": str(got.device)}


async def endless(path: str) -> Any:
    """Run a job that does not end."""
    async with Executor(local=Cores(4) & GPUs(1)):
        await (spin @ GPUs(1))(path)


PROGRAMS: dict[str, Callable[..., Awaitable[Any]]] = {
    program.__name__: program for program in (show, initialised, array, hidden, endless)
}

if __name__ == "__main__":
    print(json.dumps(asyncio.run(PROGRAMS[sys.argv[1]](*sys.argv[2:]))))  # type: ignore[arg-type]

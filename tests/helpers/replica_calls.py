"""Calls of the tests of replicas: a process that runs one imports this module, and nothing of the tests."""

from __future__ import annotations

import asyncio
import os
import signal

import numpy as np

from grainlike import delayed

__all__ = ["COUNT", "ends_in_mid_write", "made", "made_later", "made_soon", "total", "total_soon"]


COUNT = 100_000


@delayed
def made():
    return np.arange(COUNT, dtype=np.float64)


@delayed
async def made_soon():
    return np.arange(COUNT, dtype=np.float64)


@delayed
async def made_later():
    await asyncio.sleep(0)
    return np.arange(COUNT, dtype=np.float64)


@delayed
def total(*values):
    return float(sum(value.sum() for value in values))


@delayed
async def total_soon(value):
    return float(value.sum())


def ends_in_mid_write(do: str) -> None:
    """Have this process do something when half of a large value is written."""
    real = os.write

    def writes(fd: int, data: memoryview) -> int:
        if len(data) <= 100_000:
            return real(fd, data)
        real(fd, data[:100_000])
        if do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        raise {"fail": RuntimeError("halfway"), "fill": OSError(28, "No space left on device")}[do]

    os.write = writes

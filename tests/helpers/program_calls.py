"""Calls that run a program: a process that runs one imports what it takes, and nothing of the tests."""

from __future__ import annotations

import sys

from grainlike import GVAR, run_process

__all__ = ["place"]

LOOK = "import os; print(sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS'])"
PROGRAM = [sys.executable, "-S", "-c", LOOK]


async def place() -> tuple[tuple[int, ...], str]:
    return GVAR.res.cores, (await run_process(PROGRAM)).stdout.decode().strip()

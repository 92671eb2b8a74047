"""executorlib: an executor for HPC with a process for each core, over ZeroMQ."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, System, drive_blocking
from grainlike_bench.compare.systems._pool import FuturesSession

__all__ = ["Executorlib"]


class Executorlib(System):
    name = "executorlib"
    package = module = "executorlib"

    def run(self, drive: Drive) -> None:
        """Run with processes that stay for the next job (`block_allocation`), its fastest mode."""
        executorlib: Any = import_module("executorlib")
        with executorlib.SingleNodeExecutor(max_workers=SLOTS, block_allocation=True) as pool:
            drive_blocking(drive, FuturesSession(pool))

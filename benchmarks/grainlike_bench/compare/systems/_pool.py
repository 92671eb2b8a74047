"""`concurrent.futures.ProcessPoolExecutor`: no network, no slots, no pinning; the baseline, as it comes with Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, Session, System, drive_blocking

__all__ = ["FuturesSession", "PoolSystem"]


class FuturesSession(Session):
    """Session of any `concurrent.futures.Executor`."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Submit all, then wait in order."""
        futures = [self._pool.submit(function, item) for item in items]
        return [future.result() for future in futures]


class PoolSystem(System):
    name = "ProcessPoolExecutor"

    def run(self, drive: Drive) -> None:
        """Run with two processes."""
        with ProcessPoolExecutor(SLOTS) as pool:
            drive_blocking(drive, FuturesSession(pool))

"""Dask distributed: a scheduler and one worker process with two threads, over loopback TCP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, Session, System, drive_blocking

__all__ = ["Dask"]


class _DaskSession(Session):
    def __init__(self, client: Any) -> None:
        self._client = client

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Map with `pure=False`, so that equal arguments are separate jobs, as in all other systems."""
        values: list[Any] = self._client.gather(self._client.map(function, list(items), pure=False))
        return values

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Submit futures as arguments: values stay on the worker."""
        future: Any = 0
        for _ in range(length):
            future = self._client.submit(function, future, pure=False)
        return future.result()

    async def tree(self, function: Callable[[Any], Any], pairs: list[Any]) -> Any:
        """Submit the whole tree, without a barrier between levels."""
        level = self._client.map(function, pairs, pure=False)
        while len(level) > 1:
            level = [
                self._client.submit(function, pair, pure=False) for pair in zip(level[::2], level[1::2], strict=True)
            ]
        return level[0].result()


class Dask(System):
    name = "Dask distributed"
    package = module = "distributed"

    def run(self, drive: Drive) -> None:
        """Run with `worker-saturation: inf`, which is the setting for many tiny tasks."""
        dask: Any = import_module("dask")
        distributed: Any = import_module("distributed")
        dask.config.set({"distributed.scheduler.worker-saturation": float("inf"), "distributed.admin.tick.limit": "1h"})
        with (
            distributed.LocalCluster(
                n_workers=1, threads_per_worker=SLOTS, processes=True, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            drive_blocking(drive, _DaskSession(client))

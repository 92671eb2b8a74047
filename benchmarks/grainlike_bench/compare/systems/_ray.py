"""Ray: a local cluster with two CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, Session, System, drive_blocking

__all__ = ["Ray"]


class _RaySession(Session):
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._remote: dict[Callable[..., Any], Any] = {}

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Submit all, then get all."""
        remote = self._of(function)
        values: list[Any] = self._ray.get([remote.remote(item) for item in items])
        return values

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Pass references as arguments: values stay in the object store."""
        remote, reference = self._of(function), 0
        for _ in range(length):
            reference = remote.remote(reference)
        return self._ray.get(reference)

    def _of(self, function: Callable[..., Any]) -> Any:
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function]


class Ray(System):
    name = "Ray"
    package = module = "ray"

    def run(self, drive: Drive) -> None:
        """Run without its dashboard, and quiet."""
        ray: Any = import_module("ray")
        ray.init(num_cpus=SLOTS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        try:
            drive_blocking(drive, _RaySession(ray))
        finally:
            ray.shutdown()

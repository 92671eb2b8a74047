"""Parsl: its high-throughput executor with two workers on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from grainlike_bench.compare._system import SLOTS, Drive, Session, System, drive_blocking

__all__ = ["Parsl"]


class _ParslSession(Session):
    def __init__(self, parsl: Any) -> None:
        self._parsl = parsl
        self._apps: dict[Callable[..., Any], Any] = {}

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Submit all, then wait in order."""
        app = self._of(function)
        futures = [app(item) for item in items]
        return [future.result() for future in futures]

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Pass futures as arguments, which makes them dependencies."""
        app, future = self._of(function), self._of(function)(0)
        for _ in range(length - 1):
            future = app(future)
        return future.result()

    def _of(self, function: Callable[..., Any]) -> Any:
        if function not in self._apps:
            self._apps[function] = self._parsl.python_app(function)
        return self._apps[function]


class Parsl(System):
    name = "Parsl (HTEX)"
    package = module = "parsl"

    def run(self, drive: Drive) -> None:
        """Run without retries, monitoring and memoisation."""
        parsl: Any = import_module("parsl")
        executors: Any = import_module("parsl.executors")
        providers: Any = import_module("parsl.providers")
        with tempfile.TemporaryDirectory() as folder:
            executor = executors.HighThroughputExecutor(
                max_workers_per_node=SLOTS,
                address="127.0.0.1",
                provider=providers.LocalProvider(init_blocks=1, max_blocks=1),
                encrypted=False,
            )
            config = parsl.Config(executors=[executor], run_dir=folder, strategy="none")
            with parsl.load(config):
                drive_blocking(drive, _ParslSession(parsl))

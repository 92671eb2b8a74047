"""The older Grain (0.17): its own worker in the calling process, on trio."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from grainlike.bench._system import SLOTS, Drive, Session, System

__all__ = ["Grain"]


class _GrainSession(Session):
    def __init__(self, grain: Any, cores: Any) -> None:
        self._grain = grain
        self._cores = cores
        self._made: dict[Callable[..., Any], Any] = {}

    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """`each`, its way to wait for many."""
        later = self._of(function)
        values: list[Any] = await self._grain.each([later(item) for item in items])
        return values

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Step by step: it does not resolve placeholders in arguments."""
        value: Any = 0
        for _ in range(length):
            value = await self._of(function)(value)
        return value

    def _of(self, function: Callable[..., Any]) -> Any:
        if function not in self._made:
            self._made[function] = self._grain.delayed(partial(_called, function)) @ self._cores
        return self._made[function]


async def _called(function: Callable[..., Any], item: Any) -> Any:
    return function(item)


class Grain(System):
    name = "Grain 0.17, local worker"
    package = "grain-scheduler"
    module = "grain"

    def run(self, drive: Drive) -> None:
        """With a node of two cores."""
        grain: Any = import_module("grain.delayed")
        resource: Any = import_module("grain.resource")
        session = _GrainSession(grain, resource.Cores(1))
        grain.run(partial(drive, session), local=resource.Node(N=SLOTS, M=8), config_file=False)

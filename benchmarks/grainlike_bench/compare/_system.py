"""Interface of a system that is measured."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, ClassVar

__all__ = ["SLOTS", "Drive", "Session", "System", "drive_blocking"]

SLOTS = 2
"""Number of workers, or slots of one worker, that every system is given."""


class Session(ABC):
    """A running system. Only `at_once` must be implemented; the rest defaults to what a user would write with it.

    Functions are plain module-level functions of `grainlike_bench.compare.jobs`. Systems without `await` just block.
    """

    largest: float = inf
    """Bytes that a value may have; workloads with larger ones are left out."""

    daemon: int | None = None
    """The process of the worker's daemon, where it is one of its own: its CPU time is told apart."""

    @abstractmethod
    async def at_once(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Submit one job for each item before waiting for any, and return the values in order."""

    async def alone(self, function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
        """Do the same for jobs of which each is placed by itself; by default all jobs are."""
        return await self.at_once(function, items)

    async def one(self, function: Callable[..., Any], item: Any) -> Any:
        """Submit one job and wait for its value."""
        return (await self.at_once(function, [item]))[0]

    async def chain(self, function: Callable[[Any], Any], length: int) -> Any:
        """Feed 0 through `length` jobs, each of which needs the value of the one before."""
        value: Any = 0
        for _ in range(length):
            value = await self.one(function, value)
        return value

    async def tree(self, function: Callable[[Any], Any], pairs: list[Any]) -> Any:
        """Reduce pairs by `function` until one value is left; by default level by level."""
        values = await self.at_once(function, pairs)
        while len(values) > 1:
            values = await self.at_once(function, list(zip(values[::2], values[1::2], strict=True)))
        return values[0]


Drive = Callable[[Session], Coroutine[Any, Any, None]]
"""The measurement, which runs inside an open session."""


def drive_blocking(drive: Drive, session: Session) -> None:
    """Run the measurement for a system that blocks: its session never really awaits."""
    asyncio.run(drive(session))


class System(ABC):
    """A system to be measured: starts itself, runs the measurement, and cleans up."""

    name: ClassVar[str]
    """Its name in the table."""
    package: ClassVar[str | None] = None
    """The distribution to install for it; None if nothing needs to be installed."""
    module: ClassVar[str | None] = None
    """The module whose presence shows that it is installed."""

    @abstractmethod
    def run(self, drive: Drive) -> None:
        """Start with `SLOTS` slots, run `drive` with a session, stop. Called once, in a process of its own."""

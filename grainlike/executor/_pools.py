"""Pools of workers, as users hold them: `Executor(launch=)` and `ex.up`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from grainlike.eventloop import Changes
from grainlike.jobs import Fleet, until_gone
from grainlike.launch import WorkerPool, load
from grainlike.wire import (
    BlockRow,
    PoolRow,
)

if TYPE_CHECKING:
    from grainlike.head.server import HeadService

__all__ = ["Launch", "LaunchedPool", "LocalFleet", "named_pools"]

Launch = WorkerPool | str | Sequence[WorkerPool | str]


class LocalFleet:
    """Pools of the head in this process."""

    def __init__(self, service: HeadService, changes: Changes) -> None:
        self._service = service
        self._changes = changes

    async def up(self, name: str, pool: WorkerPool) -> None:
        """Set a pool. Raises as `Executor.up`."""
        await self._service.fleet().up(name, pool)

    async def scale(self, name: str, least: int, most: int) -> None:
        """Change how many workers a pool has. Raises as `LaunchedPool.scale`."""
        self._service.fleet().scale(name, least, most)

    async def down(self, name: str, *, now: bool) -> None:
        """Take a pool down. Raises as `LaunchedPool.down`."""
        if any(row.pool == name for row in self.pools()):
            self._service.fleet().down([name], at_once=now)
        await until_gone(name, self._changes, self.blocks)

    def pools(self) -> list[PoolRow]:
        """Return the pools."""
        driver = self._service.launched
        return [] if driver is None else driver.view.pool_rows()

    def blocks(self) -> list[BlockRow]:
        """Return the blocks that live."""
        driver = self._service.launched
        return [] if driver is None else driver.view.block_rows()


class LaunchedPool:
    """Pool that is up: what `Executor.up` and `Executor.pool` return.

    Attributes:
        name: its name.
    """

    def __init__(self, name: str, fleet: Fleet) -> None:
        self.name = name
        self._fleet = fleet

    def __repr__(self) -> str:
        return f"<LaunchedPool {self.name}>"

    async def scale(self, least: int, most: int | None = None) -> None:
        """Change how many workers it has: `least` at least, and `most` at most; one number is for both.

        Raises:
            ValueError: the numbers do not go together, or are not in whole blocks.
            LookupError: the pool is down.

        Cancelled, it still has that number; no call waits until the head has it.

        Example::

            await pool.scale(0, 16)
        """
        await self._fleet.scale(self.name, least, least if most is None else most)

    async def down(self, *, now: bool = False) -> None:
        """Take it down: workers end when their jobs have, and pending blocks leave the batch queue.

        One that is down already is left so. Cancelled, it still goes down; no call waits for it.

        Args:
            now: do not wait for jobs; they run elsewhere.

        Raises:
            LaunchError: after 60 s the batch system still has blocks of it; it says which.

        Example::

            await executor.pool("slurm").down()
        """
        await self._fleet.down(self.name, now=now)


def named_pools(launch: Launch | None) -> dict[str, WorkerPool]:
    """Return pools by name: a text is a pool of the settings, and others are called after their kind.

    Raises:
        ValueError: there is no such pool in the settings, or two have one name.
        TypeError: it is no pool.

    Example::

        >>> from grainlike.launch import Local
        >>> list(named_pools([Local("cores=1"), Local("cores=2")]))
        ['local', 'local2']
    """
    given = list(launch) if isinstance(launch, (list, tuple)) else [] if launch is None else [launch]
    found: dict[str, WorkerPool] = {}
    for one in given:
        if isinstance(one, str):
            name, pool = one, load(one)
            if name in found:
                raise ValueError(f"launch= has the pool {name!r} twice")
        elif isinstance(one, WorkerPool):
            name, pool = _free_name(one.kind, found), one
        else:
            raise TypeError(f"launch= is a pool, as Slurm('cores=4', walltime='1:00:00'), or its name, not {one!r}")
        found[name] = pool
    return found


def _free_name(kind: str, taken: dict[str, WorkerPool]) -> str:
    number = 1
    while (name := kind if number == 1 else f"{kind}{number}") in taken:
        number += 1
    return name

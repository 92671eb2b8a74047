"""The worker's context module: an async context manager around the life of a process that runs jobs.

It is entered before the first job, in a task of its own, and left when the process ends in good order.

Environment variables of a job on several nodes, for the programs that it starts.
"""

from __future__ import annotations

import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from importlib import import_module
from typing import TYPE_CHECKING, Any

from grainlike.context import enter_job
from grainlike.resources import NO_ALLOCATION

if TYPE_CHECKING:
    import asyncio
import os
from pathlib import Path

from grainlike.resources import BINDINGS, parse_allocation, spread_over_nodes
from grainlike.wire import Gang

__all__ = ["HOSTFILE", "NODES", "RANKFILE", "WorkerContext", "import_factory", "show_nodes"]


class WorkerContext:
    """Context that `module:factory` makes, for one process with one event loop; `value` is what it gave, once
    `entered`.
    """

    __slots__ = ("_holder", "_instance", "_leave", "_ready", "_spec", "entered", "value")

    def __init__(self, spec: str, instance: str) -> None:
        self.entered = False
        self.value: Any = None
        self._spec = spec
        self._instance = instance
        self._ready: asyncio.Future[BaseException | None] | None = None
        self._holder: asyncio.Task[None] | None = None
        self._leave: asyncio.Event | None = None

    async def enter(self) -> BaseException | None:
        """Enter it, unless it is; return what was raised. The next who comes after a failure tries again."""
        import asyncio

        if self.entered:
            return None
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._leave = asyncio.Event()
            context = copy_context()
            context.run(enter_job, NO_ALLOCATION, self._instance, None)
            hold = self._hold(self._ready, self._leave)
            self._holder = asyncio.create_task(hold, name=f"context {self._spec}", context=context)
        return await asyncio.shield(self._ready)

    async def leave(self) -> None:
        """Leave it, and wait until that is done. What it raises is written to standard error."""
        if self._holder is not None and self._leave is not None:
            self._leave.set()
            await self._holder

    async def _hold(self, ready: asyncio.Future[BaseException | None], leave: asyncio.Event) -> None:
        """Be in it: one task enters and leaves, as cancel scopes and task groups inside demand."""
        try:
            async with _manager(self._spec) as value:
                self.value, self.entered = value, True
                ready.set_result(None)
                await leave.wait()
        except BaseException as error:  # noqa: BLE001 - it is users' code, which may raise anything
            if ready.done():
                traceback.print_exc()
            else:
                self._ready = None
                error.add_note(f"grainlike: the worker's context {self._spec} could not be entered")
                ready.set_result(error)


@asynccontextmanager
async def _manager(spec: str) -> AsyncIterator[Any]:
    made = import_factory(spec)()
    if hasattr(type(made), "__aenter__"):
        async with made as value:
            yield value
    elif hasattr(type(made), "__enter__"):
        with made as value:
            yield value
    else:
        raise TypeError(
            f"{spec} gave {type(made).__name__}, which is no context manager: decorate it, for example, "
            "with contextlib.asynccontextmanager"
        )


def import_factory(spec: str) -> Any:
    """Return what `module:name` names. Raises whatever importing raises, and `ValueError` for other text."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise ValueError(f"a context is written MODULE:FACTORY, not {spec!r}")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{spec} is {type(found).__name__}, which cannot be called")
    return found


HOSTFILE = "GRAINLIKE_HOSTFILE"
NODES = "GRAINLIKE_NODES"
RANKFILE = "GRAINLIKE_RANKFILE"
_PHYSICAL = "OMPI_MCA_rmaps_rank_file_physical"
"""With it Open MPI up to 4 takes the cores of a rankfile for the system's numbers; later ones always do."""

_replaced: dict[str, str | None] = {}
"""Variables that the last gang has changed, with the values to be put back."""


def show_nodes(gang: Gang | None) -> None:
    """Put the nodes of the next job into this process's environment, and take out the last job's.

    To be called after the environment of the slots has been set.
    """
    for name in (HOSTFILE, NODES, RANKFILE, _PHYSICAL):
        os.environ.pop(name, None)
    while _replaced:
        name, value = _replaced.popitem()
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if gang is None:
        return
    os.environ[NODES] = str(len(gang.nodes))
    if gang.hostfile:
        os.environ[HOSTFILE] = gang.hostfile
        os.environ[RANKFILE] = str(Path(gang.hostfile).with_name("rankfile"))
        os.environ[_PHYSICAL] = "1"
    if len({parse_allocation(node.allocation).cores for node in gang.nodes}) > 1:
        _replaced.update((name, os.environ.get(name)) for name in BINDINGS)
        spread_over_nodes(os.environ)

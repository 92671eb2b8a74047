"""The worker's context module: an async context manager around the life of a process that runs jobs.

It is entered before the first job, in a task of its own, and left when the process ends in good order.
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

__all__ = ["WorkerContext", "import_factory"]


class WorkerContext:
    """What `module:factory` makes, for one process with one event loop; `value` is what it gave, once `entered`."""

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
    """What `module:name` names. Raises whatever importing raises, and `ValueError` for what is not so written."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise ValueError(f"a context is written MODULE:FACTORY, not {spec!r}")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{spec} is {type(found).__name__}, which cannot be called")
    return found

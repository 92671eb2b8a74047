"""Coroutines in a process of their own: one event loop for the process's life, one job at a time on it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from grainlike_worker._interrupts import Interrupts

if TYPE_CHECKING:
    import asyncio

__all__ = ["IsolatedLoop"]


class IsolatedLoop:
    """An asyncio loop, made when the first coroutine comes (importing asyncio would double the start of a runner)."""

    __slots__ = ("_interrupts", "_runner")

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self._runner: asyncio.Runner | None = None

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the coroutine function and return its value, or raise what it raises. SIGTERM cancels its task.

        Tasks that it started and left behind are cancelled and have ended when this returns.
        """
        import asyncio

        if self._runner is None:
            self._runner = asyncio.Runner()
        # Exceptions are carried out by hand: on its way through the loop, SystemExit would stop the loop instead.
        value, error = self._runner.run(self._settle(function, args, kwargs), context=copy_context())
        if error is not None:
            raise error
        return value

    async def _settle(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, BaseException | None]:
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        # Through the loop, because the signal may find it asleep.
        self._interrupts.cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            return await function(*args, **kwargs), None
        except BaseException as error:  # noqa: BLE001 - see `run`
            return None, error
        finally:
            self._interrupts.cancel = None
            await _end_others(task)


async def _end_others(task: asyncio.Task[Any]) -> None:
    import asyncio

    others = asyncio.all_tasks() - {task}
    for other in others:
        other.cancel()
    if others:
        await asyncio.wait(others)

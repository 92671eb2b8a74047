"""Coroutines in a process of their own: one event loop for the process's life, one job at a time on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextvars import copy_context
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, TypeVar

from grainlike_worker.runner.process._signals import RunnerSignals

if TYPE_CHECKING:
    import asyncio

    from grainlike.eventloop import Cancellation

__all__ = ["IsolatedLoop"]

T = TypeVar("T")

Drive = Callable[[AsyncGenerator[Any, Any]], Awaitable[None]]
"""Sees a stream's generator to its end."""


class IsolatedLoop:
    """An asyncio loop, made when the first coroutine comes (importing asyncio would double the start of a runner)."""

    __slots__ = ("_interrupts", "_runner")

    def __init__(self, interrupts: RunnerSignals) -> None:
        self._interrupts = interrupts
        self._runner: asyncio.Runner | None = None

    def run(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], stream: Drive, name: str
    ) -> Any:
        """Call the coroutine function and return its value, or raise what it raises.

        SIGTERM cancels its task, again and again until it ends, with the reason; the log calls it `name`.

        A generator that the call gives instead is handed to `stream`. Tasks that it started and left behind are
        cancelled and have ended when this returns.
        """
        # Exceptions are carried out by hand: on its way through the loop, SystemExit would stop the loop instead.
        value, error = self._made().run(self._settle(function, args, kwargs, stream, name), context=copy_context())
        if error is not None:
            raise error
        return value

    def prepare(self) -> None:
        """Make the loop; before a job is called, for that takes as long as the start of a runner."""
        self._made()

    def do(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Call a coroutine function that belongs to no job. Tasks that it starts stay."""
        return self._made().run(function())

    def _made(self) -> asyncio.Runner:
        import asyncio

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner

    async def _settle(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], stream: Drive, name: str
    ) -> tuple[Any, BaseException | None]:
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        others = asyncio.all_tasks()
        loop = task.get_loop()
        # Through the loop, because the signal may find it asleep.
        cancellations: list[Cancellation] = []

        def cancel() -> None:
            from grainlike.eventloop import RepeatedCancellation

            if self._interrupts.cancel is not None:
                cancellations.append(RepeatedCancellation(task, name, reason=self._interrupts.reason.message))

        self._interrupts.cancel = lambda: loop.call_soon_threadsafe(cancel)
        try:
            made = function(*args, **kwargs)
            return await (stream(made) if type(made) is AsyncGeneratorType else made), None
        except BaseException as error:  # noqa: BLE001 - see `run`
            return None, error
        finally:
            self._interrupts.cancel = None
            for cancellation in cancellations:
                cancellation.settled()
            left = asyncio.all_tasks() - others
            if left:
                await _end(left, name)


async def _end(tasks: set[asyncio.Task[Any]], name: str) -> None:
    import asyncio

    from grainlike.eventloop import RepeatedCancellation

    cancellations = [RepeatedCancellation(task, f"a task that {name} left behind") for task in tasks]
    await asyncio.wait(tasks)
    for cancellation in cancellations:
        cancellation.settled()

"""A coroutine driven step by step inside a context of its own, whoever's task does the driving."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType
from typing import Any

__all__ = ["Suspended", "as_coroutine"]


class Suspended:
    """A coroutine that has begun in `context` and waits for the event loop. Await it for what it returns.

    Tasks have a context each, but many jobs share one task: a variable that one job sets must not reach the next, so
    each step runs in the job's own context. What the coroutine yields and is sent is the event loop's business.
    """

    __slots__ = ("_context", "_coroutine", "_yielded")

    def __init__(self, context: Context, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self._context = context
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = self._context.run, self._coroutine
        yielded = self._yielded
        while True:
            step: Callable[[Any], Any] = coroutine.send
            try:
                sent = yield yielded
            except BaseException as error:  # noqa: BLE001 - cancellation, among others: it is the coroutine's to take
                step, sent = coroutine.throw, error
            try:
                yielded = run(step, sent)
            except StopIteration as stop:
                return stop.value
            del sent  # an exception holds this frame, and must not be held by it


def as_coroutine(made: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """What a call of a function gave, as a coroutine: itself, or one that awaits it."""
    return made if type(made) is CoroutineType else _awaiting(made)


async def _awaiting(made: Awaitable[Any]) -> Any:
    return await made

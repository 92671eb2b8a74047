"""A coroutine driven step by step inside a context of its own, whatever task drives it."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import CoroutineType
from typing import Any

from grainlike_worker.ipc._steps import JOB, SINCE, SLOW_S
from grainlike_worker.linux._forks import FORK_DEPTH

__all__ = ["SuspendedCoroutine", "as_coroutine"]

_UNSEEN = memoryview(bytearray(16)).cast("d")
"""What is written by a coroutine inside one that is seen already."""


class SuspendedCoroutine:
    """A coroutine that has begun in `context` and waits for the event loop. Await it for what it returns.

    Tasks have a context each, but many jobs share one task: a variable that one job sets must not reach the next, so
    each step runs in the job's own context. What the coroutine yields and is sent is the event loop's business. While a
    step is on, `words` (see `StepPage`) say so; `slow` is told how many seconds a step took that blocked the loop.
    """

    __slots__ = ("_job", "_slow", "_words", "_yielded", "begun", "context", "coroutine")

    def __init__(
        self,
        context: Context,
        coroutine: Coroutine[Any, Any, Any],
        yielded: Any,
        words: memoryview[float] = _UNSEEN,
        job: int = 0,
        slow: Callable[[float], object] = bool,
    ) -> None:
        self.context = context
        self.coroutine = coroutine
        self._yielded = yielded
        self._words = words
        self._job = job
        self._slow = slow
        self.begun = 0.0
        """When its first step began; set by its user."""

    def __await__(self) -> Generator[Any, Any, Any]:
        run, coroutine = self.context.run, self.coroutine
        words, job = self._words, self._job
        yielded = self._yielded
        here = FORK_DEPTH[0]
        while True:
            step: Callable[[Any], Any] = coroutine.send
            try:
                sent = yield yielded
            except BaseException as error:  # noqa: BLE001 - cancellation, among others: it is the coroutine's to take
                step, sent = coroutine.throw, error
            if FORK_DEPTH[0] != here:
                os._exit(0)
            begun = words[SINCE] = time.monotonic()
            words[JOB] = job
            try:
                yielded = run(step, sent)
            except StopIteration as stop:
                return stop.value
            finally:
                if FORK_DEPTH[0] != here:
                    os._exit(0)
                words[JOB] = 0
                took = time.monotonic() - begun
                if took >= SLOW_S:
                    self._slow(took)
            del sent  # an exception holds this frame, and must not be held by it


def as_coroutine(made: Awaitable[Any]) -> Coroutine[Any, Any, Any]:
    """Return the result of a call as a coroutine: itself, or one that awaits it."""
    return made if type(made) is CoroutineType else _awaiting(made)


async def _awaiting(made: Awaitable[Any]) -> Any:
    return await made

"""Lifespan of what is opened in an event loop, runs in a task of its own, and is closed."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

import anyio
import anyio.lowlevel

from grainlike.errors import GrainlikeError
from grainlike.eventloop._loop_id import EventLoopId, spawn_detached

__all__ = ["Changes", "Lifespan"]

logger = logging.getLogger("grainlike")


class Changes:
    """Wake-up of tasks that wait for a condition, whenever it may have become true."""

    def __init__(self) -> None:
        self.awaited: anyio.Event | None = None
        """Event of the tasks that wait; None if there are none, and then `notify` need not be called."""

    def notify(self) -> None:
        """Have all waiting tasks check their conditions again."""
        changed, self.awaited = self.awaited, None
        if changed is not None:
            changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition()` is true. What it raises ends the wait."""
        while not condition():
            if self.awaited is None:
                self.awaited = anyio.Event()
            await self.awaited.wait()


class Lifespan(ABC):
    """Base of what lives in a task of its own, from `_open` to the end of `_close`.

    Subclasses do in `_live` what is to be done meanwhile: they call `_opened.set()`, then await `_stop`. It may be
    closed in another task than it was opened in.
    """

    _task_name = "grainlike"

    def __init__(self) -> None:
        self._state: Literal["new", "open", "closing", "closed"] = "new"
        self._failure: BaseException | None = None

    def _open(self, loop_id: EventLoopId) -> None:
        """Begin to live in the running event loop."""
        self._opened = anyio.Event()
        self._stop = anyio.Event()
        self._closed = anyio.Event()
        self._changes = Changes()
        self._state = "open"
        self._task: object = spawn_detached(loop_id, self._task_name, self._serve)

    async def _wait_until_open(self) -> None:
        """Wait until it has opened; close it where that fails or is cancelled."""
        try:
            await self._opened.wait()
            if self._failure is not None:
                raise self._failure
        except BaseException as error:
            if error is self._failure:
                self._failure = None  # its frames hold this, and files: without a cycle they are closed with it
            await self._close()
            raise

    async def _close(self) -> None:
        """Close it, and wait until that is done. Cancellation does not interrupt the wait."""
        if self._state == "open":
            self._state = "closing"
        self._stop.set()
        self._changes.notify()
        with anyio.CancelScope(shield=True):
            await self._closed.wait()

    async def _serve(self) -> None:
        """Live; raise nothing but the task's cancellation."""
        try:
            # A loop that ends at once ends here: tasks that were made but never ran would be reported as never awaited.
            await anyio.lowlevel.checkpoint()
            await self._live()
        except Exception as error:  # noqa: BLE001 - it is logged, or raised to who opened this
            self._failure = _innermost(error)
            if self._opened.is_set():
                self._tell_of_failure(self._failure)
        finally:
            self._state = "closed"
            self._changes.notify()
            await self._ended()
            self._opened.set()
            self._closed.set()
            self._task = None  # its context has the executor that was in use when this was opened

    def _tell_of_failure(self, failure: BaseException) -> None:
        if isinstance(failure, GrainlikeError) and failure.__cause__ is None:  # raised on purpose: its words are enough
            logger.error("%r has failed: %s", self, failure)
        else:
            logger.error("%r has failed: %r", self, failure, exc_info=failure)

    @abstractmethod
    async def _live(self) -> None:
        """Open, wait for `_stop`, and close."""

    async def _ended(self) -> None:  # noqa: B027 - there may be nothing left
        """Release what is left, however `_live` has ended."""


def _innermost(error: Exception) -> BaseException:
    """Return the first plain error inside a task group's exception group: users never see groups of ours."""
    inner: BaseException = error
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    return inner

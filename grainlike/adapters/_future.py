"""The futures of a pool, the calls that they stand for, and the errors that they raise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextvars import Context
from functools import partial
from pickle import PicklingError
from typing import Any, TypeVar

from grainlike.adapters._calls import InitializerFailedError
from grainlike.errors import GrainlikeError, RemoteError, SerializationError, WorkerLostError
from grainlike.graph import Node

__all__ = [
    "BrokenPoolError",
    "LostProcessError",
    "PoolCall",
    "PoolFuture",
    "UnpicklableError",
    "as_library_error",
    "here",
]

T = TypeVar("T")

logger = logging.getLogger("grainlike")


class _Here(threading.local):
    """The attributes of the running thread; `in_pool` is set in the threads of pools."""

    in_pool = False


here = _Here()


class BrokenPoolError(GrainlikeError, BrokenProcessPool):
    """The pool has ended by itself: its thread was ended, its executor failed, or its initializer raised."""


class LostProcessError(WorkerLostError, BrokenProcessPool):
    """The process of a call died: `WorkerLostError`, as a `BrokenProcessPool` of the standard library."""


class UnpicklableError(SerializationError, PicklingError):
    """Raised for an object that cannot be pickled: `SerializationError`, as a `PicklingError` of the standard
    library.
    """


class PoolFuture(Future[T]):
    """A future whose callbacks cannot end the thread that calls them.

    The standard library logs what a callback raises, unless it is `SystemExit` or `KeyboardInterrupt`: in the thread of
    a pool these would end the event loop and all calls with it, so they are logged there, too.
    """

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Call `fn` with this future when it is done, as `concurrent.futures.Future.add_done_callback`."""
        super().add_done_callback(partial(_call_back, fn))


def _call_back(fn: Callable[[Future[T]], object], future: Future[T]) -> None:
    try:
        fn(future)
    except Exception:
        raise  # the standard library logs it
    except BaseException:
        if not here.in_pool:
            raise
        logger.exception("a callback of %r raised what would end its pool", future)


class PoolCall:
    """A placeholder that was handed in, its future, and the context of the caller where the call is to have it.

    Of the executor's thread alone.
    """

    __slots__ = ("__weakref__", "_told", "context", "future", "node")

    def __init__(self, node: Node, future: PoolFuture[Any], context: Context | None = None) -> None:
        self.node = node
        self.future = future
        self.context = context
        self._told = False

    def begin(self) -> bool:
        """Mark the future as running: it cannot be cancelled any more. False if it was."""
        if self._told:
            return not self.future.cancelled()
        self._told = True
        return self.future.set_running_or_notify_cancel()

    def finish(self) -> None:
        """Give the future the node's outcome."""
        error = self.node.error
        if error is not None:
            self.fail(error)
        elif self.begin():
            self.future.set_result(self.node.value)

    def fail(self, error: BaseException) -> None:
        """Give the future an error, unless it was cancelled."""
        if self.begin():
            self.future.set_exception(as_library_error(error))


def as_library_error(error: BaseException) -> BaseException:
    """Return the error as programs for `concurrent.futures` catch it.

    A lost process is a `BrokenProcessPool`, what cannot travel a `PicklingError`; `SystemExit` and `KeyboardInterrupt`
    come as themselves, as in a process pool. An event loop could not pass these on: jobs bring back a `RemoteError`.
    """
    made: BaseException
    if type(error) is WorkerLostError:
        made = LostProcessError(*error.args)
    elif type(error) is SerializationError:
        made = UnpicklableError(*error.args)
    elif isinstance(error, InitializerFailedError):
        made = BrokenPoolError(f"the initializer of this pool raised {error}")
    elif isinstance(error, RemoteError) and error.type_name == "KeyboardInterrupt":
        made = KeyboardInterrupt(*([error.message] if error.message else []))
    elif isinstance(error, RemoteError) and error.type_name == "SystemExit":
        made = SystemExit(_exit_code(error.message))
    else:
        return error
    made.__cause__ = error.__cause__
    for note in getattr(error, "__notes__", ()):
        made.add_note(note)
    return made


def _exit_code(text: str) -> str | int | None:
    if text in ("", "None"):
        return None
    return int(text) if text.lstrip("-").isdigit() else text

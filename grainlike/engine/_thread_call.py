"""Call of a plain function in a thread of its own, which may block there until a placeholder has its value."""

from __future__ import annotations

import sys
import threading
from contextvars import copy_context
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

from grainlike.eventloop import EventLoopId, place_of_frame

__all__ = ["ThreadCall", "this_call"]


class _OfThread(threading.local):
    call: ThreadCall | None = None


_of_thread = _OfThread()


def this_call() -> ThreadCall | None:
    """Return the call whose thread this is; None in all other threads."""
    return _of_thread.call


class ThreadCall:
    """Calls `function` in a new thread, with this context. All methods but `result` belong to the loop `loop_id`.

    While the thread is blocked, `threads` admits one more: the calls that it waits for may need threads themselves.
    """

    def __init__(
        self,
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        loop_id: EventLoopId,
        threads: anyio.CapacityLimiter,
    ) -> None:
        self.done: anyio.Event = anyio.Event()
        self.loop_id = loop_id
        self._threads = threads
        self._blocked: set[anyio.CancelScope] = set()
        self._abandoned = False
        self._call = (function, args, kwargs)
        self._token = anyio.lowlevel.current_token()
        self._value: Any = None
        self._error: BaseException | None = None
        name = f"grainlike {getattr(function, '__name__', 'call')}"
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        function, args, kwargs = self._call
        _of_thread.call = self
        try:
            self._value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - a thread has no caller to raise it to
            self._error = error
        anyio.from_thread.run_sync(self.done.set, token=self._token)

    # --- while it is blocked -----------------------------------------------------------------------------------------

    def block(self, wait: anyio.CancelScope) -> bool:
        """Record that the thread is blocked until what runs in `wait` has ended; return False if the call was
        abandoned.
        """
        if self._abandoned:
            return False
        self._blocked.add(wait)
        self._threads.total_tokens += 1
        return True

    def unblock(self, wait: anyio.CancelScope) -> None:
        """Record that the thread resumes."""
        self._blocked.remove(wait)
        self._threads.total_tokens -= 1

    def abandon(self) -> None:
        """Abandon the call, whose thread runs to its end: cancel what blocks it, now and later."""
        self._abandoned = True
        for wait in self._blocked:
            wait.cancel()

    # --- the end -----------------------------------------------------------------------------------------------------

    def join(self) -> None:
        """Wait for the end of the thread, which follows at once when it is `done`."""
        self._thread.join()

    @property
    def place(self) -> str:
        """The innermost frame of the thread."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "its end" if frame is None else place_of_frame(frame)

    def result(self) -> Any:
        """Return what the function returned, or raise what it raised, once it is `done`."""
        self._thread.join()
        if isinstance(self._error, StopIteration | GeneratorExit):  # in a coroutine they would mean something else
            raise RuntimeError(f"the function raised {type(self._error).__name__}") from self._error
        if self._error is not None:
            raise self._error
        return self._value

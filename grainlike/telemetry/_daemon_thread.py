"""Calls in daemon threads: for what may never return, as the process does not wait for them when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

__all__ = ["call_in_daemon_thread"]

_Value = TypeVar("_Value")


async def call_in_daemon_thread(function: Callable[[], _Value]) -> _Value:
    """Call `function` in a new thread, and return or raise what it does. Cancelled, leave the thread to itself.

    A thread of `anyio.to_thread` that is abandoned would be waited for when the process ends.
    """
    await anyio.lowlevel.checkpoint()
    call = _Call(function)
    threading.Thread(target=call.run, name="grainlike telemetry", daemon=True).start()
    await call.done.wait()
    return call.result()


class _Call(Generic[_Value]):
    def __init__(self, function: Callable[[], _Value]) -> None:
        self.done = anyio.Event()
        self._function = function
        self._token = anyio.lowlevel.current_token()
        self._values: list[_Value] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._values.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            self._error = error
        with suppress(RuntimeError):  # its event loop has ended without it
            anyio.from_thread.run_sync(self.done.set, token=self._token)

    def result(self) -> _Value:
        if self._error is not None:
            raise self._error
        return self._values[0]

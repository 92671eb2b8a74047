"""Executors of this process: the open ones by event loop, the innermost of each context, and those never opened.

Of the last there are warnings, as Python gives them of coroutines that were never awaited.
"""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import Any
from weakref import WeakSet

from grainlike._tracebacks import is_ours
from grainlike.engine import BaseResolver
from grainlike.eventloop import EventLoopId

__all__ = [
    "Unopened",
    "alone",
    "block_left",
    "closed_in",
    "current",
    "enclosing",
    "entered",
    "implicit_made",
    "implicit_of",
    "left",
    "loops",
    "made_implicit",
    "opened",
    "opened_in",
    "standing_in",
    "warn_of_fallback",
]

current: ContextVar[BaseResolver | None] = ContextVar("grainlike_executor", default=None)
"""The innermost executor of this context."""

_open: dict[EventLoopId, list[BaseResolver]] = {}
_standing: dict[EventLoopId, list[BaseResolver]] = {}
_implicit: dict[EventLoopId, BaseResolver] = {}
_closed_in: WeakSet[Any] = WeakSet()
"""Loops of asyncio in which executors that users see have closed."""
_made: list[int] = [0]
"""Number of implicit executors that this process has made."""


def entered(executor: BaseResolver, loop_id: EventLoopId, *, stands: bool = False) -> Token[BaseResolver | None]:
    """Record that an executor that users see was opened in a loop; if it `stands`, without a block.

    In this context it is the innermost one from now on. Return what puts back the one before.
    """
    _open.setdefault(loop_id, []).append(executor)
    if stands:
        _standing.setdefault(loop_id, []).append(executor)
    return current.set(executor)


def made_implicit(executor: BaseResolver, loop_id: EventLoopId) -> None:
    """Record the implicit executor of a loop."""
    _implicit[loop_id] = executor
    _made[0] += 1


def implicit_made() -> int:
    """Return how many implicit executors this process has made, those of loops that have ended too."""
    return _made[0]


def left(executor: BaseResolver, loop_id: EventLoopId) -> None:
    """Record that an executor has closed; implicit ones too.

    One without a block leaves this context to the one round it, if this is where it was opened. Those that were opened
    in it have that one round them, too: they would else keep it, and all that closed before it.
    """
    innermost = current.get()
    if innermost is not None and innermost is executor and executor in _standing.get(loop_id, ()):
        current.set(innermost.enclosing)
    if executor in _open.get(loop_id, ()) and loop_id.backend == "asyncio":
        _closed_in.add(loop_id.loop)
    for executors in (_open, _standing):
        others = [one for one in executors.pop(loop_id, ()) if one is not executor]
        if others:
            executors[loop_id] = others
    for inner in opened():
        if inner.enclosing is executor:
            inner.enclosing = executor.enclosing
    if _implicit.get(loop_id) is executor:
        del _implicit[loop_id]


def block_left(executor: BaseResolver, token: Token[BaseResolver | None]) -> None:
    """Put back what was innermost in this context before the block of an executor, unless one that was opened in the
    block is still open: that stays.
    """
    innermost = current.get()
    if innermost is None or innermost is executor or not innermost.is_open:
        with suppress(ValueError):  # opened in another context, as fixtures are: there is nothing to put back here
            current.reset(token)


def alone(loop_id: EventLoopId) -> bool:
    """Return True if no executor is left in an event loop, so that no job can run there."""
    return loop_id not in _open and loop_id not in _implicit


def opened_in(loop_id: EventLoopId) -> list[BaseResolver]:
    """Return the executors that users see and have opened in a loop."""
    return _open.get(loop_id, [])


def loops() -> set[EventLoopId]:
    """Return the event loops in which executors are open."""
    return {*_open, *_implicit}


def standing_in(loop_id: EventLoopId) -> BaseResolver | None:
    """Return the last executor that was opened in a loop without a block; None if there is none."""
    executors = _standing.get(loop_id)
    return executors[-1] if executors else None


def implicit_of(loop_id: EventLoopId) -> BaseResolver | None:
    """Return the implicit executor of a loop, if it has one."""
    return _implicit.get(loop_id)


def closed_in(loop_id: EventLoopId) -> bool:
    """Return True if an executor that users see has closed in a loop."""
    return loop_id.loop in _closed_in


def opened() -> list[BaseResolver]:
    """Return all open executors of this process; the implicit ones only where there is no other."""
    return [executor for executors in _open.values() for executor in executors] or list(_implicit.values())


def enclosing() -> BaseResolver | None:
    """Return the innermost executor of this context that is open, of any loop: the one round an executor that opens."""
    executor = current.get()
    while executor is not None and not executor.is_open:
        executor = executor.enclosing
    return executor


class Unopened:
    """Place at which an executor was made, and what to write to open it. Only the executor refers to this."""

    def __init__(self, made_by: str) -> None:
        self.how = f"`async with {made_by} as ex:`, or `ex = await {made_by}`"
        """Code to write in place of what was written."""
        frame = sys._getframe(1)
        while frame.f_back is not None and is_ours(frame):
            frame = frame.f_back
        self._file, self._line = frame.f_code.co_filename, frame.f_lineno
        self.thread = threading.get_ident()
        """The thread that made it."""
        _unopened.add(self)

    def excuse(self) -> None:
        """Say nothing of it: it was opened, or an error has said why it was not."""
        _unopened.discard(self)
        self.thread = 0

    def dropped(self) -> None:
        """Warn that the executor is let go of, if it was not opened."""
        if self.thread and not sys.is_finalizing():
            self.warn(f"an executor was never opened: write {self.how}")

    def warn(self, words: str) -> None:
        """Warn at the line where it was made. One warning is enough."""
        self.excuse()
        warnings.warn_explicit(words, RuntimeWarning, self._file, self._line)


_unopened: WeakSet[Unopened] = WeakSet()


def warn_of_fallback() -> None:
    """Warn that a call runs on an implicit executor, although this thread has made another and not opened it."""
    thread = threading.get_ident()
    for one in [one for one in _unopened if one.thread == thread]:
        one.warn(
            "this executor was not opened, so a call runs on an implicit one, over the cores of this process: "
            f"write {one.how}"
        )

"""Cancellation that is repeated until it takes effect, and the place where a coroutine stands meanwhile.

One `Task.cancel()` lets an asyncio program await in its `finally`; but code that was written for cancel scopes may
swallow it without meaning to, and wait for ever. So asyncio tasks are cancelled once, and again where that did not
help.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Iterator
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType
from typing import Any
from weakref import WeakSet

__all__ = ["Cancellation", "RepeatedCancellation", "held_up", "place_of", "place_of_frame"]

logger = logging.getLogger("grainlike")

GRACE_S = 1.0
"""Seconds for which a cancelled coroutine may await in its clean-up before it is cancelled again."""

EVERY_S = 1.0
"""Seconds between cancellations from then on."""

_pending: WeakSet[Cancellation] = WeakSet()

_Gathering: Any = asyncio.tasks._GatheringFuture  # type: ignore[attr-defined]
"""Future that `asyncio.gather` returns, on each Python that is supported."""


class Cancellation:
    """Cancellation of one coroutine, pending until `settled`. `held_up` lists those that are."""

    __slots__ = ("__weakref__", "_coroutine", "_thread", "name")

    def __init__(self, name: str, coroutine: object) -> None:
        self.name: str = name
        self._coroutine = coroutine
        self._thread = threading.get_ident()
        _pending.add(self)

    @property
    def place(self) -> str:
        """The innermost frame in which the coroutine is suspended."""
        return place_of(self._coroutine)

    def settled(self) -> None:
        """The coroutine has ended."""
        _pending.discard(self)


class RepeatedCancellation(Cancellation):
    """Cancel `task` now, again after `GRACE_S`, and then every `EVERY_S` until it is done or this is `settled`.

    `coroutine` is what the task drives, if that is not the task's own. `reason` is the message of every
    `CancelledError`. The log has once where it waits.

    Example::

        cancellation = RepeatedCancellation(task, "f")
        await asyncio.wait([task])
        cancellation.settled()
    """

    __slots__ = ("_loop", "_reason", "_task", "_timer")

    def __init__(self, task: asyncio.Task[Any], name: str, coroutine: object = None, reason: str | None = None) -> None:
        super().__init__(name, task.get_coro() if coroutine is None else coroutine)
        self._task = task
        self._loop = task.get_loop()
        self._reason = reason
        task.cancel(reason)
        self._timer = self._loop.call_later(GRACE_S, self._repeat, True)

    def settled(self) -> None:
        """The coroutine has ended: cancel the task no more."""
        super().settled()
        self._timer.cancel()

    def _repeat(self, first: bool) -> None:
        if self._task.done():
            super().settled()
            return
        if first:
            logger.warning(
                "%s was cancelled %g s ago and has not ended: it is at %s; it is cancelled again, every %g s",
                self.name,
                GRACE_S,
                self.place,
                EVERY_S,
            )
        inner = list(_children(self._coroutine))
        self._task.cancel(self._reason)
        for task in inner:
            task.cancel(self._reason)
        self._timer = self._loop.call_later(EVERY_S, self._repeat, False)


def held_up() -> dict[str, str]:
    """Return the coroutines of this thread whose cancellation is pending, and the place where each waits, by name."""
    thread = threading.get_ident()
    return {pending.name: pending.place for pending in list(_pending) if pending._thread == thread}


def place_of(coroutine: object) -> str:
    """Return file, line and function of the innermost frame in which a suspended coroutine waits.

    Where that is not the coroutine's own frame, the latter is added.
    """
    frames = list(_frames(coroutine))
    if not frames:
        return "an unknown place"
    inner = place_of_frame(frames[-1])
    outer = next((f for f in reversed(frames) if not _is_library(f)), None)
    return inner if outer is None or outer is frames[-1] else f"{inner} (awaited from {place_of_frame(outer)})"


def place_of_frame(frame: FrameType) -> str:
    """Return file, line and function of a frame."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _is_library(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return "site-packages" in name or name.startswith((_STANDARD, "<frozen"))


_STANDARD = asyncio.__file__.removesuffix("asyncio/__init__.py")


def _frames(awaited: object) -> Iterator[FrameType]:
    """Iterate over the frames of a chain of awaits, outermost first."""
    for link in _links(awaited):
        frame = _frame_of(link)
        if frame is not None:
            yield frame


def _frame_of(link: object) -> FrameType | None:
    if isinstance(link, CoroutineType):
        return link.cr_frame
    if isinstance(link, GeneratorType):
        return link.gi_frame
    return link.ag_frame if isinstance(link, AsyncGeneratorType) else None


def _links(awaited: object) -> Iterator[object]:
    """Iterate over the links of a chain of awaits, outermost first; through tasks that are awaited, too, and the first
    of what a `gather` waits for.
    """
    seen: set[int] = set()
    while awaited is not None and id(awaited) not in seen:
        seen.add(id(awaited))
        yield awaited
        if isinstance(awaited, CoroutineType):
            awaited = awaited.cr_await
        elif isinstance(awaited, GeneratorType):
            awaited = awaited.gi_yieldfrom
        elif isinstance(awaited, AsyncGeneratorType):
            awaited = awaited.ag_await
        elif isinstance(awaited, asyncio.Task):
            awaited = awaited.get_coro()
        elif isinstance(awaited, _Gathering):
            awaited = next(_gathered(awaited), None)
        else:
            # The steps of an async generator and the iterator of a future show what they wait for to no other code.
            awaited = next(filter(_is_awaited, gc.get_referents(awaited)), None)


def _is_awaited(thing: object) -> bool:
    return isinstance(thing, CoroutineType | GeneratorType | AsyncGeneratorType | asyncio.Task | _Gathering)


def _gathered(gathering: Any) -> Iterator[asyncio.Future[Any]]:
    """Return the futures of a `gather` that are not done."""
    return (child for child in gathering._children if not child.done())


def _children(awaited: object) -> Iterator[asyncio.Task[Any]]:
    """Iterate over the tasks of the task groups that a coroutine waits to leave: these cancel each once, and no more.

    A `gather` passes each cancellation on to its tasks, but not to what their groups wait for.
    """
    for link in _links(awaited):
        if isinstance(link, _Gathering):
            for child in _gathered(link):
                yield from _children(child)
            return
        frame = _frame_of(link)
        group = frame.f_locals.get("self") if frame and frame.f_code.co_name in {"__aexit__", "_aexit"} else None
        if isinstance(group, asyncio.TaskGroup):
            for task in list(vars(group)["_tasks"]):
                yield task
                yield from _children(task.get_coro())

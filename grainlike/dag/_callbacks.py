"""Callbacks of a program while a named graph runs."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from grainlike.resources import Allocation

__all__ = ["CallbackQueue", "Callbacks"]

logger = logging.getLogger("grainlike")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Functions, `async def` or not, that `dag.run(callbacks=...)` calls as jobs progress; each at most once for a job.

    They are called in the order of events, one after another, in the task that runs the graph, and awaited. So a slow
    callback delays the others, but no job. An exception in a callback is logged and does no harm. A callback that still
    waits when the run's `timeout` is over is cancelled.

    Args:
        on_start: called with the name of a job when its first attempt starts.
        on_complete: with the name and the value, when the job has succeeded; the value is None if it is large and stays
            at workers because other jobs need it.
        on_error: with the name and the exception, when the job has failed, timed out or was cancelled.
        on_skip: with the name, when the job will not start, because its inputs will not come or the run has ended. Each
            job comes to one of these three.
        on_resource_acquired: with the name and the allocation, when its worker has granted slots to the job.
        on_resource_released: with the name and the allocation, when the slots of the last attempt are free again.

    Example::

        failures = []
        callbacks = Callbacks(on_error=lambda name, error: failures.append(name))
        report = await dag.run(callbacks=callbacks)
    """

    on_start: Callable[[str], object] | None = None
    on_complete: Callable[[str, Any], object] | None = None
    on_error: Callable[[str, BaseException], object] | None = None
    on_skip: Callable[[str], object] | None = None
    on_resource_acquired: Callable[[str, Allocation], object] | None = None
    on_resource_released: Callable[[str, Allocation], object] | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if value is not None and not callable(value):
                raise TypeError(f"{option.name}= takes a function, not {value!r}")


class CallbackQueue:
    """Queue of callbacks that are still to be called for one run."""

    def __init__(self, callbacks: Callbacks | None) -> None:
        self.callbacks = callbacks if callbacks is not None else Callbacks()
        self._untold: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def __bool__(self) -> bool:
        return bool(self._untold)

    def add(self, callback: Callable[..., object] | None, *told: Any) -> None:
        """Call this one later, if there is one."""
        if callback is not None:
            self._untold.append((callback, told))

    async def tell(self) -> None:
        """Call all that are due, and wait for those that are to be awaited."""
        while self._untold:
            callback, told = self._untold.popleft()
            try:
                made = callback(*told)
                if inspect.isawaitable(made):
                    await made
            except Exception:
                logger.exception("a callback failed at %s", told[0])

"""Live views: what a notebook shows of a placeholder whose call has not ended, changed in place until it has."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context
from importlib import import_module
from typing import Any

from grainlike.eventloop import EventLoopId
from grainlike.graph import Delayed, Node

__all__ = ["LiveViews"]

logger = logging.getLogger("grainlike")

_EVERY_S = 0.5
_MOST = 20
"""Number of views that change at a time, of however many there are: the others have their turn later."""


class LiveViews:
    """Views of one event loop of asyncio. `watch` has a function called when a node has finished."""

    def __init__(self, loop_id: EventLoopId, watch: Callable[[Node, Callable[[], object]], None]) -> None:
        self._loop: Any = loop_id.loop
        self._watch = watch
        self._views: deque[_View] = deque()
        self._timer: Any = None

    def show(self, node: Node) -> None:
        """Show a node in the output of this cell, and keep that up to date."""
        view = _View(node)
        self._views.append(view)
        self._watch(node, lambda: self._loop.call_soon(self._end, view, context=Context()))
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._views:
            # Not this cell's context: who records a notebook takes changes from the cell that runs at the time.
            self._timer = self._loop.call_later(_EVERY_S, self._turn, context=Context())

    def _turn(self) -> None:
        self._timer = None
        for _ in range(min(_MOST, len(self._views))):
            view = self._views.popleft()
            if view.update() and not view.node.finished:
                self._views.append(view)
        self._schedule()

    def _end(self, view: _View) -> None:
        if view in self._views:
            self._views.remove(view)
            view.update()
        if not self._views and self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _View:
    def __init__(self, node: Node) -> None:
        self.node = node
        self._shown = self._data()
        # By name: it is there, for a notebook runs.
        self._handle: Any = import_module("IPython.display").display(self._shown, raw=True, display_id=True)

    def _data(self) -> dict[str, str]:
        placeholder: Delayed[Any] = Delayed(self.node)
        return {"text/html": placeholder._repr_html_(), "text/plain": repr(placeholder)}

    def update(self) -> bool:
        """Show what has changed; return False where that fails: a view must not stop the work."""
        try:
            data = self._data()
            if data != self._shown:
                self._shown = data
                self._handle.update(data, raw=True)
        except Exception as error:  # noqa: BLE001 - whatever a front end does, or the program's own classes
            logger.warning("the view of %s changes no more: %r", self.node.function.name, error)
            return False
        return True

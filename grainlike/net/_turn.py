"""What is posted while frames are handed on leaves when they have been, in the order of posting.

So a daemon that hears of a job writes to its runner first and to the head second, each once, in the same turn of the
event loop: a trip through the selector for each would double the latency.
"""

from __future__ import annotations

import threading
from typing import Protocol

__all__ = ["turn"]


class _Flushable(Protocol):
    def flush(self) -> None:
        """Write what was posted."""


class _Turn(threading.local):
    """One for each thread, for links of one thread belong to one event loop."""

    def __init__(self) -> None:
        self._posted: list[_Flushable] | None = None

    def begin(self) -> None:
        """Frames are about to be handed on."""
        self._posted = []

    def end(self) -> None:
        """They have been."""
        posted, self._posted = self._posted, None
        for link in posted or ():
            link.flush()

    def takes(self, link: _Flushable) -> bool:
        """Whether the link will be flushed when frames have been handed on; False when none are."""
        if self._posted is None:
            return False
        self._posted.append(link)
        return True


turn = _Turn()

"""Keeps the collector of cyclic garbage from looking at a long queue again and again.

A full collection looks at every object there is: with a million queued jobs that takes most of a second, in which a
head answers no query. What has outlived one that took long is set aside, and looked at again when little of it is
left.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

__all__ = ["collecting_less"]

_LONG_S = 0.005
"""Seconds that a full collection may take without anything being set aside for it."""

_FEW = 50_000
"""Number of objects below which what was set aside is looked at again: that is quick then."""


@contextmanager
def collecting_less() -> Iterator[None]:
    """Context manager: collect garbage less often in this process. Garbage in what was set aside stays for so long."""
    begun = 0.0

    def note(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        nonlocal begun
        if info["generation"] < 2:
            return
        if phase == "start":
            begun = time.perf_counter()
            return
        if time.perf_counter() - begun > _LONG_S:
            gc.freeze()
        elif 0 < gc.get_freeze_count() < _FEW:
            gc.unfreeze()

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()

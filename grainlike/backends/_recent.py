"""Offers of a cluster, queried at most once in a while: they are needed for every job."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Offers", "Recent"]

Offers = list[dict[str, float]]
"""Amounts by resource, of each worker."""

FRESH_S = 2.0
"""Seconds for which an answer is valid: workers come and go."""


class Recent:
    """Remembers the answer of `ask` for a moment."""

    def __init__(self, ask: Callable[[], Offers]) -> None:
        self._ask = ask
        self._told: Offers = []
        self._until = 0.0

    def __call__(self) -> Offers:
        """The last answer, or a new one. Called from any thread."""
        if time.monotonic() >= self._until:
            self._told = self._ask()
            self._until = time.monotonic() + FRESH_S
        return self._told

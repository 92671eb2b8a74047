"""Rate-limited log of rejected connections: logged while they are few, counted when they are many, so that they fill
no log.
"""

from __future__ import annotations

import logging
import time

__all__ = ["Complaints"]

_MOST = 20
"""The most in one period."""

_PERIOD_S = 60.0


class Complaints:
    """Warns through `logger`, up to a number in each minute; what is more goes to level debug, and is counted."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._since = time.monotonic()
        self._count = 0

    def say(self, text: str, *arguments: object) -> None:
        """Log one, as `logger.warning` would."""
        now = time.monotonic()
        if now - self._since >= _PERIOD_S:
            if self._count > _MOST:
                self._logger.warning("%d more connections ended like those before", self._count - _MOST)
            self._since, self._count = now, 0
        self._count += 1
        self._logger.log(logging.WARNING if self._count <= _MOST else logging.DEBUG, text, *arguments)
        if self._count == _MOST:
            self._logger.warning("for a minute, more of these are told at level debug alone")

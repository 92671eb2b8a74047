"""Warnings of pools that get no worker although jobs wait for them: a program is told why nothing happens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from grainlike.head import Head
from grainlike.head.fleet._rows import in_one_line
from grainlike.head.fleet._state import FleetState
from grainlike.head.fleet._view import FleetView

__all__ = ["PoolWarnings"]

logger = logging.getLogger("grainlike")

_LOG = -1
"""Stands for the log of this process, where clients have their ids."""

_NUMBERS = re.compile(r"\d+")


class PoolWarnings:
    """Warnings of the pools of a fleet, each given once: to the log, and to each client with a job that waits.

    `tell` warns the client that submitted a job.
    """

    def __init__(self, state: FleetState, head: Head, view: FleetView, tell: Callable[[int, str], None]) -> None:
        self._state = state
        self._head = head
        self._view = view
        self._tell = tell
        self._told: set[tuple[str, str, int]] = set()
        """Pool, reason and who has heard it."""

    def warn(self) -> None:
        """Warn of the pools that jobs wait for in vain now."""
        for name in self._state.scheduler.records.pools:
            why = self._state.scheduler.trouble(name, self._state.time())
            if why:
                words = f"pool {name} submits nothing: {in_one_line(why)}"
                if self._is_new(name, why):
                    logger.warning("%s", words)
                self._warn_clients(name, why, words)

    def paused(self, name: str, why: str) -> None:
        """Log that a pool is paused."""
        self._is_new(name, f"paused: {why}")
        logger.warning("pool %s is paused: %s", name, why)

    def over(self, name: str) -> None:
        """Forget what was said of a pool: its batch system has taken a block."""
        self._told = {told for told in self._told if told[0] != name}

    def _warn_clients(self, name: str, why: str, words: str) -> None:
        reason = _reason(why)
        for cls in self._head.state.scheduler.classes.values():
            # Who has heard it needs no look at what the pools lack for the job: there may be very many classes.
            first = None if (name, reason, cls.client) in self._told else cls.head()
            if first is not None and self._view.nearest(first) == name:
                self._told.add((name, reason, cls.client))
                self._tell(first.id, words)

    def _is_new(self, name: str, why: str) -> bool:
        """Return True if the log has not been told of this; it is taken to be from now on."""
        told = name, _reason(why), _LOG
        is_new = told not in self._told
        self._told.add(told)
        return is_new


def _reason(why: str) -> str:
    """Return words without their numbers: seconds, times and ids of blocks differ, and make no other reason."""
    return _NUMBERS.sub("", why)

"""Brief polling: who has an answer due within microseconds looks for it again and again, and does not sleep.

A process that sleeps is woken by whoever writes to it. Where its processor has gone to sleep, too, that takes both
sides some 20 µs: a third of a round trip between two processes.

Loads no event loop: runners poll, too.
"""

from __future__ import annotations

import time

__all__ = ["BRIEF_S", "Rhythm"]

BRIEF_S = 0.00015
"""Longest wait that is polled through, in seconds: what that costs is of the order of what it costs to be woken."""

_LONG_S = 8 * BRIEF_S
"""Longer waits count as this one: after a pause of hours, nine brief waits are enough to poll again."""

_WEIGHT = 0.25
"""Weight of the last wait in the average."""


class Rhythm:
    """Average of the waits for an answer on one link, in seconds, the last ones most.

    Example::

        rhythm.begin()              # something was sent
        if rhythm.due:
            polling.poll(rhythm.due)
        ...
        if rhythm.end():            # something came
            polling.stop()
    """

    __slots__ = ("_average", "_since")

    def __init__(self) -> None:
        self._average = _LONG_S
        self._since = 0.0

    def begin(self) -> None:
        """Begin a wait, unless one is under way."""
        if not self._since:
            self._since = time.monotonic()

    def end(self) -> bool:
        """End the wait that is under way, if any is; return True if it was one to poll through."""
        if not self._since:
            return False
        polled = self._average < BRIEF_S
        waited = min(time.monotonic() - self._since, _LONG_S)
        self._average += _WEIGHT * (waited - self._average)
        self._since = 0.0
        return polled

    @property
    def due(self) -> float:
        """Moment (monotonic) until which to poll for the end of this wait; 0 where waits are longer than that."""
        return self._since + BRIEF_S if self._average < BRIEF_S else 0.0

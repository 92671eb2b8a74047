"""The judge's books of what comes after the head's death: who has noticed it, and what still runs.

A worker learns of it by the end of its link, or by a silence. From then on it begins nothing, and its jobs end as they
do on a worker that was told to stop. So a job that outlives the head for long has a worker that broke its word.
"""

from __future__ import annotations

from grainlike.scheduler import GRACE_S
from grainlike.simulation._clock import Clock
from grainlike.wire import LOST_S

__all__ = ["Aftermath"]

_DRIFT = 0.02
"""How wrong clocks may be."""

_SILENCE_S = LOST_S * (1 + _DRIFT)
"""After so long a worker takes a silent head for dead; the end of a link comes sooner than that, however slow it is."""

_STANDSTILL_S = 45.0
"""How long a worker, or its link, may stand still: it notices nothing meanwhile."""

_SOON_S = 0.5
"""What is on its way to a process may still begin there, to be stopped by what comes behind it."""

_FAREWELL_S = GRACE_S * (1 + _DRIFT) + 1.0 + _SOON_S
"""How long a worker that has noticed may take to end all that it has."""


class Aftermath:
    """Takes note from the moment of `head_died`. Raises `AssertionError` for a job that should not be there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._died: float | None = None
        self._noticed: dict[int, float] = {}
        self._stalled: set[int] = set()

    def head_died(self) -> None:
        """It is gone, and all that it knew."""
        self._died = self._clock.now

    def stalled(self, worker: int) -> None:
        """A worker, or its link, stands still for a while."""
        self._stalled.add(worker)

    def noticed(self, worker: int) -> None:
        """A worker has lost its head."""
        assert self._died is not None, f"worker {worker} lost a head that lives"
        assert self._clock.now <= self._known_by(worker), f"worker {worker} noticed that the head was gone too late"
        self._noticed[worker] = self._clock.now

    def began(self, worker: int, job: int) -> None:
        """A job begins."""
        if self._died is None:
            return
        last = self._noticed[worker] + _SOON_S if worker in self._noticed else self._known_by(worker)
        assert self._clock.now <= last, f"job {job} began on worker {worker}, which has no head any more"

    def ended(self, worker: int, job: int) -> None:
        """A job runs no more."""
        if self._died is None:
            return
        last = self._noticed.get(worker, self._known_by(worker)) + _FAREWELL_S
        late = self._clock.now - last
        assert late <= 0.0, f"job {job} ran on worker {worker} for {late:.3f} s longer than a job without a head may"

    def _known_by(self, worker: int) -> float:
        assert self._died is not None
        return self._died + _SILENCE_S + (_STANDSTILL_S if worker in self._stalled else 0.0)

"""Judge's records of the time after the head's death: which workers have noticed it, and what still runs.

A worker notices it by the end of its link, or by a silence. From then on it begins no job, and its jobs end as they do
on a worker that was asked to stop. A job that outlives the head for longer than that is a violation.
"""

from __future__ import annotations

from grainlike.scheduler import GRACE_S
from grainlike.simulation import Clock
from grainlike.wire import LOST_S

__all__ = ["Aftermath"]

_DRIFT = 0.02
"""The largest relative error of clocks."""

_SILENCE_S = LOST_S * (1 + _DRIFT)
"""Seconds after which a silent head counts as dead for a worker; the end of a link arrives sooner, however slow it
is.
"""

_STANDSTILL_S = 45.0
"""The most seconds for which a worker, or its link, may stand still, and notice nothing."""

_SOON_S = 0.5
"""Seconds within which a job that is on its way to a process may still begin there, to be stopped by the next
message.
"""

_GOODBYE_S = GRACE_S * (1 + _DRIFT) + 1.0 + _SOON_S
"""The most seconds in which a worker that has noticed ends all its jobs."""


class Aftermath:
    """Checks workers and jobs from `head_died` on. Raises `AssertionError` for a job that should not be there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._died: float | None = None
        self._noticed: dict[int, float] = {}
        self._stalled: set[int] = set()

    def head_died(self) -> None:
        """Record that the head is gone, with all its state."""
        self._died = self._clock.now

    def stalled(self, worker: int) -> None:
        """Record that a worker, or its link, stands still for a while."""
        self._stalled.add(worker)

    def noticed(self, worker: int) -> None:
        """Check that a worker notices in time that the head is gone."""
        assert self._died is not None, f"worker {worker} lost a head that lives"
        assert self._clock.now <= self._known_by(worker), f"worker {worker} noticed that the head was gone too late"
        self._noticed[worker] = self._clock.now

    def began(self, worker: int, job: int) -> None:
        """Check that a job that begins may do so."""
        if self._died is None:
            return
        last = self._noticed[worker] + _SOON_S if worker in self._noticed else self._known_by(worker)
        assert self._clock.now <= last, f"job {job} began on worker {worker}, which has no head any more"

    def ended(self, worker: int, job: int) -> None:
        """Check that a job has ended in time."""
        if self._died is None:
            return
        last = self._noticed.get(worker, self._known_by(worker)) + _GOODBYE_S
        late = self._clock.now - last
        assert late <= 0.0, f"job {job} ran on worker {worker} for {late:.3f} s longer than a job without a head may"

    def _known_by(self, worker: int) -> float:
        assert self._died is not None
        return self._died + _SILENCE_S + (_STANDSTILL_S if worker in self._stalled else 0.0)

"""Run times of the jobs of one function: count, mean and spread, in which old samples fade.

The update is Welford's, weighted so that old samples fade exponentially once `memory` of them are in: a function
whose inputs grow is soon known as slower (B. P. Welford, "Note on a method for calculating corrected sums of squares
and products", Technometrics 4 (1962); exponential form: T. Finch, "Incremental calculation of weighted mean and
variance", 2009).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

__all__ = ["TINY_S", "RunTimes"]

TINY_S = 0.005
"""Jobs are tiny if mean + 2σ of their run times is under this: they share leases and travel together."""

_MEMORY = 64
_KNOWN = 8


class RunTimes:
    """Run times of one function, in seconds. The larger `memory` (in samples), the slower they follow a change.

    Example::

        times = RunTimes()
        times.add([0.010, 0.012])
        times.mean      # 0.011
        times.known     # False: two samples are too few
    """

    __slots__ = ("awaits", "count", "mean", "memory", "variance")

    def __init__(self, memory: int = _MEMORY) -> None:
        self.memory: int = memory
        self.count: int = 0
        self.mean: float = 0.0
        self.variance: float = 0.0
        self.awaits: bool = False
        """True if a job of this function ever suspended: such jobs gain nothing from run-lists."""

    def add(self, walls: Iterable[float]) -> None:
        """Add the run times of finished jobs."""
        count, mean, variance, memory = self.count, self.mean, self.variance, self.memory
        weight = 1.0 / memory
        rest = 1.0 - weight
        for wall in walls:
            count += 1
            if count <= memory:
                weight = 1.0 / count
                rest = 1.0 - weight
            delta = wall - mean
            mean += weight * delta
            variance = rest * (variance + weight * delta * delta)
        self.count, self.mean, self.variance = count, mean, variance

    @property
    def known(self) -> bool:
        """True with enough samples (8) to decide by."""
        return self.count >= _KNOWN

    @property
    def upper(self) -> float:
        """Mean plus two standard deviations: jobs rarely take longer."""
        return self.mean + 2.0 * sqrt(self.variance)

    def over(self, deviations: float) -> float:
        """Return the mean plus `deviations` standard deviations, in seconds."""
        return self.mean + deviations * sqrt(self.variance)

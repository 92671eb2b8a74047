"""Scale from seconds to pixels, with round numbers on the axis."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Scale"]

_MOST_TICKS = 12


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps the time from `began` to `ended` onto the pixels from `left` to `right`."""

    began: float
    ended: float
    left: float
    right: float

    @property
    def seconds(self) -> float:
        """All the time there is; never zero, so that a single instant can be drawn."""
        return max(self.ended - self.began, 1e-9)

    @property
    def pixel(self) -> float:
        """Seconds that one pixel represents."""
        return self.seconds / (self.right - self.left)

    def at(self, moment: float) -> float:
        """Return the x position of a moment, in pixels."""
        return self.left + (moment - self.began) / self.pixel

    def ticks(self) -> list[tuple[float, str]]:
        """Seconds since the begin, at most a dozen and evenly apart, with their text."""
        step = _round_step(self.seconds / _MOST_TICKS)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(n * step, f"{n * step:.{places}f} s") for n in range(int(self.seconds / step + 1e-9) + 1)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... (or a part of it) that is not below `least`."""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))

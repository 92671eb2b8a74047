"""Change that pairs of figures show: the median of their ratios, and between what bounds it lies.

The bounds are those of the sign test: of the ratios in order, they are two between which the median of all ratios that
there could be lies with a probability of `CONFIDENCE` at least, whatever their distribution. So a change is seen where
all ratios, or all but the few that chance explains, are on one side of one. Six pairs are the fewest that can show one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf
from statistics import median
from typing import Literal

__all__ = ["CONFIDENCE", "FEWEST", "Change", "change", "interval"]

CONFIDENCE = 0.95

FEWEST = 6
"""Least number of pairs for `CONFIDENCE`."""

Verdict = Literal["less", "more", "no change seen"]


@dataclass(frozen=True)
class Change:
    """Change of a figure: its median before and after, and the median of the ratios of each pair."""

    before: float
    after: float
    ratio: float
    bounds: tuple[float, float] | None
    """Between which the ratio lies; None for too few pairs."""

    @property
    def verdict(self) -> Verdict:
        """Return True if it has changed beyond noise."""
        if self.bounds is None or self.bounds[0] <= 1 <= self.bounds[1]:
            return "no change seen"
        return "more" if self.bounds[0] > 1 else "less"


def change(before: Sequence[float], after: Sequence[float]) -> Change:
    """Compare figures that were taken in pairs, one of each in every round.

    Raises:
        ValueError: there are none, or not as many of each.
    """
    ratios = sorted(_ratio(old, new) for old, new in zip(before, after, strict=True))
    if not ratios:
        raise ValueError("there are no pairs to compare")
    return Change(median(before), median(after), median(ratios), interval(ratios))


def interval(ordered: Sequence[float]) -> tuple[float, float] | None:
    """Return the narrowest bounds of the median that have `CONFIDENCE`; None if even the outermost have less."""
    count = len(ordered)
    outside = 0.0
    dropped = -1
    while dropped < count // 2:
        outside += comb(count, dropped + 1) / 2 ** (count - 1)
        if outside > 1 - CONFIDENCE:
            break
        dropped += 1
    return None if dropped < 0 else (ordered[dropped], ordered[count - 1 - dropped])


def _ratio(old: float, new: float) -> float:
    """Nothing that stays nothing is no change, and anything is endlessly more than nothing."""
    if old == new:
        return 1.0
    return new / old if old else inf

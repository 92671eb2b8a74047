"""The demonstration's graph, and running it: this is what a program that uses grainlike looks like."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add

from grainlike.cli.demo._jobs import FOLDS, Candidate, cross_validate, refit
from grainlike.graph import Delayed, Info, delayed, delayed_value, gather, info, start
from grainlike.maps import as_completed
from grainlike.observe import Span, span_of
from grainlike.resources import Cores

__all__ = ["Fit", "Sweep", "SweepOutcome"]

_cross_validate = delayed(nout=FOLDS)(cross_validate)
_refit = delayed(refit)


@dataclass(frozen=True, slots=True)
class Fit:
    """Cross-validation of one candidate: accuracy in each fold, their mean, and the job's `info`."""

    candidate: Candidate
    scores: list[float]
    mean: float
    told: Info


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """The whole sweep. `seconds` is from the start to the last score, `fits` in the order of the candidates."""

    fits: list[Fit]
    seconds: float
    chosen: Candidate
    right: int
    unseen: int
    final: Info

    def ranked(self) -> list[Fit]:
        """Return the best first; of equals, the quicker."""
        return sorted(self.fits, key=lambda fit: (-fit.mean, fit.told.usage.wall_s if fit.told.usage else 0.0))

    def spans(self) -> list[Span]:
        """Return the spans of the jobs, by their own receipts. A better model has a deeper colour."""
        places = {str(fit.candidate): place for place, fit in enumerate(reversed(self.ranked()))}
        last = max(len(self.fits) - 1, 1)
        spans = [
            span_of(
                fit.told,
                kind=f"{fit.candidate.family}, 5 folds",
                label=f"{fit.candidate}: {fit.mean:.1%}",
                strength=places[str(fit.candidate)] / last,
            )
            for fit in self.fits
        ]
        spans.append(span_of(self.final, kind="final fit", label="final fit"))
        return [span for span in spans if span is not None]


class Sweep:
    """A graph: score every candidate on one core, choose the best, train it again on `width` cores."""

    def __init__(self, candidates: list[Candidate], *, width: int, members: int) -> None:
        self.candidates = candidates
        self.scores_ = [(_cross_validate @ Cores(1))(candidate) for candidate in candidates]
        self.means_ = [reduce(add, folds_) / FOLDS for folds_ in self.scores_]
        means_ = gather(self.means_)
        self.chosen_ = delayed_value(candidates)[means_.index(delayed(max)(means_))]
        self.final_ = (_refit @ Cores(width))(self.chosen_, members)

    async def run(self, on_fit: Callable[[Fit], None]) -> SweepOutcome:
        """Run it on the executor that is open; `on_fit` is called with each candidate as it is done."""
        began = time.monotonic()
        start(self.final_)
        number = {scores_: at for at, scores_ in enumerate(self.scores_)}
        fits: dict[int, Fit] = {}
        async for scores_ in as_completed(self.scores_):
            at = number[scores_]
            fits[at] = await self._fit(at, scores_)
            on_fit(fits[at])
        seconds = time.monotonic() - began
        right, unseen = await self.final_
        return SweepOutcome(
            [fits[at] for at in sorted(fits)], seconds, await self.chosen_, right, unseen, info(self.final_)
        )

    async def _fit(self, at: int, scores_: Delayed[list[float]]) -> Fit:
        return Fit(self.candidates[at], await scores_, await self.means_[at], info(scores_))

"""Span of one job: its begin and end, and its lanes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from grainlike.graph import Info

__all__ = ["Lane", "Span", "span_of"]


class Lane(NamedTuple):
    """Core of a worker: a row of the picture."""

    worker: str
    core: int


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time on some lanes.

    `began` and `ended` are seconds on any one clock. `kind` is what the colour stands for, `strength` (0 to 1) how
    deep it is, `label` the text of this span alone. `pinned` is False for work that could have run elsewhere too.
    """

    lanes: tuple[Lane, ...]
    began: float
    ended: float
    kind: str
    label: str = ""
    strength: float = 1.0
    pinned: bool = True

    @property
    def seconds(self) -> float:
        """Duration in seconds."""
        return self.ended - self.began


def span_of(told: Info, *, kind: str | None = None, label: str = "", strength: float = 1.0) -> Span | None:
    """Return a job's `info(r_)` as a span; None where there is nothing to draw: it has not run, or had no cores.

    The lanes are those of the receipt, read back inside the job: what was enforced, not what was promised. A job that
    was not pinned (`async def` in a shared process, or cores that the machine does not have) could have run anywhere;
    it is put on the lanes of its allocation, and marked. `kind` is the function's name unless given.

    Example::

        spans = [span for r_ in results if (span := span_of(info(r_)))]
    """
    if told.worker is None or told.allocation is None or told.began is None or told.ended is None:
        return None
    affinity = told.receipt.affinity if told.receipt is not None else ()
    pinned = bool(affinity) and set(affinity) <= set(told.allocation.cores)
    lanes = tuple(Lane(told.worker, core) for core in (affinity if pinned else told.allocation.cores))
    if not lanes:
        return None
    return Span(lanes, told.began, told.ended, kind or told.name, label, strength, pinned)

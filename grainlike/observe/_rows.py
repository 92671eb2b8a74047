"""Rows of the picture: the row of each span, and how much of a row's time is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from grainlike.observe._span import Lane, Span

__all__ = ["Row", "arranged", "busy"]


class Row:
    """A lane's stripe of the page. Spans that overlap in it share its height."""

    PADDING: ClassVar[float] = 1.5

    __slots__ = ("_tracks", "height", "top")

    def __init__(self, spans: Sequence[Span], top: float, height: float, least: float) -> None:
        self.top = top
        self.height = height
        self._tracks = _tracks(spans, least)

    def place(self, span: Span) -> tuple[float, float]:
        """The top and the height of a span's bar."""
        height = self.height / (max(self._tracks.values(), default=0) + 1)
        padding = min(self.PADDING, height / 4)
        return self.top + self._tracks[id(span)] * height + padding, height - 2 * padding


def arranged(
    spans: Sequence[Span], lanes: Sequence[Lane], *, top: float, height: float, gap: float, least: float
) -> dict[Lane, Row]:
    """Return one row for each lane, downwards from `top`, with a gap above each worker.

    Overlaps of at most `least` seconds are not seen: two clocks that were set against each other differ by that much,
    and so do neighbours on one core.
    """
    rows: dict[Lane, Row] = {}
    several = len({lane.worker for lane in lanes}) > 1
    before: Lane | None = None
    for lane in lanes:
        if several and (before is None or before.worker != lane.worker):
            top += gap
        rows[lane] = Row([span for span in spans if lane in span.lanes], top, height, least)
        top += height
        before = lane
    return rows


def busy(spans: Sequence[Span], lane: Lane) -> float:
    """Return the seconds in which at least one span lay on the lane. `spans` are in the order of their begins."""
    taken = 0.0
    until = float("-inf")
    for span in spans:
        if lane in span.lanes and span.ended > until:
            taken += span.ended - max(span.began, until)
            until = span.ended
    return taken


def _tracks(spans: Sequence[Span], least: float) -> dict[int, int]:
    """Return for each span the first track that is free when it begins, by the span's `id`: equal ones are two."""
    ends: list[float] = []
    tracks: dict[int, int] = {}
    for span in spans:
        free = (track for track, end in enumerate(ends) if end <= span.began + least)
        track = next(free, len(ends))
        if track == len(ends):
            ends.append(span.ended)
        else:
            ends[track] = span.ended
        tracks[id(span)] = track
    return tracks

"""Timeline of jobs on cores, as an SVG document.

One row a core, grouped by worker; one bar a job; time to the right. The picture brings its own light ground, so that
it reads the same on a dark page.

Scale from seconds to pixels, with round numbers on the axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from grainlike.observe._rows import Row, arranged, busy
from grainlike.observe._span import Lane, Span

__all__ = ["Scale", "timeline"]


_WIDTH = 1120.0
_MARGIN = 28.0
_HEAD = 84.0
_TALLEST, _LOWEST, _BUDGET = 38.0, 9.0, 760.0
_GROUP_GAP = 14.0
_AXIS = 44.0
_LEGEND = 34.0
_SHARE = 62.0
_INK, _SOFT, _LINE = "#0f172a", "#64748b", "#e2e8f0"
_COLOURS = ("#2563eb", "#0d9488", "#f59e0b", "#9333ea", "#e11d48", "#65a30d", "#0891b2", "#78716c")
_PALEST = 0.22
_LETTER = 0.56
"""The width of a letter in sizes of its font, on average and rather too much."""


def timeline(
    spans: Iterable[Span], *, title: str, subtitle: str = "", lanes: Iterable[Lane] = (), note: str = ""
) -> str:
    """Draw spans as bars over lanes; returns an SVG document.

    `lanes` adds cores on which nothing may have run: an idle core is a fact too. `note` stands beside the legend, as
    for what a deeper colour means. The number at the end of a row is the share of the time, from the first begin to the
    last end, that the core was taken.

    Raises:
        ValueError: there are no spans.

    Example::

        Path("run.svg").write_text(timeline(spans, title="My sweep"))
    """
    drawn = sorted(spans, key=lambda span: (span.began, span.ended))
    if not drawn:
        raise ValueError("there is nothing to draw: no span was given")
    page = _Page(drawn, sorted({*lanes, *(lane for span in drawn for lane in span.lanes)}))
    return page.document(title, subtitle, note)


class _Page:
    def __init__(self, spans: Sequence[Span], lanes: Sequence[Lane]) -> None:
        self._spans = spans
        self._lanes = lanes
        self._colours = {kind: _COLOURS[n % len(_COLOURS)] for n, kind in enumerate(_kinds(spans))}
        names = [lane.worker for lane in lanes] + [_core(lane) for lane in lanes]
        self._left = _MARGIN + 14 + 12 * _LETTER * max(map(len, names))
        self._scale = Scale(
            min(span.began for span in spans), max(span.ended for span in spans), self._left, _WIDTH - _MARGIN - _SHARE
        )
        height = min(_TALLEST, max(_LOWEST, _BUDGET / len(lanes)))
        self._rows = arranged(spans, lanes, top=_HEAD, height=height, gap=_GROUP_GAP, least=self._scale.pixel)
        last = self._rows[lanes[-1]]
        self._bottom = last.top + last.height + 8

    def document(self, title: str, subtitle: str, note: str) -> str:
        height = self._bottom + _AXIS + _LEGEND
        parts = [
            _opened(title, height),
            _text(title, _MARGIN, 38, size=19, weight=600),
            _text(subtitle, _MARGIN, 60, size=13, colour=_SOFT),
            _text("taken", _WIDTH - _MARGIN, _HEAD - 8, size=11, colour=_SOFT, anchor="end"),
            *self._axis(),
            *self._labels(),
            *(bar for span in self._spans for bar in self._bars(span)),
            *self._legend(note),
            "</svg>",
        ]
        return "\n".join(part for part in parts if part) + "\n"

    def _axis(self) -> Iterator[str]:
        for seconds, text in self._scale.ticks():
            x = self._scale.at(seconds + self._scale.began)
            yield (
                f'<line x1="{x:.1f}" y1="{_HEAD - 4:.1f}" x2="{x:.1f}" y2="{self._bottom:.1f}" stroke="{_LINE}"/>'
                + _text(text, x, self._bottom + 18, size=12, colour=_SOFT, anchor="middle")
            )

    def _labels(self) -> Iterator[str]:
        for worker, group in groupby(self._lanes, key=lambda lane: lane.worker):
            rows = [(lane, self._rows[lane]) for lane in group]
            top, end = rows[0][1], rows[-1][1]
            yield (
                f'<line x1="{self._left - 8:.1f}" y1="{top.top:.1f}" x2="{self._left - 8:.1f}" '
                f'y2="{end.top + end.height:.1f}" stroke="#94a3b8" stroke-width="2"/>'
            )
            several = len({lane.worker for lane in self._lanes}) > 1
            for number, (lane, row) in enumerate(rows):
                yield from self._row_labels(lane, row, worker if several and number == 0 else "")

    def _row_labels(self, lane: Lane, row: Row, worker: str) -> Iterator[str]:
        size = min(12.0, row.height)
        middle = row.top + row.height / 2 + size * 0.36
        if worker:
            yield _text(worker, self._left - 14, row.top - 3, size=11, anchor="end", colour=_SOFT)
        yield _text(_core(lane), self._left - 14, middle, size=size, anchor="end", weight=500)
        share = busy(self._spans, lane) / self._scale.seconds
        yield _text(f"{share:.0%}", _WIDTH - _MARGIN, middle, size=size, anchor="end", colour=_SOFT)

    def _bars(self, span: Span) -> Iterator[str]:
        colour = _mixed(self._colours[span.kind], span.strength)
        x = self._scale.at(span.began)
        width = max(self._scale.at(span.ended) - x - 0.8, 0.6)
        since = span.began - self._scale.began
        tip = escape(f"{span.label or span.kind}\n{_where(span)}\n{span.seconds:.3f} s from {since:.3f} s")
        for box in _joined([self._rows[lane].place(span) for lane in sorted(span.lanes)]):
            shape = f'x="{x:.2f}" y="{box.top:.2f}" width="{width:.2f}" height="{box.height:.2f}" rx="2"'
            loose = "" if span.pinned else f'<rect {shape} fill="url(#loose)"/>'
            inside = _inside(span, x, width, box)
            yield f'<g><title>{tip}</title><rect {shape} fill="{colour}"/>{loose}{inside}</g>'

    def _legend(self, note: str) -> Iterator[str]:
        y = self._bottom + _AXIS + 6
        x = self._left
        for kind, colour in self._colours.items():
            yield f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="12" height="12" rx="3" fill="{colour}"/>'
            yield _text(kind, x + 18, y, size=13)
            x += 18 + 13 * _LETTER * len(kind) + 22
        notes = [note] if note else []
        if not all(span.pinned for span in self._spans):
            notes.append("striped: not pinned, drawn on the cores it was given")
        yield _text("; ".join(notes), _WIDTH - _MARGIN, y, size=12, colour=_SOFT, anchor="end")


@dataclass(frozen=True, slots=True)
class _Box:
    top: float
    height: float


def _opened(title: str, height: float) -> str:
    """Return the beginning of every page: its size, its font, the stripes of loose work, and the ground."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        'font-family="ui-sans-serif, system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">\n'
        f"<title>{escape(title)}</title>\n"
        '<defs><pattern id="loose" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="2.5" height="6" fill="#ffffff" fill-opacity="0.55"/></pattern></defs>\n'
        f'<rect x="0.5" y="0.5" width="{_WIDTH - 1:.0f}" height="{height - 1:.0f}" rx="12" fill="#ffffff" '
        f'stroke="{_LINE}"/>'
    )


def _joined(places: Sequence[tuple[float, float]]) -> list[_Box]:
    """Return one box for rows that touch, as far as a wide job's lanes lie side by side."""
    boxes = [_Box(*places[0])]
    for (top, height), (next_top, next_height) in pairwise(places):
        if next_top - (top + height) <= Row.PADDING * 2 + 0.01:
            first = boxes.pop()
            boxes.append(_Box(first.top, next_top + next_height - first.top))
        else:
            boxes.append(_Box(next_top, next_height))
    return boxes


def _inside(span: Span, x: float, width: float, box: _Box) -> str:
    size = min(12.0, box.height - 2)
    if not span.label or size < 8 or len(span.label) * size * _LETTER + 8 > width:
        return ""
    ink = "#ffffff" if span.strength > 0.5 else _INK
    return _text(
        span.label, x + width / 2, box.top + box.height / 2 + size * 0.36, size=size, colour=ink, anchor="middle"
    )


def _kinds(spans: Sequence[Span]) -> list[str]:
    return list(dict.fromkeys(span.kind for span in spans))


def _core(lane: Lane) -> str:
    return f"core {lane.core}"


def _where(span: Span) -> str:
    cores = ", ".join(str(lane.core) for lane in span.lanes)
    return f"{span.lanes[0].worker}, core{'s' if len(span.lanes) > 1 else ''} {cores}"


def _mixed(colour: str, strength: float) -> str:
    """Return the colour, paler the weaker, and never so pale that it is lost on white."""
    share = _PALEST + (1 - _PALEST) * min(1.0, max(0.0, strength))
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 + (part - 255) * share):02x}" for part in parts)


def _text(
    text: str, x: float, y: float, *, size: float, colour: str = _INK, anchor: str = "start", weight: int = 400
) -> str:
    if not text:
        return ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:.3g}" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


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
        """Return the seconds since the begin, at most a dozen and evenly apart, with their text."""
        step = _round_step(self.seconds / _MOST_TICKS)
        places = max(0, -math.floor(math.log10(step) + 1e-9))
        return [(n * step, f"{n * step:.{places}f} s") for n in range(int(self.seconds / step + 1e-9) + 1)]


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, ... (or a part of it) that is not below `least`."""
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))

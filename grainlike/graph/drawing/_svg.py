"""Layered drawings of acyclic graphs, as SVG text.

The classic three steps: layers by longest path, the order within a layer by the mean position of neighbours,
and then coordinates. An edge over several layers runs through a point in each, so that it passes between the
nodes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

__all__ = ["NodeShape", "draw"]

_Edge = tuple[int, int]

_ROW = 84.0
_GAP = 26.0
_MARGIN = 24.0
_LETTER = 7.3
_HEIGHT = 40.0
_LONGEST_TEXT = 34
_MOST_BENDS = 20_000
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Look of a node: two lines of text (the second may be empty), a colour, and round ends or corners."""

    title: str
    subtitle: str
    colour: str
    round: bool

    @property
    def width(self) -> float:
        """Pixels, from the length of the text."""
        return 28 + _LETTER * max(len(_cut(self.title)), len(_cut(self.subtitle)), 2)


def draw(shapes: Sequence[NodeShape], edges: Sequence[_Edge]) -> str:
    """Return an SVG document. Edges are (above, below), and `shapes` has every node before those below it."""
    layout = _Layout(shapes, edges)
    layout.arrange()
    drawn_edges = "".join(_path(layout.points(chain)) for chain in layout.chains)
    drawn_nodes = "".join(_node(shape, layout.x[number], layout.y(number)) for number, shape in enumerate(shapes))
    width = max((layout.x[n] + shape.width / 2 for n, shape in enumerate(shapes)), default=0) + _MARGIN
    height = len(layout.layers) * _ROW - (_ROW - _HEIGHT) + 2 * _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="ui-sans-serif, system-ui, sans-serif">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z" fill="#94a3b8"/></marker></defs>'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        f"{drawn_edges}{drawn_nodes}</svg>\n"
    )


class _Layout:
    """Nodes are numbers; those from `len(shapes)` on are the bends of long edges."""

    def __init__(self, shapes: Sequence[NodeShape], edges: Sequence[_Edge]) -> None:
        self.depth = _depths(len(shapes), edges)
        self.widths = [shape.width for shape in shapes]
        bending = sum(self.depth[below] - self.depth[above] - 1 for above, below in edges) <= _MOST_BENDS
        self.chains = [self._chain(edge) if bending else list(edge) for edge in edges]
        self.layers: list[list[int]] = [[] for _ in range(max(self.depth, default=-1) + 1)]
        for number, depth in enumerate(self.depth):
            self.layers[depth].append(number)
        self.above: list[list[int]] = [[] for _ in self.depth]
        self.below: list[list[int]] = [[] for _ in self.depth]
        for chain in self.chains:
            for upper, lower in pairwise(chain):
                self.above[lower].append(upper)
                self.below[upper].append(lower)
        self.x = [0.0] * len(self.depth)

    def _chain(self, edge: _Edge) -> list[int]:
        """Return the edge with a bend in every layer that it crosses."""
        first, last = edge
        bends = []
        for depth in range(self.depth[first] + 1, self.depth[last]):
            bends.append(len(self.depth))
            self.depth.append(depth)
            self.widths.append(0.0)
        return [first, *bends, last]

    def y(self, number: int) -> float:
        return _MARGIN + self.depth[number] * _ROW + _HEIGHT / 2

    def points(self, chain: Sequence[int]) -> list[tuple[float, float]]:
        points = [(self.x[number], self.y(number)) for number in chain]
        points[0] = (points[0][0], points[0][1] + _HEIGHT / 2)
        points[-1] = (points[-1][0], points[-1][1] - _HEIGHT / 2)
        return points

    def arrange(self) -> None:
        for layer in self.layers:
            self._spread(layer, [0.0] * len(layer))
        for sweep in range(_SWEEPS):
            downwards = sweep % 2 == 0
            for layer in self.layers if downwards else reversed(self.layers):
                self._settle(layer, self.above if downwards else self.below)
        for layer in self.layers:
            self._spread(layer, [self._mean(n, self.above[n] + self.below[n]) for n in layer])
        left = min((self.x[n] - width / 2 for n, width in enumerate(self.widths)), default=0.0)
        self.x = [x - left + _MARGIN for x in self.x]

    def _settle(self, layer: list[int], neighbours: list[list[int]]) -> None:
        """Order a layer by where its neighbours are, and move it there."""
        wanted = {number: self._mean(number, neighbours[number]) for number in layer}
        layer.sort(key=wanted.__getitem__)
        self._spread(layer, [wanted[number] for number in layer])

    def _mean(self, number: int, neighbours: Sequence[int]) -> float:
        if not neighbours:
            return self.x[number]
        return sum(self.x[neighbour] for neighbour in neighbours) / len(neighbours)

    def _spread(self, layer: Sequence[int], wanted: Sequence[float]) -> None:
        """Put a layer's nodes near the wanted places, in order and without overlap, and off to neither side."""
        edge = float("-inf")
        for number, place in zip(layer, wanted, strict=True):
            half = self.widths[number] / 2
            self.x[number] = max(place, edge + _GAP + half)
            edge = self.x[number] + half
        drift = sum(self.x[n] - place for n, place in zip(layer, wanted, strict=True)) / max(len(layer), 1)
        for number in layer:
            self.x[number] -= drift


def _depths(count: int, edges: Sequence[_Edge]) -> list[int]:
    depths = [0] * count
    for above, below in sorted(edges, key=lambda edge: edge[1]):
        depths[below] = max(depths[below], depths[above] + 1)
    return depths


def _path(points: Sequence[tuple[float, float]]) -> str:
    (x, y), *rest = points
    d = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        d += f" C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}"
        x, y = to_x, to_y
    return f'<path d="{d}" fill="none" stroke="#94a3b8" stroke-width="1.5" marker-end="url(#arrow)"/>'


def _node(shape: NodeShape, x: float, y: float) -> str:
    radius = _HEIGHT / 2 if shape.round else 8
    title_y = y - 3 if shape.subtitle else y + 5
    subtitle = _text(shape.subtitle, x, y + 13, size=10, colour="#64748b") if shape.subtitle else ""
    return (
        f"<g><title>{escape(shape.title)} {escape(shape.subtitle)}</title>"
        f'<rect x="{x - shape.width / 2:.1f}" y="{y - _HEIGHT / 2:.1f}" width="{shape.width:.1f}" '
        f'height="{_HEIGHT:.0f}" rx="{radius:.0f}" fill="#f8fafc" stroke="{shape.colour}" stroke-width="2"/>'
        f"{_text(shape.title, x, title_y, size=13, colour='#0f172a')}{subtitle}</g>"
    )


def _text(text: str, x: float, y: float, *, size: int, colour: str) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" font-size="{size}" fill="{colour}">'
        f"{escape(_cut(text))}</text>"
    )


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"

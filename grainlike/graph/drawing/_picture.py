"""The graph that a placeholder stands on, as text and as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from grainlike.graph._delayed import Delayed
from grainlike.graph._never_awaited import excuse
from grainlike.graph._node import Node
from grainlike.graph._pending import ordered
from grainlike.graph._state import RunsIn, State
from grainlike.graph._stream import Stream, node_behind
from grainlike.graph.drawing._html import COLOURS
from grainlike.graph.drawing._svg import NodeShape, draw

if TYPE_CHECKING:
    from os import PathLike

__all__ = ["Graph", "GraphNode", "graph"]

_MOST_DRAWN = 2000


@dataclass(frozen=True, slots=True)
class GraphNode:
    """Node of a drawn graph.

    Attributes:
        name: the name of the function.
        state: its state when it was drawn.
        place: where its work is done.
        request: its request as text; empty for none.
    """

    name: str
    state: State
    place: RunsIn
    request: str


class Graph:
    """A snapshot of a placeholder and all that it stands on, dependencies first. `len()` counts nodes.

    A node that has finished has let go of its dependencies: draw before you run.

    Attributes:
        nodes: the nodes.
        edges: pairs of positions in `nodes`: (dependency, dependant).

    Example::

        drawn = graph((half @ Cores(1))(2))
        print(drawn.mermaid(), len(drawn.svg()))
    """

    __slots__ = ("edges", "nodes")

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[int, int], ...]

    def __init__(self, nodes: tuple[GraphNode, ...], edges: tuple[tuple[int, int], ...]) -> None:
        self.nodes = nodes
        self.edges = edges

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.nodes)} nodes and {len(self.edges)} edges>"

    def mermaid(self) -> str:
        """Return the graph as a Mermaid flowchart, one node or edge a line."""
        lines = ["flowchart TD"]
        lines += [_mermaid_node(number, node) for number, node in enumerate(self.nodes)]
        lines += [f"    n{above} --> n{below}" for above, below in self.edges]
        used = sorted({node.state for node in self.nodes})
        lines += [f"    classDef {state.label} stroke:{COLOURS[state]},stroke-width:2px" for state in used]
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """Return the graph as an SVG document, dependencies above what needs them.

        Raises:
            ValueError: it has more than 2 000 nodes, too many to be read.
        """
        if len(self.nodes) > _MOST_DRAWN:
            raise ValueError(f"a picture of {len(self.nodes)} nodes could not be read: draw a part of it, graph(part_)")
        return draw([_shape(node) for node in self.nodes], self.edges)

    def picture(self, path: str | PathLike[str]) -> Path:
        """Write the graph to an SVG file, and return its path.

        Raises:
            ValueError: the name does not end in `.svg`, or the graph is too large.
            OSError: the file cannot be written.

        Example::

            graph(r_).picture("g.svg")
        """
        target = Path(path)
        if target.suffix != ".svg":
            raise ValueError(f"a picture is an SVG file: the name must end in .svg, not {target.name!r}")
        target.write_text(self.svg(), encoding="utf-8")
        return target

    def _repr_svg_(self) -> str | None:
        return self.svg() if len(self.nodes) <= _MOST_DRAWN else None


def graph(placeholder: Delayed[object] | Stream[object]) -> Graph:
    """Return the graph that a placeholder stands on, as it is now. It does not start anything.

    Raises:
        TypeError: it is not a placeholder.

    Example::

        print(graph(r_).mermaid())
    """
    order = ordered([node_behind(placeholder)])
    excuse(order)
    number = {node: position for position, node in enumerate(order)}
    edges = tuple((number[dep], number[node]) for node in order for dep in node.deps)
    return Graph(tuple(map(_described, order)), edges)


def _described(node: Node) -> GraphNode:
    return GraphNode(node.label(), node.state, node.place, str(node.request) if node.request else "")


def _mermaid_node(number: int, node: GraphNode) -> str:
    text = _quoted(node.name) + (f"<br/>{_quoted(node.request)}" if node.request else "")
    opening, closing = ("([", "])") if node.place == RunsIn.INLINE else ("[", "]")
    return f'    n{number}{opening}"{text}"{closing}:::{node.state.label}'


def _quoted(text: str) -> str:
    """Text as Mermaid takes it between quotation marks: its own entity codes, and one line."""
    codes = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(codes.get(letter, letter) for letter in " ".join(text.split()))


def _shape(node: GraphNode) -> NodeShape:
    return NodeShape(node.name, node.request, COLOURS[node.state], node.place == RunsIn.INLINE)

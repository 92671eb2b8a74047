"""`graph(r_)`: nodes and edges, Mermaid and SVG."""

import sys
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import grainlike.graph
from grainlike.graph import Delayed, RunsIn, State, delayed, delayed_value, gather, graph, start
from grainlike.resources import Cores

SVG = "{http://www.w3.org/2000/svg}"


@delayed
async def load(x: Any) -> Any:
    return x


@delayed
def fit(*data: Any) -> Any:
    return data


def diamond() -> Delayed[Any]:
    a_ = (load @ Cores(2))("a")
    return fit(a_.left, a_[0]) + 1


def test_nodes_stand_after_what_they_need() -> None:
    drawn = graph(diamond())
    assert [node.name for node in drawn.nodes] == ["load", ".left", "[0]", "fit", "+"]
    assert set(drawn.edges) == {(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)}
    assert len(drawn) == 5
    assert repr(drawn) == "<Graph of 5 nodes and 5 edges>"
    first = drawn.nodes[0]
    assert (first.state, first.place, first.request) == (State.LAZY, RunsIn.REMOTE, "cores=2")


@pytest.mark.asyncio
async def test_drawing_starts_nothing_and_shows_states(resolver: Any) -> None:
    a_ = start(load(1))
    drawn = graph(a_ + 1)
    assert [node.state for node in drawn.nodes] == [State.RUNNING, State.LAZY]
    assert resolver.calls == ["load"]
    await a_
    assert [node.state for node in graph(a_).nodes] == [State.SUCCEEDED]


def test_mermaid_shows_calls_operations_requests_and_states() -> None:
    assert graph(load(1)[0]).mermaid().splitlines() == [
        "flowchart TD",
        '    n0["load"]:::lazy',
        '    n1(["[0]"]):::lazy',
        "    n0 --> n1",
        "    classDef lazy stroke:#94a3b8,stroke-width:2px",
    ]
    assert 'n0["load<br/>cores=2"]' in graph((load @ Cores(2))(1)).mermaid()


def test_mermaid_text_cannot_break_out() -> None:
    text = graph(delayed(name='a"]\n<b>&#')(len)("")).mermaid()
    assert 'n0["a#quot;] #lt;b#gt;#amp;#35;"]' in text


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    root = ET.fromstring(svg)
    rects = [group.find(f"{SVG}rect") for group in root.iter(f"{SVG}g")]
    return [tuple(float(rect.get(key)) for key in ("x", "y", "width", "height")) for rect in rects]  # type: ignore[misc,union-attr,arg-type]


def test_the_picture_is_svg_with_everything_in_it(tmp_path: Path) -> None:
    path = graph(diamond()).picture(tmp_path / "g.svg")
    text = path.read_text(encoding="utf-8")
    root = ET.fromstring(text)
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert shown == ["load", "cores=2", ".left", "[0]", "fit", "+"]
    assert len([p for p in root.iter(f"{SVG}path") if p.get("marker-end")]) == 5
    assert graph(diamond()).picture(str(path)) == path


def test_layers_go_down_and_nodes_do_not_overlap() -> None:
    rows = [[load(x) for x in range(7)]]
    for _ in range(3):
        rows.append([fit(*rows[-1][x : x + 2], rows[0][-1]) for x in range(6)])
    drawn = graph(gather(rows[-1]))
    placed = boxes(drawn.svg())
    for above, below in drawn.edges:
        assert placed[above][1] + placed[above][3] < placed[below][1]
    for (x, y, w, _), (x2, y2, w2, _) in combinations(placed, 2):
        assert y != y2 or x + w < x2 or x2 + w2 < x
    root = ET.fromstring(drawn.svg())
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for x, y, w, h in placed:
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height


def test_a_long_edge_passes_between_the_nodes_that_it_crosses() -> None:
    a_ = load(1)
    drawn = graph(fit(a_, fit(a_.x).y))
    root = ET.fromstring(drawn.svg())
    long = [p.get("d", "") for p in root.iter(f"{SVG}path") if p.get("marker-end")][drawn.edges.index((0, 4))]
    ends = [tuple(map(float, part.split()[-2:])) for part in long.split(" C")[1:-1]]
    assert len(ends) == 3
    for bend_x, bend_y in ends:
        for x, y, w, h in boxes(drawn.svg()):
            assert not (x <= bend_x <= x + w and y <= bend_y <= y + h)


def test_one_node_is_a_picture_too() -> None:
    assert len(boxes(graph(delayed_value(1)).svg())) == 1
    assert graph(delayed_value(1))._repr_svg_() == graph(delayed_value(1)).svg()


def test_a_picture_that_nobody_could_read_is_refused(tmp_path: Path) -> None:
    drawn = graph(gather(load(x) for x in range(2000)))
    with pytest.raises(ValueError, match=r"2001 nodes.*graph\(part_\)"):
        drawn.picture(tmp_path / "g.svg")
    assert drawn._repr_svg_() is None
    assert len(drawn.mermaid().splitlines()) == 1 + 2001 + 2000 + 1


def test_a_picture_is_an_svg_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.svg, not 'g\.png'"):
        graph(load(1)).picture(tmp_path / "g.png")
    assert list(tmp_path.iterdir()) == []


def test_graph_is_for_placeholders() -> None:
    with pytest.raises(TypeError, match="expected a placeholder"):
        graph(load)  # type: ignore[arg-type]


def test_the_package_answers_as_the_function_of_the_same_name() -> None:
    assert sys.modules["grainlike.graph"] is grainlike.graph
    called: Any = grainlike.graph
    assert len(called(load(1) + 1)) == 2

"""Named graphs, as they are built and drawn; nothing runs here."""

import functools

import pytest

from grainlike.errors import GraphError, ResourceSpecError
from grainlike.graph import NamedGraph, delayed, delayed_value, node_of
from grainlike.graph._function import LEVELS
from grainlike.resources import Cores


def fn(*args: object, **kwargs: object) -> None:
    raise AssertionError("nothing runs here")


async def afn(x: object) -> None:
    raise AssertionError("nothing runs here")


def needs(graph: NamedGraph, name: str) -> tuple[str, ...]:
    return graph._jobs[name].needs


def diamond(**costs: float) -> NamedGraph:
    graph = NamedGraph()
    top_ = graph.add("top", fn, cost=costs.get("top"))
    graph.add("left", fn, top_, cost=costs.get("left"))
    graph.add("right", fn, x=[top_], cost=costs.get("right"))
    graph.add("end", fn, graph["left"], {"key": graph["right"] + 1}, cost=costs.get("end"))
    return graph


def test_it_is_a_mapping_of_names_to_placeholders_in_the_order_of_adding() -> None:
    graph = diamond()
    assert list(graph) == ["top", "left", "right", "end"]
    assert len(graph) == 4
    assert "left" in graph
    assert "nobody" not in graph
    assert graph.get("nobody") is None
    assert graph["left"] is dict(graph)["left"]
    assert graph != diamond()
    assert repr(graph) == "<NamedGraph of 4 jobs and 4 edges>"


def test_placeholders_in_arguments_are_edges_through_containers_and_operators() -> None:
    graph = diamond()
    assert (needs(graph, "top"), needs(graph, "right")) == ((), ("top",))
    assert needs(graph, "end") == ("left", "right")
    foreign_ = (delayed(fn) @ Cores(1))(graph["end"])
    graph.add("last", fn, foreign_, delayed_value(3), after=["left"])
    assert needs(graph, "last") == ("end", "left")


def test_order_only_edges_pass_no_value() -> None:
    graph = NamedGraph()
    graph.add("a", fn)
    graph.add("b", fn)
    graph.add("c", fn, 1, graph["a"], after=["a", "b"])
    node = node_of(graph["c"])
    assert node.deps == (node_of(graph["a"]), node_of(graph["b"]))
    for dep in node.deps:
        dep.succeed(dep)
    assert node.arguments() == ((1, node.deps[0]), {})


def test_any_callable_can_be_a_job() -> None:
    graph = NamedGraph()
    graph.add("async", afn, 1)
    graph.add("partial", functools.partial(fn, 1))
    graph.add("method", graph.critical_path)
    graph.add("delayed", delayed(fn, retries=2), request=Cores(2))
    graph.add("asking", delayed(fn) @ Cores(3), timeout=4)
    asked = {name: node_of(graph[name]).request for name in graph}
    assert asked == {"async": None, "partial": None, "method": None, "delayed": Cores(2), "asking": Cores(3)}
    assert node_of(graph["delayed"]).function.options.retries == 2
    assert node_of(graph["asking"]).function.options.timeout == 4


def test_jobs_that_call_the_same_share_one_function() -> None:
    graph = NamedGraph()
    for n in range(4):
        graph.add(f"plain {n}", fn, n, request=Cores(1))
        graph.add(f"timed {n}", fn, n, request=Cores(1), timeout=5)
    assert len({node_of(r_).function for r_ in graph.values()}) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cost": -1}, "new: cost="),
        ({"cost": float("nan")}, "new: cost="),
        ({"cost": "much"}, "new: cost="),
        ({"timeout": 0}, "new: timeout="),
        ({"timeout": -2.0}, "new: timeout="),
        ({"timeout": True}, "new: timeout="),
        ({"after": ["tops"]}, "no job before it: 'tops'; the nearest is 'top'"),
        ({"after": ["new"]}, "no job before it: 'new'"),
    ],
)
def test_what_is_no_option_is_refused_where_it_is_written(options: dict[str, object], said: str) -> None:
    graph = diamond()
    with pytest.raises(GraphError, match=said):
        graph.add("new", fn, **options)  # type: ignore[arg-type]
    assert "new" not in graph


@pytest.mark.parametrize("meant", ["reqest", "requests", "resources"])
def test_a_request_that_would_go_to_the_function_is_refused(meant: str) -> None:
    def taker(**options: object) -> None:
        """Takes anything."""

    with pytest.raises(TypeError, match=f"a: {meant}= would go to the function: did you mean request="):
        NamedGraph().add("a", taker, **{meant: Cores(1)})


def test_a_misspelt_option_is_refused_unless_the_function_has_a_parameter_of_that_name() -> None:
    def taker(timeuot: float = 0, **options: object) -> None:
        """Takes anything, and one name that is near to an option's."""

    with pytest.raises(TypeError, match="a: costs= would go to the function: did you mean cost="):
        NamedGraph().add("a", taker, costs=3)
    dag = NamedGraph()
    dag.add("a", taker, timeuot=3, colour="red")
    assert node_of(dag["a"]).given == ((), {"timeuot": 3, "colour": "red"})


def test_names_are_given_once_and_looked_up_with_care() -> None:
    graph = diamond()
    with pytest.raises(GraphError, match="'left' already"):
        graph.add("left", fn)
    with pytest.raises(GraphError, match="not empty"):
        graph.add("", fn)
    with pytest.raises(GraphError, match="no job 'lefd'; the nearest is 'left'") as caught:
        graph["lefd"]
    assert isinstance(caught.value, KeyError)
    with pytest.raises(TypeError, match=r"\['left'\]"):
        graph.add("new", fn, after="left")
    with pytest.raises(ResourceSpecError):
        graph.add("new", fn, request=Cores([1, 2]))
    with pytest.raises(TypeError, match="takes a request"):
        graph.add("new", fn, request=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes a function"):
        graph.add("new", 4)  # type: ignore[call-overload]


def nothing() -> None:
    """Nothing."""


def test_from_edges_takes_any_order_and_calls_with_nothing() -> None:
    graph = NamedGraph.from_edges(
        {"c": delayed(nothing), "b": delayed(nothing), "a": delayed(nothing)},
        [("b", "c"), ("a", "b")],
        requests={"a": Cores(1)},
        costs={"a": 2.0},
    )
    assert list(graph) == ["a", "b", "c"]
    assert [needs(graph, name) for name in graph] == [(), ("a",), ("b",)]
    assert node_of(graph["a"]).request == Cores(1)
    assert graph._jobs["a"].cost == 2.0


@pytest.mark.parametrize(
    ("edges", "more", "said"),
    [
        ([("a", "b"), ("b", "c"), ("c", "a")], {}, "wait for each other: '[abc]' -> '[abc]' -> '[abc]' -> '[abc]'"),
        ([("a", "a")], {}, "wait for each other"),
        ([("a", "d")], {}, "an edge names 'd'"),
        ([], {"requests": {"x": Cores(1)}}, "requests= names 'x'"),
        ([], {"costs": {"bb": 1.0}}, "costs= names 'bb', and there is no such function; the nearest is 'b'"),
        (["ab"], {}, "a pair of names"),
    ],
)
def test_from_edges_refuses_cycles_and_unknown_names(edges: list[object], more: dict[str, object], said: str) -> None:
    with pytest.raises(GraphError, match=said):
        NamedGraph.from_edges({"a": fn, "b": fn, "c": fn}, edges, **more)  # type: ignore[arg-type]


def test_the_critical_path_is_the_longest_by_cost() -> None:
    assert NamedGraph().critical_path() == []
    assert diamond().critical_path() == ["top", "left", "end"]
    assert diamond(right=1.5).critical_path() == ["top", "right", "end"]
    graph = diamond(right=1.5)
    graph.add("alone", fn, cost=10)
    assert graph.critical_path() == ["alone"]


def levels(graph: NamedGraph) -> dict[str, int]:
    graph._prioritise()
    return {name: node_of(r_).function.options.level for name, r_ in graph.items()}


def test_r8_costs_set_the_priority_by_critical_path() -> None:
    graph = diamond(right=5.0)
    assert [job.name for job in graph._prioritise()] == ["top", "right", "left", "end"]
    assert levels(graph) == {"top": 3, "right": 2, "left": 1, "end": 0}


def test_a_users_priority_comes_before_the_level() -> None:
    graph = NamedGraph()
    graph.add("long", fn, cost=100)
    graph.add("urgent", delayed(fn, priority=1), cost=1)
    levels(graph)
    ranks = [node_of(graph[name]).function.options.rank for name in ("long", "urgent")]
    assert ranks == [1, LEVELS]


def test_there_are_few_levels_however_many_ranks_there_are() -> None:
    graph = NamedGraph()
    for n in range(1000):
        graph.add(f"{n}", fn, cost=n)
    found = levels(graph)
    assert list(found.values()) == sorted(found.values())
    assert set(found.values()) == set(range(LEVELS))
    assert len({node_of(r_).function for r_ in graph.values()}) == LEVELS


def test_without_costs_all_stay_on_one_level_in_the_order_of_adding() -> None:
    graph = diamond()
    assert [job.name for job in graph._prioritise()] == list(graph)
    assert set(levels(graph).values()) == {0}


def test_a_picture_shows_names_states_and_edges_after_the_end_too(tmp_path) -> None:
    graph = diamond()
    for r_ in graph.values():
        node_of(r_).succeed(None)
    assert graph.mermaid().splitlines()[1:9] == [
        '    n0["top"]:::succeeded',
        '    n1["left"]:::succeeded',
        '    n2["right"]:::succeeded',
        '    n3["end"]:::succeeded',
        "    n0 --> n1",
        "    n0 --> n2",
        "    n1 --> n3",
        "    n2 --> n3",
    ]
    text = graph.picture(tmp_path / "dag.svg").read_text()
    assert all(f"<title>{name} </title>" in text for name in graph)
    assert graph._repr_svg_() == text

"""Into which parts a graph is cut: what holds for every graph, and what each strategy is for."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grainlike.errors import GraphError
from grainlike.graph import Partition
from grainlike.graph.partitioning._kernighan_lin import Cut
from grainlike.graph.partitioning._slicing import depths, evenly

STRATEGIES = ["level_based", "balanced", "communication_min"]
EPSILON = 1e-9

Graph = tuple[list[list[int]], list[float]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Jobs in an order in which they could run, each with what it needs, and what they cost."""
    count = draw(st.integers(1, 40))
    near = draw(st.integers(1, 40))
    needs: list[list[int]] = [
        draw(st.lists(st.integers(max(0, job - near), job - 1), max_size=4)) if job else [] for job in range(count)
    ]
    cost = st.sampled_from([0.0, 0.5, 1.0, 1.0, 3.0, 40.0])
    return needs, draw(st.lists(cost, min_size=count, max_size=count))


def cut(needs: list[list[int]], parts: list[int]) -> int:
    return sum(parts[need] != parts[job] for job, before in enumerate(needs) for need in set(before))


def loads(parts: list[int], costs: list[float]) -> list[float]:
    return [sum(cost for part, cost in zip(parts, costs, strict=True) if part == one) for one in range(max(parts) + 1)]


def chains(count: int, length: int) -> list[list[int]]:
    """Chains side by side, their jobs numbered across: a good cut is not one of consecutive numbers."""
    return [[job - count] if job >= count else [] for job in range(count * length)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=50, deadline=None)
@given(graph=graphs(), k=st.integers(1, 9))
def test_each_job_is_in_one_part_and_no_part_waits_for_one_that_waits_for_it(strategy, graph, k):
    needs, costs = graph
    parts = Partition(k, strategy).parts(needs, costs)
    assert len(parts) == len(needs)
    assert set(parts) == set(range(min(k, len(needs)))), "parts are numbered without gaps, and none is empty"
    for job, before in enumerate(needs):
        assert all(parts[need] <= parts[job] for need in before)


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), k=st.integers(1, 9))
def test_a_balanced_part_costs_at_most_the_mean_and_the_costliest_job(graph, k):
    needs, costs = graph
    parts = Partition(k, "balanced").parts(needs, costs)
    bound = sum(costs) / min(k, len(needs)) + max(costs)
    assert max(loads(parts, costs)) <= bound + EPSILON


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), k=st.integers(1, 9), spread=st.sampled_from([0.0, 0.1, 0.3, 2.0]), passes=st.integers(0, 3))
def test_moving_jobs_never_cuts_more_edges_and_keeps_the_imbalance(graph, k, spread, passes):
    needs, costs = graph
    start = Partition(k, "balanced").parts(needs, costs)
    parts = Partition(k, "communication_min", max_iterations=passes, max_imbalance=spread).parts(needs, costs)
    assert cut(needs, parts) <= cut(needs, start)
    allowed = max((1 + spread) * sum(costs) / len(set(start)), *loads(start, costs), 0.0)
    assert max(loads(parts, costs)) <= allowed + EPSILON
    if passes == 0:
        assert parts == start


@settings(max_examples=50, deadline=None)
@given(graph=graphs(), k=st.integers(1, 9))
def test_more_passes_are_never_worse(graph, k):
    needs, costs = graph
    cuts = [cut(needs, Partition(k, max_iterations=passes).parts(needs, costs)) for passes in (0, 1, 2, 20)]
    assert all(later <= earlier for earlier, later in pairwise(cuts))


def test_moving_jobs_finds_what_slices_cut_apart():
    # Two clusters, and one job in the middle of the line whose neighbours are all in the second of them.
    needs = [[], [0], [1], [], [3], [3, 4], [5]]
    costs = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]
    start = Partition(2, "balanced").parts(needs, costs)
    best = Partition(2, "communication_min").parts(needs, costs)
    assert (cut(needs, start), cut(needs, best)) == (2, 0)


def test_a_pass_goes_through_moves_that_lose_to_reach_one_that_wins():
    # A knot of four, of which each is needed by two of the other part: the first to go loses an edge, all win eight.
    knot = [[], [0], [0, 1], [0, 1, 2]]
    line = [[number // 2, *range(max(4, number + 2), number + 4)] for number in range(8)]
    needs = [*knot, *line]
    parts = [0] * 4 + [1] * 8 + [0]
    needs.append([])  # so that its part is not left empty
    assert Cut(needs, [1.0] * 13, parts, 2, spread=1.0).improve(1) == 8
    assert parts == [1] * 12 + [0]


@pytest.mark.parametrize("seed", range(40))
def test_dense_graphs_in_many_parts_stay_in_order_and_get_better(seed):
    dice = Random(seed)
    needs: list[list[int]] = [
        dice.sample(range(max(0, job - 12), job), min(job, dice.randrange(6))) for job in range(80)
    ]
    costs = [dice.choice([0.1, 1.0, 2.0]) for _ in needs]
    start = Partition(8, "balanced").parts(needs, costs)
    parts = list(start)
    before = cut(needs, parts)
    told = [Cut(needs, costs, parts, 8, spread=1.0).improve(1) for _ in range(6)]
    assert sum(told) == before - cut(needs, parts)
    assert all(parts[need] <= parts[job] for job, before in enumerate(needs) for need in before)


@pytest.mark.parametrize("strategy", ["balanced", "communication_min"])
def test_chains_side_by_side_are_parts_that_need_nothing_of_each_other(strategy):
    needs = chains(4, 6)
    parts = Partition(4, strategy).parts(needs, [1.0] * 24)
    assert cut(needs, parts) == 0
    assert sorted(loads(parts, [1.0] * 24)) == [6.0] * 4


def test_levels_are_split_while_there_are_parts_to_spare():
    needs = [[], [0], [0], [0], [0], [1, 2, 3, 4]]
    assert Partition(4, "level_based").parts(needs, [1.0] * 6) == [0, 1, 1, 2, 2, 3]
    assert Partition(6, "level_based").parts(needs, [1.0] * 6) == [0, 1, 2, 3, 4, 5]


def test_neighbouring_levels_are_one_part_where_parts_are_few():
    needs = chains(3, 4)
    parts = Partition(2, "level_based").parts(needs, [1.0] * 12)
    assert [parts[job] for job in range(12)] == [0] * 6 + [1] * 6
    assert depths(needs) == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


@settings(max_examples=50, deadline=None)
@given(weights=st.lists(st.floats(0, 100), min_size=1, max_size=50), data=st.data())
def test_slices_are_never_empty_and_follow_each_other(weights, data):
    k = data.draw(st.integers(1, len(weights)))
    split_by_bytes = evenly(weights, k)
    assert split_by_bytes == sorted(split_by_bytes)
    assert set(split_by_bytes) == set(range(k))


def test_a_graph_of_ten_thousand_is_cut_without_recursion_or_squares():
    needs = chains(100, 100)
    for strategy in STRATEGIES:
        assert len(set(Partition(8, strategy).parts(needs, [1.0] * 10_000))) == 8


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"strategy": "levelbased"}, "the nearest is 'level_based'"),
        ({"strategy": None}, "strategy= is one of 'level_based'"),
        ({"k": 0}, "k= is a whole number from 1 on, not 0"),
        ({"k": 2.0}, "k= is a whole number"),
        ({"max_iterations": -1}, "max_iterations="),
        ({"max_imbalance": -0.1}, "max_imbalance="),
        ({"max_imbalance": float("nan")}, "max_imbalance="),
    ],
)
def test_what_is_wrong_is_refused_where_it_is_written(wrong, said):
    with pytest.raises(GraphError, match=said):
        Partition(**{"k": 4, **wrong})

"""Nodes: their outcome, the walk over what is pending, and graphs of 100 000."""

import gc
import sys
import tracemalloc
import weakref
from typing import Any

import pytest

from grainlike.errors import JobCancelledError
from grainlike.graph import Delayed, Node, RunsIn, State, delayed, delayed_value, gather, node_of, pending_nodes
from grainlike.resources import Cores

MANY = 100_000


@delayed
def add(a: int, b: int = 1) -> int:
    return a + b


class Value:
    """Something that can be watched."""


def chain(length: int) -> Delayed[Any]:
    r_: Delayed[Any] = add(0)
    for _ in range(length):
        r_ = r_ + 1
    return r_


def test_a_node_starts_lazy_and_free() -> None:
    node = node_of((add @ Cores(1))(1))
    assert (node.state, node.finished, node.value, node.error) == (State.LAZY, False, None, None)
    assert (node.owner, node.dependents, node.record, node.waiters) == (None, None, None, None)
    assert (node.missing, node.interest, node.deps) == (0, 0, ())
    with pytest.raises(RuntimeError, match="not finished"):
        node.result()


def test_whoever_takes_the_arguments_has_them_alone() -> None:
    value = Value()
    alive = weakref.ref(value)
    node = node_of((add @ Cores(1))(value, b=2))
    assert node.arguments() == node.given == ((value,), {"b": 2})
    taken = node.take_arguments()
    assert taken == ((value,), {"b": 2})
    assert node.given == ((), {})
    del taken, value
    assert alive() is None
    assert (node.finished, node.value, node.error) == (False, None, None)


def test_a_taken_argument_is_the_value_of_what_it_needs() -> None:
    first_ = delayed_value(5)
    assert node_of((add @ Cores(1))(first_, b=first_)).take_arguments() == ((5,), {"b": 5})


@pytest.mark.parametrize(
    ("finish", "state"),
    [
        (lambda node: node.succeed(1), State.SUCCEEDED),
        (lambda node: node.fail(KeyError(1)), State.FAILED),
        (lambda node: node.cancel(), State.CANCELLED),
    ],
)
def test_the_outcome_is_set_once(finish: Any, state: State) -> None:
    node = node_of(add(1))
    assert finish(node) is True
    value, error = node.value, node.error
    assert (node.succeed(2), node.fail(OSError()), node.cancel()) == (False, False, False)
    assert (node.state, node.value, node.error) == (state, value, error)
    assert node.finished


def test_the_outcome_of_a_cancelled_node_is_an_error() -> None:
    node = node_of(add(1))
    node.cancel()
    assert isinstance(node.error, JobCancelledError)
    with pytest.raises(JobCancelledError, match="add was cancelled"):
        node.result()


def test_none_is_a_value() -> None:
    node = node_of(delayed_value(None))
    assert (node.finished, node.result(), node.error) == (True, None, None)


def test_a_finished_node_lets_go_of_what_it_needed() -> None:
    value = Value()
    seen = weakref.ref(value)
    node = node_of(add(delayed_value(value), b=[delayed_value(1)]))  # type: ignore[call-overload]
    del value
    assert seen() is not None
    node.succeed(0)
    assert seen() is None
    assert node.deps == ()


def test_operations_apply_themselves() -> None:
    a_, b_ = delayed_value(13), delayed_value(4)
    for r_, expected in (
        (a_ - b_, 9),
        (a_ - 4, 9),
        (20 - a_, 7),
        (a_[b_], None),
        (gather(a_, [b_]), [13, [4]]),
        (delayed_value("a b").split(sep=delayed_value(" ")).index("b"), 1),
    ):
        if expected is not None:
            for node in pending_nodes([node_of(r_)])[0]:
                assert node.place == RunsIn.INLINE
                node.succeed(node.apply())
            assert node.value == expected


def test_pending_nodes_come_after_what_they_need_and_once() -> None:
    a_, b_ = add(1), add(2)
    c_ = a_ + b_
    d_ = add(c_, a_)
    new, bound = pending_nodes([node_of(c_), node_of(d_), node_of(d_)])
    assert new == [node_of(x_) for x_ in (a_, b_, c_, d_)]
    assert bound == []


def test_pending_nodes_keep_the_order_of_the_arguments() -> None:
    leaves = [add(x) for x in range(5)]
    root = node_of(gather(leaves))
    assert pending_nodes([root])[0] == [*map(node_of, leaves), root]
    roots = [node_of(add(x)) for x in range(5)]
    assert pending_nodes(roots)[0] == roots
    assert pending_nodes([*roots, root, roots[0]])[0] == [*roots, *map(node_of, leaves), root]


def test_pending_nodes_stop_at_the_finished_and_at_the_bound() -> None:
    hidden_ = add(0)
    done_, owned_ = add(hidden_), add(hidden_)
    node_of(done_).succeed(1)
    node_of(owned_).owner = object()  # type: ignore[assignment]
    root = node_of(gather(done_, owned_))
    assert pending_nodes([root]) == ([root], [node_of(owned_)])
    assert pending_nodes([node_of(done_)]) == ([], [])


def test_a_placeholder_used_twice_is_one_dependency() -> None:
    r_ = add(1)
    for twice_ in (r_ + r_, add(r_, r_), gather(r_, [r_])):
        assert node_of(twice_).deps == (node_of(r_),)


def test_a_node_shared_on_many_ways_is_walked_once() -> None:
    r_: Delayed[Any] = add(1)
    for _ in range(200):  # 2 ** 200 ways
        r_ = add(r_, r_[0])
    assert len(pending_nodes([node_of(r_)])[0]) == 401


def evaluate(root: Node) -> Any:
    for node in pending_nodes([root])[0]:
        node.succeed(node.apply() if node.place == RunsIn.INLINE else node.function.callable(*node.arguments()[0]))
    return root.value


def test_g13_a_chain_of_100_000_operators() -> None:
    assert sys.getrecursionlimit() < MANY
    r_ = chain(MANY)
    assert len(pending_nodes([node_of(r_)])[0]) == MANY + 1
    assert evaluate(node_of(r_)) == MANY + 1


def test_g13_a_tree_of_100_000_calls() -> None:
    level = [add(1, 0) for _ in range(MANY // 2)]
    while len(level) > 1:
        level = [add(a_, b_) for a_, b_ in zip(level[::2], level[1::2], strict=False)] + level[len(level) & ~1 :]
    assert evaluate(node_of(level[0])) == MANY // 2


def test_g13_100_000_items_gathered() -> None:
    assert evaluate(node_of(gather(add(x, 0) for x in range(MANY)))) == list(range(MANY))


@pytest.mark.parametrize("build", [lambda: chain(MANY), lambda: gather([chain(MANY)])])
def test_g13_a_long_chain_is_freed_whole_and_without_recursion(build: Any) -> None:
    probe = Value()
    seen = weakref.ref(probe)
    r_ = build() + delayed_value(probe)
    del probe
    assert seen() is not None
    del r_
    assert seen() is None, "a graph has no cycles: it goes without the collector"


def test_g13_a_long_chain_in_a_cycle_is_collected() -> None:
    probe = Value()
    seen = weakref.ref(probe)
    r_ = chain(MANY) + delayed_value(probe)
    loop: list[Any] = [r_]
    loop.append(loop)
    del probe, r_, loop
    gc.collect()
    assert seen() is None


def test_a_queued_call_costs_little_memory() -> None:
    fn = add @ Cores(1)
    before_count = 10_000
    held: list[Any] = [None] * before_count
    tracemalloc.start()
    try:
        for index in range(before_count):
            held[index] = fn(1)
        size = tracemalloc.get_traced_memory()[0] / before_count
    finally:
        tracemalloc.stop()
    assert size < 300, f"{size:.0f} bytes a call"


def test_nodes_and_placeholders_have_no_dictionaries() -> None:
    r_ = add(1)
    for thing in (r_, node_of(r_), r_.x, gather(r_, [r_])):
        with pytest.raises((AttributeError, TypeError)):
            object.__getattribute__(thing, "__dict__")
    assert weakref.ref(r_)() is r_

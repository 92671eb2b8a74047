"""Placeholders among the arguments of a call, and inside containers."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import pytest

from grainlike.errors import GraphError
from grainlike.graph import delayed, delayed_value, node_of


@delayed
def show(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


@delayed
async def give(x: Any) -> Any:
    return x


class Point(NamedTuple):
    x: Any
    y: Any = 0


Pair = namedtuple("Pair", "left right")  # noqa: PYI024


@dataclass
class Job:
    source: Any
    size: int = 1
    kind: ClassVar[str] = "job"
    notes: list[str] = field(default_factory=list, init=False)


@dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    b: int = 2


@pytest.mark.asyncio
async def test_arguments_by_place_and_name_are_dependencies(resolver: Any) -> None:
    assert await show(1, give(2), key=give(3), other="x") == ((1, 2), {"key": 3, "other": "x"})
    assert await show(key=give(3)) == ((), {"key": 3})


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda a, b: [a, 1, b], [1, 1, 2]),
        (lambda a, b: (a, b), (1, 2)),
        (lambda a, b: {a, b, 3}, {1, 2, 3}),
        (lambda a, b: {"a": a, b: "b", "c": 3}, {"a": 1, 2: "b", "c": 3}),
        (lambda a, b: {"k": [{"deep": (a, [b])}]}, {"k": [{"deep": (1, [2])}]}),
        (lambda a, b: slice(a, b), slice(1, 2)),
        (lambda a, b: Point(a, [b]), Point(1, [2])),
        (lambda a, b: Pair(left=a, right=b), Pair(1, 2)),
        (lambda a, b: Job([a, b]), Job([1, 2])),
        (lambda a, b: Frozen(a), Frozen(1)),
    ],
)
async def test_containers_are_rebuilt_around_the_values(resolver: Any, made: Any, expected: Any) -> None:
    container = made(give(1), give(2))
    value = await give(container)
    assert value == expected
    assert type(value) is type(container)
    assert value is not container


@pytest.mark.asyncio
async def test_a_dataclass_keeps_what_its_initialiser_did(resolver: Any) -> None:
    job = Job(give(1))
    job.notes.append("kept")
    value = await give(job)
    assert (value.source, value.notes, Job.kind) == (1, ["kept"], "job")
    assert "kind" not in vars(value)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "container", [[1, [2]], {"a": [1]}, (1, 2), {1}, Point(1), Job(1), Frozen([1]), slice(1, 2)], ids=repr
)
async def test_a_container_without_placeholders_is_passed_as_it_is(resolver: Any, container: Any) -> None:
    assert await give(container) is container
    (args, _) = await show(container, give(1))
    assert args[0] is container


@pytest.mark.asyncio
async def test_only_the_containers_on_the_way_are_copied(resolver: Any) -> None:
    plain = [1]
    value = await give([plain, [give(2)]])
    assert value[0] is plain


@pytest.mark.asyncio
async def test_a_container_passed_twice_stays_one_object(resolver: Any) -> None:
    shared = [give(1)]
    (args, kwargs) = await show(shared, {"again": shared}, key=shared)
    assert args[0] is args[1]["again"] is kwargs["key"]
    assert args[0] == [1]


@pytest.mark.asyncio
async def test_a_container_counts_as_it_was_at_the_call(resolver: Any) -> None:
    items = [give(1)]
    job = Job(items, size=1)
    r_, s_ = give(items), give(job)
    items.append(2)
    job.size = 5
    job.extra = 1
    assert await r_ == [1]
    assert vars(await s_) == {"source": [1], "size": 1, "notes": []}


@pytest.mark.asyncio
async def test_dependencies_are_distinct_and_in_order(resolver: Any) -> None:
    a_, b_, c_ = give(1), give(2), give(3)
    node = node_of(show(b_, [a_, b_], key={"c": c_, "a": a_}))
    assert node.deps == (node_of(b_), node_of(a_), node_of(c_))


@pytest.mark.parametrize(
    "hidden",
    [lambda r: lambda: r, lambda r: OrderedDict(a=r), lambda r: frozenset([r]), lambda r: type("L", (list,), {})([r])],
)
def test_other_objects_are_not_searched(hidden: Any) -> None:
    item = hidden(delayed_value(1))
    node = node_of(show(item))
    assert node.deps == ()
    assert node.arguments()[0][0] is item


def test_a_container_may_contain_itself_but_not_with_a_placeholder() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert node_of(show(loop)).arguments()[0][0] is loop
    loop.append(give(1))
    with pytest.raises(GraphError, match="list with a placeholder inside contains itself"):
        show(loop)


def test_deep_and_wide_containers_are_searched_without_recursion() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert node_of(show(deep)).arguments()[0][0] is deep
    assert node_of(show([*range(100_000), "a", None])).deps == ()


def test_finished_placeholders_are_dependencies_too() -> None:
    r_ = delayed_value([7])
    node = node_of(show(r_, k=[r_]))
    assert node.deps == (node_of(r_),)
    assert node.arguments() == (([7],), {"k": [[7]]})


def test_a_dataclass_field_that_was_never_set_stays_unset() -> None:
    job = Job(delayed_value(1))
    del job.notes
    value = node_of(show(job)).arguments()[0][0]
    assert value.source == 1
    assert not hasattr(value, "notes")

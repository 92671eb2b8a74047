"""Streams as the user writes them: which functions make them, what they refuse, and who may read them."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from grainlike.errors import SerializationError
from grainlike.graph import (
    DelayedFn,
    Node,
    RunsIn,
    Stream,
    StreamFn,
    StreamNode,
    cancel,
    delayed,
    delayed_value,
    gather,
    graph,
    info,
    node_behind,
    node_of,
    register,
)
from grainlike.graph import _node as door
from grainlike.resources import Cores, Memory


async def count(n: int, start: int = 0) -> AsyncIterator[int]:
    """Numbers."""
    for i in range(start, start + n):
        yield i


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start

    async def __call__(self, n: int) -> AsyncIterator[int]:
        async for i in count(n, self.start):
            yield i

    @delayed
    async def method(self, n: int) -> AsyncIterator[int]:
        async for i in count(n, self.start):
            yield i


@pytest.mark.parametrize(
    "fn",
    [count, functools.partial(count, start=1), Counter(2), Counter(3).__call__],
    ids=["function", "partial", "callable", "method"],
)
def test_every_kind_of_generator_function_makes_streams(fn: Any) -> None:
    made = delayed(fn)
    assert type(made) is StreamFn
    assert made.function.is_stream
    assert made.function.is_async
    assert type(made(3)) is Stream
    assert type((made @ Cores(1))(3)) is Stream


def test_a_function_that_gives_values_is_no_stream() -> None:
    async def value() -> int:
        return 1

    assert type(delayed(value)) is DelayedFn
    assert not delayed(value).function.is_stream


def test_a_request_makes_a_new_function_and_places_its_streams() -> None:
    fn = delayed(count)
    wide = fn @ (Cores(2) & Memory("1G"))
    assert (fn.request, node_behind(fn(1)).place) == (None, RunsIn.LOCAL)
    node = node_behind(wide(1))
    assert (node.request, node.place) == (Cores(2) & Memory("1G"), RunsIn.REMOTE)
    assert (wide.__name__, wide.__doc__) == ("count", "Numbers.")
    with pytest.raises(TypeError, match=r"write `fn @ \(a & b\)`"):
        fn @ Cores(1) & Memory("1G")


def test_a_method_binds_and_a_placeholder_is_a_dependency() -> None:
    counter, n_ = Counter(5), delayed_value(3)
    node = node_behind(counter.method(n_))
    assert node.deps == (node_of(n_),)
    assert node.arguments() == ((counter, 3), {})


def test_options_hold_and_nout_is_refused() -> None:
    assert delayed(count, retries=2, timeout=3.0, name="numbers").function.options.retries == 2
    with pytest.raises(TypeError, match="count is a stream, which has no nout"):
        delayed(count, nout=2)  # type: ignore[call-overload]


def test_a_plain_generator_function_is_refused_with_words() -> None:
    def plain() -> Iterator[int]:
        yield 1

    with pytest.raises(TypeError, match="write `async def` with `yield`"):
        delayed(plain)
    with pytest.raises(TypeError, match="write `async def` with `yield`"):
        delayed(functools.partial(plain))


def test_what_only_values_can_do_is_refused_with_words() -> None:
    stream: Any = delayed(count)(3)
    with pytest.raises(TypeError, match="count is a stream, which has no one value: write `async for"):
        stream.__await__()
    with pytest.raises(SerializationError, match="the stream of count cannot travel"):
        pickle.dumps(stream)
    with pytest.raises(TypeError, match="not Stream"):
        gather(stream)
    with pytest.raises(TypeError, match="delayed takes a function, not Stream"):
        delayed(stream)


def test_questions_take_streams() -> None:
    stream = (delayed(count) @ Cores(1))(3)
    assert repr(stream) == "<Stream count(3): lazy, cores=1>"
    assert (info(stream).name, info(stream).state) == ("count", "lazy")
    assert [node.name for node in graph(stream).nodes] == ["count"]
    assert cancel(stream)
    assert info(stream).state == "cancelled"
    assert copy.copy(stream) is copy.deepcopy(stream) is stream


class Owner:
    """A resolver that only takes note."""

    def __init__(self) -> None:
        self.dropped: list[Node] = []

    def read(self, node: StreamNode) -> AsyncIterator[int]:
        return count(2)

    def drop(self, node: Node) -> None:
        self.dropped.append(node)


@pytest.fixture
def owner(monkeypatch: pytest.MonkeyPatch) -> Owner:
    owner = Owner()
    monkeypatch.setattr(door, "_finders", [])
    register(lambda _: owner)  # type: ignore[arg-type, return-value]
    return owner


@pytest.mark.asyncio
async def test_a_stream_is_read_once(owner: Owner) -> None:
    stream = delayed(count)(2)
    assert [item async for item in stream] == [0, 1]
    with pytest.raises(RuntimeError, match="the stream of count has a reader, or had one: it can be read once"):
        aiter(stream)
    assert not owner.dropped


@pytest.mark.parametrize(("started", "read", "dropped"), [(False, False, 0), (True, False, 1), (True, True, 0)])
def test_a_started_stream_that_nobody_can_read_any_more_is_dropped(
    owner: Owner, started: bool, read: bool, dropped: int
) -> None:
    stream = delayed(count)(2)
    if started:
        node_behind(stream).owner = owner  # type: ignore[assignment]
    if read:
        aiter(stream)
    del stream
    gc.collect()
    assert len(owner.dropped) == dropped

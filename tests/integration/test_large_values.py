"""Large values stay at workers: whoever needs their bytes in the program has them, by whatever way it asks."""

from __future__ import annotations

import contextlib
import gc
import operator
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from functools import partial, reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import sharing
from counting import no_collector
from limits import LIMIT_S
from pool_option_calls import make_large_plain

from grainlike import (
    Callbacks,
    Cores,
    Dag,
    Executor,
    Partition,
    SerializationError,
    amap,
    as_completed,
    connect,
    delayed,
    gather,
    info,
    result,
    start,
    wait,
)
from grainlike.adapters import GrainlikePool

pytestmark = pytest.mark.anyio

Opened = Callable[[int], AbstractAsyncContextManager[Executor]]

anyio_backend, no_leaks = sharing.anyio_backend, sharing.no_leaks

SIZE = 300_000


@contextlib.asynccontextmanager
async def embedded(cores: int) -> AsyncIterator[Executor]:
    """An executor with a worker of its own."""
    async with Executor(local=Cores(cores)) as executor:
        yield executor


@contextlib.asynccontextmanager
async def connected(cores: int) -> AsyncIterator[Executor]:
    """A client of such an executor."""
    async with Executor(local=Cores(cores), listen="tcp://127.0.0.1:0") as head, connect(head.address) as client:
        yield client


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A state directory of our own."""
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="module", params=[embedded, connected])
async def executor(request: pytest.FixtureRequest, anyio_backend: object, state: None) -> AsyncIterator[Executor]:
    """An executor with two cores for all tests of this file, its own or those of a head elsewhere."""
    async with request.param(2) as executor:
        yield executor


@delayed
def make(number: int) -> bytes:
    return bytes([number]) * SIZE


@delayed
async def make_here(number: int) -> bytes:
    return bytes([number]) * SIZE


@delayed
def last(value: bytes) -> int:
    return value[-1]


@delayed
def both(one: bytes, two: bytes) -> bytes:
    return one[: SIZE // 2] + two[SIZE // 2 :]


job = make @ Cores(1)


def fetched(placeholder: object) -> bool:
    return not placeholder._node.stays  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", [make, make_here])
async def test_operators_indices_and_calls_without_resources_get_the_bytes(executor: Executor, function) -> None:
    a_, b_ = (function @ Cores(1))(1), (function @ Cores(1))(2)
    await wait(a_, b_)
    assert not fetched(a_)
    assert await (a_ + b_)[SIZE - 1 : SIZE + 1] == b"\1\2"
    assert await last(a_) == await (last @ Cores(1))(b_) - 1 == 1
    assert await a_.count(1) == SIZE
    assert await reduce(operator.add, [job(i)[0] for i in range(4)]) == 6


async def test_a_map_gives_values_in_order_and_each_as_it_comes(executor: Executor) -> None:
    assert [y[0] async for y in amap(job, range(5))] == list(range(5))
    assert sorted([y[0] async for y in amap(job, range(5), ordered=False)]) == list(range(5))


async def test_as_completed_fetches_nothing_until_one_is_awaited(executor: Executor) -> None:
    calls = [job(i) for i in range(4)]
    found = set()
    async for r_ in as_completed(calls):
        assert not fetched(r_)
        found.add((await r_)[0])
    assert found == {0, 1, 2, 3}


async def test_a_gather_with_errors_has_values_and_errors(executor: Executor) -> None:
    @delayed
    def fails() -> bytes:
        raise ValueError("told")

    good, bad = await gather(job(1), (fails @ Cores(1))(), return_exceptions=True)
    assert good == bytes([1]) * SIZE
    assert isinstance(bad, ValueError)


async def test_of_a_gather_only_those_are_fetched_that_are_asked_for(executor: Executor) -> None:
    calls = [job(i) for i in range(6)]
    all_ = gather(calls)
    assert (await all_[3])[0] == 3
    assert await all_[-1].count(5) == SIZE
    index_ = delayed(int)(1)
    assert [value[0] for value in await all_[index_:3:index_]] == [1, 2]
    here = [r_._node.reference.fetched for r_ in calls]  # type: ignore[union-attr]
    assert here == [False, True, True, True, False, True]
    with pytest.raises(IndexError, match="list index out of range"):
        await all_[6]
    with pytest.raises(TypeError, match="list indices must be integers"):
        await all_["a"]


async def test_items_of_a_gather_are_references_for_jobs(executor: Executor) -> None:
    a_, b_, small_ = gather(job(1), job(2), (last @ Cores(1))(job(3)))
    assert await (both @ Cores(1))(a_, b_) == bytes([1]) * (SIZE // 2) + bytes([2]) * (SIZE // 2)
    assert [fetched(r_) for r_ in (a_, b_)] == [False, False]
    assert info(a_).size > SIZE  # type: ignore[operator]
    assert info(a_).where == ("local",)
    assert await small_ == 3
    inner_ = gather(gather(a_, b_), 7)[0]
    assert await (last @ Cores(1))(inner_[1]) == 2
    assert not fetched(b_)
    assert [value[0] for value in await inner_] == [1, 2]
    assert await (last @ Cores(1))(gather(a_, b_)[0]) == 1


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("opened", [embedded, connected])
def test_items_of_a_gather_that_was_fetched_are_had_without_an_executor(
    opened: Opened, anyio_backend: tuple[str, dict[str, Any]]
) -> None:
    async def fetch_and_ask() -> None:
        async with opened(2):
            all_ = gather(job(1), job(2))
            values = await all_
            assert await all_[1] is values[1]
            assert await (last @ Cores(1))(all_[0]) == 1
        one_ = all_[0]
        assert await one_ is values[0]
        assert (await one_)[-1] == await one_[-1] == 1

    name, options = anyio_backend
    with ThreadPoolExecutor(1) as thread:  # for a loop in which the executor of the other tests is not
        thread.submit(partial(anyio.run, fetch_and_ask, backend=name, backend_options=options)).result()


async def test_an_error_among_the_values_of_a_gather_is_an_item(executor: Executor) -> None:
    @delayed
    def fails() -> bytes:
        raise ValueError("told")

    good_, bad_ = gather(job(1), (fails @ Cores(1))(), return_exceptions=True)
    assert isinstance(await bad_, ValueError)
    await wait(good_)
    assert not fetched(good_)
    assert (await good_)[0] == 1


async def test_a_blocked_thread_gets_the_value(executor: Executor) -> None:
    a_ = job(3)
    await wait(a_)

    @delayed
    def in_a_thread() -> int:
        return result(a_)[0] + result(job(4))[0]

    assert await in_a_thread() == 7


async def test_containers_that_look_at_values_have_them(executor: Executor, tmp_path: Path) -> None:
    @delayed
    def of_set(values: set[bytes]) -> int:
        return len(values)

    a_, b_ = job(1), job(1)
    assert await (of_set @ Cores(1))({a_, b_}) == 1


async def test_a_named_graph_reports_what_nobody_else_needs(executor: Executor, tmp_path: Path) -> None:
    told: dict[str, object] = {}
    dag = Dag()
    dag.add("a", make, 1, request=Cores(1))
    dag.add("b", make, 2, request=Cores(1))
    dag.add("both", both, dag["a"], dag["b"], request=Cores(1))
    report = await dag.run(callbacks=Callbacks(on_complete=told.__setitem__))
    assert (report.succeeded, report["a"].value, told["a"]) == (3, None, None)
    assert report["both"].value == told["both"] == bytes([1]) * (SIZE // 2) + bytes([2]) * (SIZE // 2)
    assert (await dag["a"])[0] == 1


async def take_from_a_map() -> object:
    (value,) = [value async for value in amap(delayed(make_large_plain) @ Cores(1), [1])]
    return value


async def take_from_a_named_graph() -> object:
    dag = Dag()
    dag.add("made", make_large_plain, request=Cores(1))
    return (await dag.run())["made"].value


async def await_one() -> object:
    return await (delayed(make_large_plain) @ Cores(1))()


async def await_one_that_is_here() -> object:
    a_ = (delayed(make_large_plain) @ Cores(1))()
    both_ = gather(a_, a_)
    await both_
    return await a_


@pytest.mark.parametrize("take", [take_from_a_map, take_from_a_named_graph, await_one, await_one_that_is_here])
async def test_a_value_is_gone_with_what_brought_it_without_the_collector(executor: Executor, take) -> None:
    gone = anyio.Event()
    with no_collector():
        watched = weakref.ref(await take(), lambda _: gone.set())
        with anyio.move_on_after(LIMIT_S):
            await gone.wait()
        assert gone.is_set(), gc.get_referrers(watched())


async def test_parts_of_a_graph_pass_large_values_on(executor: Executor) -> None:
    dag = Dag()
    for name, number in (("a", 1), ("b", 2)):
        dag.add(name, make, number, request=Cores(1))
    dag.add("both", both, dag["a"], dag["b"], request=Cores(1))
    dag.add("last", last, dag["both"], request=Cores(1))
    report = await dag.run(partition=Partition(k=2))
    assert (report.succeeded, report["last"].value) == (4, 2)


async def test_a_part_gets_the_bytes_of_a_call_before_it(executor: Executor) -> None:
    a_ = start(job(5))
    await wait(a_)
    dag = Dag()
    dag.add("one", last, a_, request=Cores(1))
    dag.add("two", last, a_, request=Cores(1))
    report = await dag.run(partition=Partition(k=1))
    assert (report["one"].value, report["two"].value) == (5, 5)


async def test_results_on_disk_are_found_by_the_values_of_inputs(
    executor: Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = delayed(last.function.callable, cache="1") @ Cores(1)
    assert await cached(job(7)) == 7
    again_ = cached(job(7))
    assert await again_ == 7
    assert info(again_).worker is None  # it did not run


def test_futures_have_their_values() -> None:
    with GrainlikePool(local=Cores(2)) as pool:
        assert [future.result()[0] for future in [pool.submit(make.function.callable, i) for i in range(3)]] == [
            0,
            1,
            2,
        ]


@pytest.mark.parametrize("begin", [lambda r_: None, wait, lambda r_: r_], ids=["new", "waited for", "awaited"])
async def test_a_function_that_closes_over_a_placeholder_is_to_take_it_as_an_argument(
    executor: Executor, begin
) -> None:
    a_ = job(1)
    begun = begin(a_)
    if begun is not None:
        await begun

    def closes() -> int:
        return len(a_)

    words = r"closes', at closure variable 'a_': a placeholder \(make\) .* cannot travel: pass it as an argument"
    with pytest.raises(SerializationError, match=words):
        await (delayed(closes) @ Cores(1))()
    with pytest.raises(SerializationError, match=r"argument 0 of type, at \.here: a placeholder .* as an argument"):
        await (delayed(type) @ Cores(1))(SimpleNamespace(here=a_))


async def test_many_awaiters_of_one_value_get_one_object(executor: Executor) -> None:
    a_ = job(1)
    got: list[bytes] = []

    async def get() -> None:
        got.append(await a_)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(get)
    assert len(got) == 5
    assert len({id(value) for value in got}) == 1

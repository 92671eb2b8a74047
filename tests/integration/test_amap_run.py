"""`amap` that really runs: order, bounds, failures, leaving, and tiny calls that travel together."""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
import sharing
from limits import LIMIT_S
from waiting import until, until_files

from grainlike import GVAR, Cores, Executor, GPUs, JobCancelledError, amap, delayed
from grainlike.eventloop import on_asyncio
from grainlike.graph import DelayedFn
from grainlike.maps import _batching
from grainlike.maps._batching import BatchSizer

pytestmark = pytest.mark.anyio


@delayed
def square(x: int) -> int:
    return x * x


@delayed
async def square_async(x: int) -> int:
    await anyio.lowlevel.checkpoint()
    return x * x


anyio_backend, no_leaks = sharing.anyio_backend, sharing.no_leaks


@pytest.fixture(scope="module")
async def shared(anyio_backend: object) -> AsyncIterator[Executor]:
    async with Executor(local=Cores([0, 1])) as executor:
        yield executor


@pytest.fixture
async def executor(shared: Executor) -> AsyncIterator[Executor]:
    """An executor with two cores for all tests of this file; each leaves it idle."""
    with anyio.fail_after(2 * LIMIT_S):
        yield shared
        await until(lambda: not shared._engine._wanted)  # an engine tells nobody that it is idle


class Source:
    """A source of numbers, plain or asynchronous, that counts what was taken from it and knows when it was closed."""

    def __init__(self, n: int | None = None, fails_at: int | None = None) -> None:
        self.taken = 0
        self.closed = False
        self.ended = anyio.Event()
        self._numbers = itertools.count() if n is None else iter(range(n))
        self._fails_at = fails_at

    def __iter__(self) -> Iterator[int]:
        for number in self._numbers:
            if number == self._fails_at:
                raise LookupError(f"the source, at {number}")
            self.taken += 1
            yield number

    async def asynchronous(self) -> AsyncIterator[int]:
        try:
            for number in self:
                yield number
                await anyio.lowlevel.checkpoint()
        finally:
            if on_asyncio():  # on trio every further wait is cancelled too
                await anyio.lowlevel.checkpoint()
            self.closed = True
            self.ended.set()

    def of_kind(self, kind: str) -> Any:
        return self if kind == "plain" else self.asynchronous()


both_kinds = pytest.mark.parametrize("kind", ["plain", "asynchronous"])
on_one_loop = pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
"""For what is the same on both loops."""

both_orders = pytest.mark.parametrize("ordered", [True, False])


# --- values and order ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [square, square_async, square @ Cores(1), square_async @ Cores(1)], ids=repr)
async def test_every_value_comes_once(executor: Executor, fn: DelayedFn[..., int]) -> None:
    for kind, ordered in itertools.product(("plain", "asynchronous"), (True, False)):
        values = [y async for y in amap(fn, Source(300).of_kind(kind), ordered=ordered)]
        assert (values if ordered else sorted(values)) == [x * x for x in range(300)]


async def test_values_come_as_they_finish_or_in_order(executor: Executor) -> None:
    gates = [anyio.Event() for _ in range(4)]

    @delayed
    async def gated(x: int) -> int:
        await gates[x].wait()
        return x

    unordered = amap(gated, range(4), ordered=False)
    ordered = amap(gated, range(4))
    async with anyio.create_task_group() as tasks:
        arrived: dict[str, list[int]] = {"unordered": [], "ordered": []}

        async def read(name: str, values: AsyncIterator[int]) -> None:
            async for y in values:
                arrived[name].append(y)

        tasks.start_soon(read, "unordered", unordered)
        tasks.start_soon(read, "ordered", ordered)
        for step, expected in ((2, []), (0, [0]), (3, [0]), (1, [0, 1, 2, 3])):
            await anyio.wait_all_tasks_blocked()
            gates[step].set()
            await anyio.wait_all_tasks_blocked()
            assert arrived["unordered"][-1] == step
            assert arrived["ordered"] == expected


async def test_an_empty_source_and_what_is_read_again(executor: Executor) -> None:
    values = amap(square @ Cores(1), [])
    for _ in range(2):
        with pytest.raises(StopAsyncIteration):
            await anext(values)
    assert values.__aiter__() is values


async def test_sources_may_be_streams_placeholders_within_items_and_other_maps(executor: Executor) -> None:
    @delayed
    async def numbers(n: int) -> AsyncIterator[int]:
        for i in range(n):
            yield i

    stream = (numbers @ Cores(1))(50)
    twice = amap(square @ Cores(1), amap(square_async, stream))
    assert [y async for y in twice] == [x**4 for x in range(50)]
    placeholders = [(square @ Cores(1))(x) for x in range(50)]
    assert [y async for y in amap(square @ Cores(1), placeholders)] == [x**4 for x in range(50)]


# --- bounds ----------------------------------------------------------------------------------------------------------


@both_orders
@both_kinds
@pytest.mark.parametrize("in_flight", [1, 20])
async def test_no_more_than_in_flight_is_taken_and_not_yielded(
    executor: Executor, kind: str, ordered: bool, in_flight: int
) -> None:
    source, yielded = Source(), 0
    async for _ in amap(square_async, source.of_kind(kind), in_flight=in_flight, ordered=ordered):
        # What is in the hands of this loop counts as yielded.
        yielded += 1
        assert source.taken - yielded <= in_flight
        if yielded == 200:
            break


@both_kinds
async def test_a_slow_consumer_stops_the_source(executor: Executor, kind: str) -> None:
    source = Source()
    values = amap(square_async, source.of_kind(kind), in_flight=10)
    assert await anext(values) == 0
    await anyio.wait_all_tasks_blocked()
    assert 10 <= source.taken <= 11
    for _ in range(20):
        await anext(values)
    await anyio.wait_all_tasks_blocked()
    assert 30 <= source.taken <= 31
    await values.aclose()


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        (lambda: amap(square @ Cores(1), [], in_flight=0), ValueError, "in_flight= must be at least 1, not 0"),
        (lambda: amap(square @ Cores(1), [], in_flight=True), TypeError, "in_flight= takes an integer, not True"),
        (lambda: amap(square @ Cores(1), [], in_flight=2.5), TypeError, "takes an integer"),  # type: ignore[arg-type]
        (lambda: amap(abs, []), TypeError, "amap takes a delayed function"),  # type: ignore[arg-type]
        (lambda: amap(delayed(Source.asynchronous), []), TypeError, "not a stream"),  # type: ignore[arg-type]
        (lambda: amap(square @ Cores(1), 3), TypeError, "not iterable"),  # type: ignore[arg-type]
        (lambda: amap(square @ Cores(1), square(1)), TypeError, "for x in await r_"),
    ],
)
@on_one_loop
async def test_wrong_arguments_are_told_of_where_they_are_written(
    wrong: Any, error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        wrong()


# --- failures --------------------------------------------------------------------------------------------------------


@delayed
def picky(x: int) -> int:
    if x == 37:
        raise KeyError(x)
    return x


@delayed
async def picky_async(x: int) -> int:
    if x == 37:
        raise KeyError(x)
    return x


async def values_before(error: type[BaseException], match: str, values: AsyncIterator[Any]) -> list[Any]:
    got: list[Any] = []
    with pytest.raises(error, match=match):  # noqa: PT012 - the loop is what raises
        async for value in values:
            got.append(value)  # noqa: PERF401 - a comprehension would lose them
    with pytest.raises(StopAsyncIteration):
        await anext(values)
    return got


@both_kinds
@pytest.mark.parametrize("fn", [picky_async, picky @ Cores(1), picky_async @ Cores(1)], ids=repr)
async def test_the_first_failure_is_raised_in_its_place(executor: Executor, fn: Any, kind: str) -> None:
    source = Source()
    values = amap(fn, source.of_kind(kind))
    assert await values_before(KeyError, "37", values) == list(range(37))
    taken = source.taken
    if kind == "asynchronous":
        await source.ended.wait()
    assert source.taken == taken <= 37 + 64 + 1


async def test_the_rest_is_cancelled_as_soon_as_the_failure_is_known(executor: Executor) -> None:
    ended: list[int] = []
    first, fail = anyio.Event(), anyio.Event()

    @delayed
    async def waits(x: int) -> int:
        try:
            if x == 3:
                await fail.wait()
                raise KeyError(x)
            await (first.wait() if x < 3 else anyio.sleep_forever())
        finally:
            ended.append(x)
        return x

    values = amap(waits, itertools.count(), in_flight=8)
    async with anyio.create_task_group() as tasks:

        async def read() -> None:
            assert await values_before(KeyError, "3", values) == [0, 1, 2]

        tasks.start_soon(read)
        await anyio.wait_all_tasks_blocked()
        assert ended == []
        fail.set()
        await anyio.wait_all_tasks_blocked()
        assert sorted(ended) == [3, 4, 5, 6, 7]
        first.set()


async def test_without_order_a_failure_does_not_wait_for_others(executor: Executor) -> None:
    @delayed
    async def waits(x: int) -> int:
        if x == 3:
            raise KeyError(x)
        await anyio.sleep_forever()
        return x

    assert await values_before(KeyError, "3", amap(waits, itertools.count(), ordered=False)) == []


@both_orders
@both_kinds
async def test_a_failure_of_the_source_comes_after_what_was_before_it(
    executor: Executor, kind: str, ordered: bool
) -> None:
    source = Source(fails_at=100).of_kind(kind)
    got = await values_before(LookupError, "the source, at 100", amap(square_async, source, ordered=ordered))
    squares = [x * x for x in range(100)]
    assert got == squares if ordered else set(got) <= set(squares)


async def test_an_item_that_cannot_travel_fails_in_its_place(executor: Executor) -> None:
    items: list[Any] = [*range(100), (i for i in ()), *range(5)]
    got = await values_before(TypeError, "argument 0 of square", amap(square @ Cores(1), items))
    assert got == [x * x for x in range(100)]


# --- leaving ---------------------------------------------------------------------------------------------------------


def note(path: Path) -> None:
    path.write_text("closed")


async def endless(path: str) -> AsyncIterator[int]:
    try:
        for i in itertools.count():
            yield i
    finally:
        note(Path(path))


@pytest.mark.parametrize("where", ["here", "worker"])
async def test_leaving_cancels_what_runs_and_closes_the_source(executor: Executor, where: str, tmp_path: Path) -> None:
    running: set[int] = set()
    begun, nobody = anyio.Event(), anyio.Event()

    @delayed
    async def waits(x: int) -> int:
        running.add(x)
        try:
            if x > 3:
                begun.set()
                await anyio.sleep_forever()
            return x
        finally:
            running.discard(x)
            if left and not running:
                nobody.set()

    log = tmp_path / "log"
    source = delayed(endless) if where == "here" else delayed(endless) @ Cores(1)
    left = False
    async for y in amap(waits, source(str(log)), in_flight=20):
        if y == 3:
            await begun.wait()  # on trio the next may begin a turn later
            left = True
            break
    await nobody.wait()
    await until_files(tmp_path, log.exists)


@pytest.mark.parametrize("how", ["dropped", "cancelled", "aclose", "closed executor"])
async def test_other_ways_to_leave(anyio_backend: Any, how: str) -> None:
    source = Source()

    @delayed
    async def waits(x: int) -> int:
        if x:
            await anyio.sleep_forever()
        return x

    with anyio.fail_after(LIMIT_S):
        async with Executor(local=Cores([0])) as executor:
            values = amap(waits, source.asynchronous(), in_flight=20)
            assert await anext(values) == 0
            match how:
                case "dropped":
                    del values
                    gc.collect()
                case "cancelled":
                    with anyio.move_on_after(0.01):
                        await anext(values)
                case "aclose":
                    await values.aclose()
            if how != "closed executor":
                await source.ended.wait()
                await until(lambda: not executor._engine._wanted)  # an engine tells nobody that it is idle
        if how == "closed executor":
            with pytest.raises(JobCancelledError):
                await anext(values)
        assert source.closed


# --- tiny calls together ---------------------------------------------------------------------------------------------


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls travel eight in a job as soon as one job has been seen, however long they take."""
    monkeypatch.setattr(_batching, "SAMPLES", 1)
    monkeypatch.setattr(_batching, "LONG_S", 1e9)
    monkeypatch.setattr(_batching, "TINY_S", 1e9)
    monkeypatch.setattr(BatchSizer, "_best", lambda self, executor: 8)


@delayed
def where(x: int) -> tuple[int, int, tuple[int, ...], str]:
    assert GVAR.job is not None
    return x, GVAR.job.id, GVAR.res.cores, GVAR.job.name


@pytest.mark.usefixtures("together")
@both_orders
async def test_tiny_calls_share_jobs_and_see_theirs(executor: Executor, ordered: bool) -> None:
    for kind in ("plain", "asynchronous"):
        seen = [y async for y in amap(where @ Cores(1), Source(1000).of_kind(kind), ordered=ordered)]
        numbers = [x for x, *_ in seen]
        assert (numbers if ordered else sorted(numbers)) == list(range(1000))
        assert len({job for _, job, *_ in seen}) <= 400
        assert {cores for _, _, cores, _ in seen} <= {(0,), (1,)}
        assert {name for *_, name in seen} == {"where"}


@on_one_loop
@pytest.mark.usefixtures("together")
async def test_in_a_shared_job_failures_keep_their_place(executor: Executor) -> None:
    @delayed
    def fails(x: Any) -> int:
        if x == 500:
            raise KeyError(x)
        return int(x)

    values = amap(fails @ Cores(1), itertools.count())
    assert await values_before(KeyError, "500", values) == list(range(500))
    mixed: list[Any] = [*range(300), (i for i in ()), 1]
    assert await values_before(TypeError, "argument 0 of fails", amap(fails @ Cores(1), mixed)) == list(range(300))


@on_one_loop
@pytest.mark.usefixtures("together")
async def test_in_a_shared_job_an_error_says_where_it_happened_and_a_value_that_cannot_travel_is_one(
    executor: Executor,
) -> None:
    @delayed
    def odd(x: int) -> Any:
        if x == 200:
            return (i for i in ())
        return x

    with pytest.raises(TypeError, match="the value of odd") as caught:
        assert [y async for y in amap(odd @ Cores(1), range(300))]
    assert any("on worker local, slots cores=" in note for note in caught.value.__notes__)


@on_one_loop
@pytest.mark.usefixtures("together")
async def test_placeholders_and_large_items_go_alone_among_tiny_calls(executor: Executor) -> None:
    @delayed
    def size(x: Any) -> Any:
        return len(x) if isinstance(x, bytes) else x

    items: list[Any] = list(range(300))
    items[140] = (square @ Cores(1))(40)
    items[160] = bytes(10_000)
    items[180] = [(square @ Cores(1))(50)]
    got = [y async for y in amap(size @ Cores(1), items)]
    assert got == [*range(140), 1600, *range(141, 160), 10_000, *range(161, 180), [2500], *range(181, 300)]


class Scale:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @delayed
    def times(self, x: Any) -> Any:
        return self.factor * x


@on_one_loop
@pytest.mark.usefixtures("together")
async def test_tiny_calls_of_a_method_have_their_instance(executor: Executor) -> None:
    items: list[Any] = [*range(100), (1, 2), *range(100)]
    assert [y async for y in amap(Scale(2).times @ Cores(1), items)] == [2 * item for item in items]


@pytest.mark.parametrize(
    ("fn", "shares"),
    [
        (square @ Cores(1), True),
        (square @ (Cores(1) & GPUs(1)), False),
        (square @ (Cores(1) | Cores(2)), False),
        (delayed(square.__wrapped__, retries=1) @ Cores(1), False),
        (delayed(square.__wrapped__, timeout=1) @ Cores(1), False),
        (square_async @ Cores(1), False),
        (square, False),
    ],
    ids=lambda value: repr(value),
)
@on_one_loop
async def test_who_may_share(fn: Any, shares: bool, anyio_backend: Any) -> None:
    assert _batching._may_share(fn.function, fn.request) is shares


@on_one_loop
async def test_the_size_follows_what_calls_take(executor: Executor) -> None:
    def learned(*walls: float, calls: int = 1, most: int = 1024) -> int:
        chunks = BatchSizer(square @ Cores(1), most)
        chunks.begin(executor)
        job = _batching.Job(1, 1, None, (b"", ()))
        node: Any = type("Node", (), {"record": job})
        placement = job.assigned("n1", 1)
        for wall in walls:
            placement.used = (wall, 0.0, 0)
            chunks.learn(node, calls)
        return chunks.size

    assert learned(*[20e-6] * 16) == 50
    assert learned(*[20e-6] * 15) == 1
    assert learned(*[2e-6] * 16) == 256  # two jobs for each of two cores
    assert learned(*[2e-6] * 16, most=64) == 32  # all of it is less than a trip: two jobs
    assert learned(*[20e-6] * 16, most=64) == 16
    assert learned(*[2e-3] * 16) == 1
    assert learned(*[20e-6] * 12, *[1.5e-3] * 4) == 1
    assert learned(*[20e-6] * 16, 0.011) == 1
    assert learned(*[640e-6] * 16, calls=32) == 50


@on_one_loop
async def test_slow_calls_stay_alone(executor: Executor) -> None:
    @delayed
    def slow(x: int) -> int:
        time.sleep(0.003)
        assert GVAR.job is not None
        return GVAR.job.id

    jobs = [y async for y in amap(slow @ Cores(1), range(100))]
    assert len(set(jobs)) == 100


# --- memory ----------------------------------------------------------------------------------------------------------


@on_one_loop
async def test_a_hundred_thousand_items_need_no_more_memory_than_a_thousand(executor: Executor) -> None:
    async def through(n: int) -> int:
        total = 0
        async for y in amap(square @ Cores(1), iter(range(n)), in_flight=1000):
            total += y
        return total

    def held() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    await through(5_000)
    before, rss = held(), psutil.Process().memory_info().rss
    assert await through(95_000) == sum(x * x for x in range(95_000))
    assert held() - before < 20_000
    assert psutil.Process().memory_info().rss - rss < 20_000_000
    assert not executor._engine._wanted

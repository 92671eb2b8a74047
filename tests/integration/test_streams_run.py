"""Streams that really run: in the caller's loop, on the embedded worker, and in a process of their own."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fifos import Fifo
from limits import LIMIT_S
from stream_calls import (
    computing,
    counting,
    dying,
    failing,
    large,
    lines,
    noted,
    pairs,
    scoped,
    shy,
    slow,
    told,
    tried,
    turns,
    waiting,
)
from waiting import until_files

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    JobTimeoutError,
    SerializationError,
    WorkerLostError,
    cancel,
    delayed,
    delayed_value,
    info,
    start,
)
from grainlike.scheduler.node import _runners
from grainlike.wire import WINDOW_ITEMS

pytestmark = pytest.mark.anyio


WHERE: dict[str, Callable[[Any], Any]] = {
    "here": delayed,
    "shared": lambda fn: delayed(fn) @ Cores(1),
    "own": lambda fn: delayed(fn, isolate=True) @ Cores(1),
}


PAIRS = [(loop, where) for loop in ("asyncio", "trio") for where in WHERE if (loop, where) != ("trio", "own")]
everywhere = pytest.mark.parametrize(("anyio_backend", "where"), PAIRS, indirect=["anyio_backend"])
"""Each place on each event loop; but a process of its own is the same for both."""


@pytest.fixture
def placed(where: str) -> Callable[[Any], Any]:
    """Delay a generator function to run in the caller's loop, on the shared runner, or in a process of its own."""
    return WHERE[where]


@pytest.fixture
async def executor(anyio_backend: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Executor]:
    # A process of its own that a busy machine gives no core for so long would be killed in the generator's `finally`.
    monkeypatch.setattr(_runners, "GRACE_S", LIMIT_S)
    with anyio.fail_after(2 * LIMIT_S):
        async with Executor(local=Cores([0, 1])) as executor:
            yield executor


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    with Fifo(tmp_path / "fifo") as fifo:
        yield fifo


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


async def items_before(error: type[BaseException], match: str, stream: Any) -> list[Any]:
    """What comes before the error, which must come."""
    got: list[Any] = []
    with pytest.raises(error, match=match):  # noqa: PT012 - the loop is what raises
        async for item in stream:
            got.append(item)  # noqa: PERF401 - a comprehension would lose them
    return got


@everywhere
async def test_items_come_in_order_and_the_stream_ends(executor: Executor, placed: Any, log: Path) -> None:
    stream = placed(noted)(str(log), 100)
    assert info(stream).state == "lazy"
    assert [item async for item in stream] == list(range(100))
    assert info(stream).state == "succeeded"
    assert lines(log) == [*map(str, range(100)), "closed"]
    with pytest.raises(RuntimeError, match="it can be read once"):
        aiter(stream)


@everywhere
async def test_an_error_comes_as_itself_after_the_items_before_it(executor: Executor, placed: Any) -> None:
    stream = placed(failing)(40)
    reader = aiter(stream)
    assert await items_before(KeyError, "40", reader) == list(range(40))
    assert (info(stream).state, type(info(stream).error)) == ("failed", KeyError)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)


async def _break(stream: Any) -> None:
    async for item in stream:
        if item == 5:
            break


async def _raise(stream: Any) -> None:
    with contextlib.suppress(ZeroDivisionError):
        async for item in stream:
            item / (5 - item)


async def _aclose(stream: Any) -> None:
    async with contextlib.aclosing(aiter(stream)) as reader:
        assert await anext(reader) == 0
        await reader.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)


@pytest.mark.parametrize("leave", [_break, _raise, _aclose])
@everywhere
async def test_who_leaves_ends_the_generator(executor: Executor, placed: Any, log: Path, leave: Any) -> None:
    stream = placed(noted)(str(log), 10**9)
    await leave(stream)
    await until_files(log.parent, lambda: "closed" in lines(log))
    assert info(stream).state == "cancelled"
    assert lines(log)[-1] == "closed"


@everywhere
async def test_who_is_cancelled_in_a_step_ends_the_generator(executor: Executor, placed: Any, log: Path) -> None:
    stream = placed(waiting)(str(log))
    first = anyio.Event()

    async def read() -> None:
        async for _ in stream:
            first.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await first.wait()
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    await until_files(log.parent, lambda: lines(log) == ["closed"])
    assert info(stream).state == "cancelled"


@everywhere
async def test_cancel_is_told_to_the_reader(executor: Executor, placed: Any, log: Path) -> None:
    stream = placed(waiting)(str(log))
    reader = aiter(stream)
    assert await anext(reader) == 0
    assert cancel(stream)
    with pytest.raises(JobCancelledError):
        await anext(reader)
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    await until_files(log.parent, lambda: lines(log) == ["closed"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_generator_that_computes_is_cancelled_at_its_next_yield(executor: Executor, log: Path) -> None:
    async for _ in (delayed(computing, isolate=True) @ Cores(1))(str(log), WINDOW_ITEMS):
        break
    await until_files(log.parent, lambda: "closed" in lines(log))
    assert lines(log) in (["0", "closed"], ["0", "1", "closed"])  # the first if it was asked before it went on


@everywhere
async def test_a_scope_of_the_generators_own_catches_what_it_cancels_between_items(
    executor: Executor, placed: Any
) -> None:
    assert [item async for item in placed(scoped)()] == [0, 1, -1]


async def test_others_have_their_turn_between_the_items_of_a_generator_that_computes(executor: Executor) -> None:
    async def count() -> None:
        while True:
            turns[0] += 1
            await anyio.lowlevel.checkpoint()

    turns[:] = [0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count)
        seen = [item async for item in (delayed(counting) @ Cores(1))(WINDOW_ITEMS - 1)]
        tasks.cancel_scope.cancel()
    assert seen == sorted(seen)
    assert len(set(seen)) >= WINDOW_ITEMS // 2  # trio runs those that are ready in any order


@everywhere
async def test_no_item_waits_for_the_step_after_it(executor: Executor, placed: Any, fifo: Fifo) -> None:
    async for item in placed(pairs)(str(fifo.path), 8, LIMIT_S):
        if item % 2:
            fifo.write()


@everywhere
async def test_the_generator_does_not_run_away_from_a_slow_reader(executor: Executor, placed: Any, log: Path) -> None:
    other = placed(noted)
    reader = aiter(placed(noted)(str(log), 1000))
    assert await anext(reader) == 0
    await until_files(log.parent, lambda: len(lines(log)) >= WINDOW_ITEMS)
    # One that is read runs on beside it; by its end, anything else that could have happened has.
    assert len([item async for item in other(str(log) + "2", 200)]) == 200
    assert len(lines(log)) == WINDOW_ITEMS
    for expected in range(1, 50):
        assert await anext(reader) == expected
        assert len(lines(log)) <= expected + 1 + WINDOW_ITEMS
    await reader.aclose()


async def test_a_slow_reader_holds_up_nobody_else(executor: Executor, log: Path) -> None:
    fn = delayed(noted) @ Cores(1)
    slow = aiter(fn(str(log), 10**9))
    await anext(slow)
    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(_read_all, fn(f"{log}{number}", 100))
    await slow.aclose()


async def _read_all(stream: Any) -> None:
    assert [item async for item in stream] == list(range(100))


@everywhere
async def test_a_started_stream_runs_ahead_by_a_window_and_ends_when_nobody_can_read_it(
    executor: Executor, placed: Any, log: Path
) -> None:
    stream = start(placed(noted)(str(log), 10**9))
    await until_files(log.parent, lambda: len(lines(log)) == WINDOW_ITEMS)
    assert info(stream).state == "running"
    del stream
    gc.collect()
    await until_files(log.parent, lambda: "closed" in lines(log))


@everywhere
async def test_a_reader_that_is_dropped_in_another_thread_ends_the_stream(
    executor: Executor, placed: Any, log: Path
) -> None:
    holder = [aiter(placed(noted)(str(log), 10**9))]
    await anext(holder[0])
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    await until_files(log.parent, lambda: "closed" in lines(log))


@everywhere
async def test_placeholders_are_dependencies(executor: Executor, placed: Any, log: Path) -> None:
    n_ = (delayed(lambda: 3) @ Cores(1))()
    assert [item async for item in placed(noted)(delayed_value(str(log)), n_)] == [0, 1, 2]
    bad_: Any = (delayed(lambda: {}["x"]) @ Cores(1))()
    with pytest.raises(KeyError, match="x"):
        async for _ in placed(noted)(str(log), bad_):
            pass


async def test_the_generator_sees_its_job(executor: Executor) -> None:
    (shared,) = [item async for item in WHERE["shared"](told)()]
    (own,) = [item async for item in WHERE["own"](told)()]
    (here,) = [item async for item in delayed(told)()]
    assert (shared, own, here) == (((0,), "told"), ((0,), "told"), ((), None))


@everywhere
async def test_large_items_travel(executor: Executor, placed: Any) -> None:
    sizes = [len(item) async for item in placed(large)(10)]
    assert sizes == [3_000_000] * 10


async def test_an_item_that_cannot_travel_is_an_error_of_the_stream(executor: Executor) -> None:
    assert await items_before(SerializationError, "the value of shy", WHERE["shared"](shy)()) == [1]


@everywhere
async def test_a_timeout_ends_the_whole_of_it(executor: Executor, where: str) -> None:
    fn = delayed(slow, timeout=0.1, isolate=where == "own")
    stream = (fn if where == "here" else fn @ Cores(1))(3600)
    with anyio.fail_after(LIMIT_S):
        got = await items_before(JobTimeoutError, r"its timeout of 0\.1 s", stream)
    assert got == [1] or where == "own"  # it may take its time to start


@everywhere
async def test_an_attempt_without_items_is_repeated_and_one_with_items_is_not(
    executor: Executor, log: Path, where: str
) -> None:
    fn = delayed(tried, retries=3, isolate=where == "own")
    fn = fn if where == "here" else fn @ Cores(1)
    assert [item async for item in fn(str(log), 0)] == [0, 1, 2]
    assert lines(log) == ["begun", "begun"]
    assert await items_before(OSError, "the first attempt", fn(f"{log}2", 2)) == [0, 1]
    assert lines(Path(f"{log}2")) == ["begun"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
async def test_a_process_that_dies_after_an_item_is_not_tried_again(executor: Executor, log: Path) -> None:
    fn = WHERE["own"](dying)
    assert [item async for item in fn(str(log), 0)] == [7]
    lost = "dying had given items when it was lost"
    assert await items_before(WorkerLostError, lost, fn(f"{log}2", 2)) == [0, 1]
    assert lines(Path(f"{log}2")) == ["begun"]


async def test_two_tasks_cannot_wait_for_the_same_reader(executor: Executor, log: Path) -> None:
    reader = aiter(WHERE["here"](waiting)(str(log)))
    await anext(reader)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_expect_cancelled, reader)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="another task waits for the next item"):
            await anext(reader)
        tasks.cancel_scope.cancel()


async def _expect_cancelled(reader: Any) -> None:
    with pytest.raises(anyio.get_cancelled_exc_class()):
        await anext(reader)
    await anyio.lowlevel.checkpoint()


async def test_closing_the_executor_ends_streams_and_tells_their_readers(anyio_backend: Any, log: Path) -> None:
    async with Executor(local=Cores([0])):
        readers = [aiter(WHERE[where](noted)(f"{log}{where}", 10**9)) for where in ("here", "shared")]
        for reader in readers:
            assert await anext(reader) == 0
    for where, reader in zip(("here", "shared"), readers, strict=True):
        assert lines(Path(f"{log}{where}"))[-1] == "closed"
        with pytest.raises(JobCancelledError):
            await anext(reader)


@everywhere
async def test_nothing_of_a_stream_is_left_in_memory(executor: Executor, placed: Any, log: Path) -> None:
    class Item:
        pass

    made: list[weakref.ref[Any]] = []

    async def items(n: int) -> AsyncIterator[Any]:
        for _ in range(n):
            item = Item()
            made.append(weakref.ref(item))
            yield item
            del item

    alive = 0
    async for _ in delayed(items)(500):
        alive = max(alive, sum(ref() is not None for ref in made))
    assert alive <= 2 * WINDOW_ITEMS


async def test_a_stream_behind_a_quick_call_is_no_link_of_a_chain(executor: Executor, log: Path) -> None:
    first = delayed(one) @ Cores(1)
    for _ in range(30):  # quick enough to travel in chains, from some time on
        assert await first(first(1)) == 3
    assert [item async for item in WHERE["shared"](noted)(str(log), first(first(1)))] == [0, 1, 2]


async def one(x: int) -> int:
    return x + 1

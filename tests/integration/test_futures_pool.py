"""`GrainlikePool` beside `ProcessPoolExecutor`: the same program on both gives the same."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
    wait,
)
from contextlib import AbstractContextManager, ExitStack, closing
from multiprocessing import get_context, resource_tracker
from pathlib import Path

import psutil
import pytest
from limits import LIMIT_S
from pool_calls import add, divide, hold, later, slots, square, wait_for
from waiting import until_blocking, until_files_blocking

from grainlike import (
    Cores,
    GraphError,
    JobCancelledError,
    Memory,
    Node,
    SerializationError,
    UnsatisfiableError,
    WorkerLostError,
    delayed,
)
from grainlike.adapters import GrainlikePool

Make = Callable[[], Executor]


def ours() -> Executor:
    return GrainlikePool(Cores(1), local=Cores([0]))


def theirs() -> Executor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


@pytest.fixture(scope="module", autouse=True)
def no_leaks(watch_leaks: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """Of the module as a whole: its tests share pools."""
    resource_tracker.ensure_running()  # it stays until this process ends
    with watch_leaks():
        yield


@pytest.fixture(params=[ours, theirs])
def make(request: pytest.FixtureRequest) -> Make:
    return request.param


@pytest.fixture(scope="module", params=[ours, theirs])
def pool(no_leaks: None, request: pytest.FixtureRequest) -> Iterator[Executor]:
    with request.param() as pool:
        yield pool


class Way:
    """A named pipe at which calls of `wait_for` stand until it is opened."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDWR)

    def open(self) -> None:
        os.write(self._end, b".")

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture(scope="module")
def ways(no_leaks: None) -> Iterator[ExitStack]:
    """All ways of the module: a call may come to one that was opened when its test has ended."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def go(ways: ExitStack, tmp_path: Path) -> Way:
    return ways.enter_context(closing(Way(tmp_path / "go")))


def begun(pool: Executor, way: Way) -> Future[str]:
    """A call that runs, and holds the only slot."""
    future = pool.submit(wait_for, way.path)
    until_files_blocking(way.path.parent, way.path.with_suffix(".begun").exists)
    until_blocking(future.running)  # a future does not tell of it
    return future


# --- the same on both ------------------------------------------------------------------------------------------------


def test_submit_gives_a_future_of_the_value(pool: Executor) -> None:
    future = pool.submit(add, 1, 2, more=3)
    assert isinstance(future, Future)
    assert future.result(LIMIT_S) == 6
    assert (future.done(), future.running(), future.cancelled(), future.cancel()) == (True, False, False, False)
    assert future.exception() is None


def test_an_error_comes_as_its_own_type(pool: Executor) -> None:
    future = pool.submit(divide, 1, 0)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        future.result(LIMIT_S)
    assert type(future.exception()) is ZeroDivisionError


def test_a_value_that_is_late_is_a_timeout_and_still_comes(pool: Executor, go: Way) -> None:
    future = begun(pool, go)
    with pytest.raises(TimeoutError):
        future.result(timeout=0)
    go.open()
    assert future.result(LIMIT_S) == "go"


def test_callbacks_are_called_with_the_future_also_late_ones(pool: Executor) -> None:
    called: list[Future[int]] = []
    future = pool.submit(square, 3)
    future.add_done_callback(called.append)
    future.result(LIMIT_S)
    until_blocking(lambda: bool(called))  # a thread of the pool's calls it, after it has told of the value
    future.add_done_callback(called.append)
    assert called == [future, future]


def test_a_callback_may_submit(pool: Executor) -> None:
    second: Future[Future[int]] = Future()
    pool.submit(square, 3).add_done_callback(lambda done: second.set_result(pool.submit(square, done.result())))
    assert second.result(LIMIT_S).result(LIMIT_S) == 81


@pytest.mark.parametrize("chunksize", [1, 3, 100])
def test_map_gives_values_in_order(pool: Executor, chunksize: int) -> None:
    assert list(pool.map(square, range(10), chunksize=chunksize)) == [x * x for x in range(10)]
    assert list(pool.map(add, range(5), range(7), chunksize=chunksize)) == [0, 2, 4, 6, 8]
    assert list(pool.map(square, [], chunksize=chunksize)) == []


def test_map_reads_its_source_at_once_and_raises_what_a_call_raises(pool: Executor) -> None:
    source = iter(range(3))
    values = pool.map(divide, [1, 2, 3], source)
    assert list(source) == []
    with pytest.raises(ZeroDivisionError):
        next(values)
    assert list(values) == []


def test_calls_that_run_can_be_abandoned(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with GrainlikePool(Cores(1), local=Cores([0])) as pool:
        runs, waits = pool.submit(hold, str(tmp_path / "fifo")), pool.submit(int)
        (tmp_path / "fifo").open().close()
        pool.abandon([runs, waits])
        with pytest.raises(JobCancelledError, match="told to end it"):
            runs.result(LIMIT_S)
        with pytest.raises(CancelledError):
            waits.result(LIMIT_S)
        assert pool.submit(int).result(LIMIT_S) == 0


def test_map_refuses_pieces_of_nothing(pool: Executor) -> None:
    with pytest.raises(ValueError, match="chunksize must be >= 1"):
        pool.map(square, [1], chunksize=0)


def test_map_says_when_a_value_is_late(pool: Executor, go: Way) -> None:
    values = pool.map(wait_for, [go.path], timeout=0.01)
    with pytest.raises(TimeoutError):
        next(values)
    go.open()


def test_wait_tells_done_from_not_done(pool: Executor, go: Way) -> None:
    held, quick = begun(pool, go), pool.submit(divide, 1, 0)
    assert wait([held, quick], timeout=0) == (set(), {held, quick})
    go.open()
    assert wait([held, quick], LIMIT_S, FIRST_COMPLETED).done >= {held}
    assert quick in wait([quick, pool.submit(square, 1)], LIMIT_S, FIRST_EXCEPTION).done
    assert wait([held, quick], LIMIT_S, ALL_COMPLETED) == ({held, quick}, set())


def test_as_completed_gives_each_once(pool: Executor) -> None:
    futures = [pool.submit(square, x) for x in range(20)]
    assert sorted(future.result() for future in as_completed(futures, LIMIT_S)) == [x * x for x in range(20)]


def test_a_call_that_has_not_begun_is_cancelled_and_one_that_has_is_not(
    pool: Executor, tmp_path: Path, go: Way
) -> None:
    running = begun(pool, go)
    behind = [pool.submit(square, x) for x in range(4)]  # a process pool has one more in its hands
    last = pool.submit((tmp_path / "ran").touch)
    if isinstance(pool, GrainlikePool):
        for _ in range(2):
            pool.slots()  # answered in turn: by the second answer it has been handed to the executor
    assert last.cancel()
    assert (last.cancelled(), last.done(), running.cancel(), running.cancelled()) == (True, True, False, False)
    with pytest.raises(CancelledError):
        last.result(LIMIT_S)
    go.open()
    assert wait(behind, LIMIT_S).not_done == set()
    assert running.result(LIMIT_S) == "go"
    assert [future.result() for future in behind] == [0, 1, 4, 9]
    assert pool.submit(square, 5).result(LIMIT_S) == 25
    assert not (tmp_path / "ran").exists()


def test_waiting_for_a_call_that_is_cancelled_ends(pool: Executor, go: Way) -> None:
    begun(pool, go)
    last = [pool.submit(square, x) for x in range(5)][-1]
    waiting = threading.Thread(target=wait, args=([last],))
    waiting.start()
    assert last.cancel()
    if not isinstance(pool, GrainlikePool):  # a process pool tells of it when it comes to it
        go.open()
    waiting.join(LIMIT_S)
    go.open()
    assert [future.cancelled() for future in as_completed([last], LIMIT_S)] == [True]


def test_threads_may_share_it(pool: Executor) -> None:
    found: dict[int, list[int]] = {}

    def use(n: int) -> None:
        found[n] = list(pool.map(add, [n] * 20, range(20)))

    threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    assert found == {n: [n + x for x in range(20)] for n in range(8)}


def test_an_event_loop_may_run_things_in_it(pool: Executor) -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(LIMIT_S):
            return await asyncio.gather(*(loop.run_in_executor(pool, square, x) for x in range(5)))

    assert asyncio.run(main()) == [0, 1, 4, 9, 16]


def test_shutdown_can_cancel_what_has_not_begun_and_leaves_nothing(make: Make, go: Way) -> None:
    threads, children = set(threading.enumerate()), _children()
    pool = make()
    running = begun(pool, go)
    behind = [pool.submit(square, x) for x in range(5)]
    ended = threading.Event()
    behind[-1].add_done_callback(lambda _: ended.set())
    shutting = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True})
    shutting.start()
    assert ended.wait(LIMIT_S)
    assert behind[-1].cancelled()
    assert not running.done()
    go.open()
    shutting.join(LIMIT_S)
    assert running.result(0) == "go"
    assert all(future.done() for future in behind)
    assert set(threading.enumerate()) <= threads  # those that others left idle may have ended meanwhile
    assert _children() == children


def test_shutdown_need_not_wait_and_what_was_submitted_runs(make: Make, go: Way) -> None:
    with make() as pool:
        running = begun(pool, go)
        behind = pool.submit(square, 3)
        pool.shutdown(wait=False)
        assert not running.done()
        with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
            pool.submit(square, 1)
        with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
            pool.map(square, [1])
        go.open()
    assert (running.result(LIMIT_S), behind.result(LIMIT_S)) == ("go", 9)


def test_a_program_that_ends_waits_for_its_calls(tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from grainlike import Cores
from grainlike.adapters import GrainlikePool
pool = GrainlikePool(local=Cores([0]))
future = pool.submit(time.sleep, 0.05)
pool.submit(Path({str(tmp_path / "done")!r}).touch)
"""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'worker'}"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=LIMIT_S, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (tmp_path / "done").exists()


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


# --- ours alone ------------------------------------------------------------------------------------------------------


def test_calls_run_in_the_slots_that_they_ask_for() -> None:
    with GrainlikePool(Cores(2), local=Node(2, "1Gi")) as pool:
        assert (pool.slots(), pool.slots(Cores(1))) == (1, 2)
        cores, memory = pool.submit(slots).result(LIMIT_S)
        assert (len(cores), memory) == (2, 0)
        assert pool.submit_as(Cores(1) & Memory("1Mi"), slots).result(LIMIT_S)[1] == 2**20
        too_much = pool.submit_as(Cores(3), slots)
        with pytest.raises(UnsatisfiableError, match="cores"):
            too_much.result(LIMIT_S)
        assert pool.submit(lambda x: x + 1, 3).result(LIMIT_S) == 4
        assert pool.submit(later, 3).result(LIMIT_S) == 4
        graph = (delayed(add) @ Cores(1))((delayed(square) @ Cores(1))(3), delayed(later)(0))
        assert pool.start(graph).result(LIMIT_S) == 10
        with pytest.raises(SerializationError):
            pool.submit(square, threading.Lock()).result(LIMIT_S)


def test_a_process_that_dies_fails_its_own_call_alone() -> None:
    with GrainlikePool(local=Cores([0])) as pool:
        with pytest.raises(WorkerLostError):
            pool.submit(os._exit, 3).result(LIMIT_S)
        assert pool.submit(square, 3).result(LIMIT_S) == 9


def test_what_keeps_it_from_opening_is_raised_at_once() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(TypeError, match="listen="):
        GrainlikePool(listen=7)
    assert set(threading.enumerate()) <= threads  # those that others left idle may have ended meanwhile


def test_a_pool_that_is_dropped_ends() -> None:
    threads = set(threading.enumerate())
    pool = GrainlikePool(local=Cores([0]))
    future = pool.submit(square, 3)
    (own,) = (thread for thread in set(threading.enumerate()) - threads if thread.name == "grainlike pool")
    del pool
    gc.collect()
    own.join(LIMIT_S)
    assert not own.is_alive()
    assert future.result(0) == 9


def test_a_placeholder_of_another_executor_fails_its_own_call(go: Way) -> None:
    with GrainlikePool(local=Cores([0])) as first, GrainlikePool(local=Cores([0])) as second:
        held = (delayed(wait_for) @ Cores(1))(go.path)
        future = first.start(held)
        until_blocking(future.running)  # a future does not tell of it
        refused = second.submit(square, held)
        good = second.submit(square, 3)
        assert good.result(LIMIT_S) == 9
        with pytest.raises(GraphError, match="another executor"):
            refused.result(LIMIT_S)
        go.open()
        assert future.result(LIMIT_S) == "go"

"""`result(r_)`: code that cannot await waits for a value by blocking its thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from limits import LIMIT_S
from plain_calls import half

from grainlike import (
    GVAR,
    Cores,
    Executor,
    JobCancelledError,
    ThreadBackend,
    cancel,
    delayed,
    delayed_value,
    gather,
    info,
    result,
    start,
)
from grainlike.engine import _local_calls
from grainlike.executor import _blocking

pytestmark = pytest.mark.anyio

both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend():
    """One event loop is enough for most; the others are marked."""
    return "asyncio"


@delayed
async def forever() -> None:
    await anyio.sleep_forever()


@both_loops
async def test_a_local_call_blocks_its_thread_and_the_loop_goes_on():
    @delayed
    def newton(steps: int) -> float:
        return sum(result((half @ Cores(1))(step)) + result(half(step)) for step in range(steps))

    async with Executor(local=Cores([0])):
        assert await newton(4) == 6.0


@both_loops
async def test_errors_come_as_they_are():
    @delayed
    def caught() -> str:
        try:
            return result((half @ Cores(1))(-1))
        except ValueError as error:
            return str(error)

    async with Executor(local=Cores([0])):
        assert await caught() == "-1 is negative"


def _in_the_middle(deep: int) -> float:
    inner_ = (delayed(_in_the_middle) @ Cores(1))(deep - 1) if deep else (half @ Cores(1))(8)
    before = GVAR.res.cores
    value = result(inner_)
    assert len(GVAR.res.cores) == len(before) == 1
    return value + result(half(2)) + result(gather(half(0), (half @ Cores(1))(0)))[1]


async def test_a_plain_job_lends_its_cores_meanwhile():
    async with Executor(local=Cores([0])):
        with anyio.fail_after(LIMIT_S):
            assert await (delayed(_in_the_middle) @ Cores(1))(2) == 7.0


async def test_a_local_call_of_a_job_lends_the_cores_of_the_job():
    @delayed
    async def outer() -> float:
        return await delayed(lambda: result((half @ Cores(1))(6)))()

    async with Executor(local=Cores([0])):
        with anyio.fail_after(LIMIT_S):
            assert await (outer @ Cores(1))() == 3.0


async def test_in_a_plain_job_a_time_that_is_over_cancels_what_nobody_else_wants():
    def gives_up() -> tuple[str, str]:
        never_ = (forever @ Cores(1))()
        with pytest.raises(TimeoutError, match=r"forever had no value after 0\.01 s"):
            result(never_, timeout=0.01)
        return info(never_).state, str(result((half @ Cores(1))(4)))

    async with Executor(local=Cores([0])):
        assert await (delayed(gives_up) @ Cores(1))() == ("cancelled", "2.0")


@both_loops
async def test_a_time_that_is_over_cancels_what_nobody_else_wants_and_nothing_else():
    started_: list[Any] = []

    def gives_up(never_: Any) -> str:
        with pytest.raises(TimeoutError, match=r"forever had no value after 0\.01 s"):
            result(never_[0], timeout=0.01)
        return info(never_[0]).state

    class Box:
        """Not looked into: the placeholder itself arrives."""

        def __init__(self, r_: Any) -> None:
            self.r_ = r_

        def __getitem__(self, index: int) -> Any:
            return self.r_

    async with Executor(local=None):
        assert await delayed(gives_up)(Box(forever())) == "cancelled"
        started_.append(start(forever()))
        assert await delayed(gives_up)(Box(started_[0])) == "running"
        cancel(started_[0])


async def test_threads_with_the_context_and_threads_without_it():
    values: list[float] = []

    def without() -> None:
        values.append(result(half(4)))

    async with Executor(local=None):
        assert await asyncio.to_thread(lambda: result(half(2))) == 1.0
        assert await anyio.to_thread.run_sync(lambda: result(half(3))) == 1.5
        thread = threading.Thread(target=without)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert values == [2.0]


async def test_in_the_loops_own_thread_it_says_await():
    async with Executor(local=Cores([0])):
        with pytest.raises(RuntimeError, match="write `await r_`"):
            result(half(1))
        with pytest.raises(RuntimeError, match="write `await r_`"):
            await (delayed(_blocks_in_a_coroutine) @ Cores(1))()


async def _blocks_in_a_coroutine() -> None:
    result(half(1))


def test_without_a_program_it_says_run():
    assert result(delayed_value(3)) == 3
    with pytest.raises(RuntimeError, match=r"no executor is open in any.*grainlike\.run\(main\)"):
        result(half(1))
    with pytest.raises(TypeError, match="expected a placeholder"):
        result(3)  # type: ignore[arg-type]


async def test_in_a_thread_without_context_two_executors_are_an_error():
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            result(half(1))
        except RuntimeError as error:
            errors.append(error)

    async with Executor(local=None), Executor(local=None):
        thread = threading.Thread(target=ask)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
    assert "2 executors are open" in str(errors[0])


@both_loops
async def test_closing_ends_what_is_blocked():
    begun = threading.Event()
    ends: list[BaseException] = []

    async def waited() -> None:
        begun.set()
        await anyio.sleep_forever()

    def blocked() -> None:
        try:
            result(delayed(waited)())
        except JobCancelledError as error:
            ends.append(error)

    async with Executor(local=None):
        start(delayed(blocked)())
        await anyio.to_thread.run_sync(begun.wait)
    assert len(ends) == 1


@both_loops
async def test_a_blocked_call_that_nobody_wants_gives_up_what_it_waits_for():
    begun, ended = threading.Event(), threading.Event()
    seen: list[Any] = []

    async def waited() -> None:
        begun.set()
        await anyio.sleep_forever()

    def blocked() -> None:
        seen.append(delayed(waited)())
        try:
            result(seen[0])
        except JobCancelledError:
            with pytest.raises(JobCancelledError):
                result(half(2))
            ended.set()

    async with Executor(local=None):
        call_ = start(delayed(blocked)())
        await anyio.to_thread.run_sync(begun.wait)
        cancel(call_)
        with anyio.fail_after(LIMIT_S):
            await anyio.to_thread.run_sync(ended.wait)
        assert info(seen[0]).state == "cancelled"


async def test_more_calls_block_than_there_are_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_local_calls, "THREADS", 2)

    def nested(deep: int) -> int:
        return deep and 1 + result(delayed(nested)(deep - 1))

    async with Executor(local=None):
        with anyio.fail_after(LIMIT_S):
            assert await delayed(nested)(8) == 8


def test_a_loop_that_stands_still_is_named_and_the_time_is_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(_blocking, "_LOOK_S", 0.01)
    loop, executor = asyncio.new_event_loop(), Executor(local=Cores([0]))
    loop.run_until_complete(executor.__aenter__())
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(lambda: result((half @ Cores(1))(3), timeout=0.1))
        with pytest.raises(TimeoutError, match=r"half had no value after 0\.1 s"):
            asked.result(LIMIT_S)
    assert [record.getMessage() for record in caplog.records if "does not run" in record.getMessage()] == [
        "result(r_) waits for half, and the event loop does not run: run it"
    ]
    loop.run_until_complete(executor.__aexit__(None, None, None))
    loop.close()


async def test_a_thread_of_another_engine_waits_for_calls_without_resources():
    def inside() -> float:
        return result(half(10))

    async with Executor(backend=ThreadBackend(1)):
        assert await (delayed(inside) @ Cores(1))() == 5.0


async def test_a_thread_that_a_job_starts_is_told_where_to_call_it():
    def beside() -> str:
        said: list[str] = []

        def ask() -> None:
            try:
                result((half @ Cores(1))(2))
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return said[0]

    async with Executor(local=Cores([0])):
        assert "where a plain job's function runs" in await (delayed(beside) @ Cores(1))()

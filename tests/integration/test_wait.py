"""`wait`: until placeholders have ended, whatever became of them."""

from __future__ import annotations

import anyio
import pytest
from waiting import until

from grainlike import Cores, Executor, GraphError, cancel, delayed, delayed_value, gather, info, wait

pytestmark = pytest.mark.anyio


@delayed
async def give(x: int) -> int:
    return x


@delayed
async def fail() -> None:
    raise ValueError("told")


@delayed
async def stay(began: list[int]) -> None:
    began.append(1)
    await anyio.sleep_forever()


async def test_it_starts_all_and_returns_them_when_all_have_ended() -> None:
    async with Executor(local=Cores(2)):
        a_, b_, ready_ = (give @ Cores(1))(1), fail(), delayed_value(3)
        done = await wait(a_, b_, ready_)
        assert done == [a_, b_, ready_]
        assert [info(r_).state for r_ in done] == ["succeeded", "failed", "succeeded"]
        assert await wait(give(i) for i in range(0)) == []
        assert [await r_ for r_ in await wait(give(i) for i in range(3))] == [0, 1, 2]
        with pytest.raises(ValueError, match="told"):
            await b_


async def test_the_same_placeholder_twice_and_a_gather_are_waited_for() -> None:
    async with Executor(local=Cores(1)):
        a_ = give(1)
        both_ = gather(a_, give(2))
        assert await wait(both_, a_, a_) == [both_, a_, a_]
        assert info(both_).state == info(a_).state == "succeeded"


async def test_one_that_is_cancelled_ends_the_wait() -> None:
    began: list[int] = []
    async with Executor(local=None), anyio.create_task_group() as tasks:
        r_ = stay(began)
        tasks.start_soon(wait, r_)
        await until(lambda: began)
        cancel(r_)
    assert info(r_).state == "cancelled"


async def test_being_cancelled_cancels_what_nothing_else_awaits() -> None:
    began: list[int] = []
    async with Executor(local=None):
        alone_, shared_ = stay(began), stay(began)
        async with anyio.create_task_group() as other:
            other.start_soon(wait, shared_)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait, alone_, shared_)
                await until(lambda: len(began) == 2)
                tasks.cancel_scope.cancel()
            await until(lambda: info(alone_).state == "cancelled")
            assert info(shared_).state == "running"
            other.cancel_scope.cancel()


async def test_what_is_no_placeholder_is_refused() -> None:
    async with Executor(local=None):
        for bad in (5, {"a": give(1)}, "text"):
            with pytest.raises(TypeError, match="wait takes placeholders"):
                await wait(bad)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="expected a placeholder"):
            await wait(give(1), 5)  # type: ignore[call-overload]


async def test_a_call_of_another_executor_is_refused() -> None:
    async with Executor(local=None):
        began: list[int] = []
        r_ = stay(began)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait, r_)
            await until(lambda: began)
            async with Executor(local=None):
                with pytest.raises(GraphError, match="another executor"):
                    await wait(r_)
            tasks.cancel_scope.cancel()

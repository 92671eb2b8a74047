"""`replicate` as a program sees it: what it waits for, what it refuses, and what there is nothing to do about."""

from __future__ import annotations

import anyio
import pytest
from plain_calls import make
from waiting import until

from grainlike import (
    Cores,
    Executor,
    GraphError,
    ValueLostError,
    cancel,
    connect,
    delayed,
    delayed_value,
    gather,
    info,
    replicate,
    start,
)

pytestmark = pytest.mark.anyio

SIZE = 300_000


@delayed
async def fail() -> bytes:
    raise ValueError("told")


@delayed
async def stay(began: list[int]) -> None:
    began.append(1)
    await anyio.sleep_forever()


job = make @ Cores(1)


async def test_it_starts_what_it_is_given_and_where_there_is_one_worker_that_is_enough() -> None:
    async with Executor(local=Cores(2)):
        a_, b_, c_ = job(1), job(2), job(3)
        await replicate(a_, 2)
        assert info(a_).where == ("local",)
        await replicate((r_ for r_ in (a_, b_)), "all")
        await replicate(gather(b_, c_), 3)
        assert [info(r_).where for r_ in (b_, c_)] == [("local",)] * 2
        assert all(r_._node.stays for r_ in (a_, b_, c_))  # nothing was fetched
        assert (await c_)[0] == 3
        await replicate(c_, 2)


async def test_small_values_and_those_of_the_program_alone_are_no_matter_for_it() -> None:
    async with Executor(local=Cores(1)):
        small_ = (delayed(int) @ Cores(1))(3)
        await replicate([small_, delayed_value(b"x" * SIZE), delayed(len)("abc")], 2)
        assert await small_ == 3
        await replicate([], 2)


async def test_the_error_of_a_call_is_raised() -> None:
    async with Executor(local=Cores(1)):
        with pytest.raises(ValueError, match="told"):
            await replicate([job(1), fail()], 2)


@pytest.mark.parametrize("copies", [0, -1, "both", ""])
async def test_a_number_below_one_is_refused(copies) -> None:
    async with Executor(local=Cores(1)):
        a_ = job(1)
        with pytest.raises(ValueError, match='from 1 on, or "all", not'):
            await replicate(a_, copies)
        assert info(a_).state == "lazy"
        cancel(a_)


async def test_any_number_may_be_larger_than_there_are_workers() -> None:
    async with Executor(local=Cores(1), listen="tcp://127.0.0.1:0") as head, connect(head.address):
        a_ = job(1)
        await replicate(a_, 10**30)
        assert info(a_).where == ("local",)


async def test_without_a_number_and_a_url_it_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"not nothing: replicate\(r_, 2\), or a URL for a copy: replicate\(r_, to="):
        await replicate(5)  # type: ignore[call-overload]


@pytest.mark.parametrize("copies", [1.5, True, delayed_value(2)])
async def test_what_is_no_number_is_refused(copies) -> None:
    async with Executor(local=Cores(1)):
        with pytest.raises(TypeError, match=r"number of replicas, or .all., not"):
            await replicate(delayed_value(1), copies)


async def test_what_is_no_placeholder_is_refused() -> None:
    async with Executor(local=Cores(1)):
        for bad in (5, {"a": delayed_value(1)}, "text"):
            with pytest.raises(TypeError, match="replicate takes placeholders"):
                await replicate(bad, 2)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="expected a placeholder"):
            await replicate([5], 2)  # type: ignore[list-item]


async def test_being_cancelled_cancels_what_nothing_else_awaits() -> None:
    began: list[int] = []
    async with Executor(local=None):
        alone_, shared_ = stay(began), start(stay(began))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(replicate, [alone_, shared_], 2)
            await until(lambda: len(began) == 2)
            tasks.cancel_scope.cancel()
        await until(lambda: info(alone_).state == "cancelled")
        assert info(shared_).state == "running"
        cancel(shared_)


async def test_a_call_of_another_executor_is_refused() -> None:
    async with Executor(local=None):
        began: list[int] = []
        r_ = start(stay(began))
        async with Executor(local=None):
            with pytest.raises(GraphError, match="another executor"):
                await replicate(r_, 2)
        cancel(r_)


async def test_after_the_end_of_its_executor_only_what_the_program_has_is_left() -> None:
    async with Executor(local=Cores(1)):
        here_, there_ = job(1), job(2)
        await here_
        await replicate(there_, 2)
    await replicate(here_, 2)
    with pytest.raises(ValueLostError, match="executor has closed"):
        await replicate(there_, 2)


async def test_a_copy_of_another_executors_value_is_refused(tmp_path) -> None:
    async with Executor(local=Cores(1)):
        a_ = job(1)
        await replicate(a_, 1)
        async with Executor(local=Cores(1)):
            with pytest.raises(GraphError, match="the executor that has the value"):
                await replicate(a_, to=tmp_path.as_uri())
        await replicate(a_, to=tmp_path.as_uri())


async def test_no_place_and_no_number_is_refused() -> None:
    async with Executor(local=Cores(1)):
        with pytest.raises(TypeError, match="takes a number of replicas"):
            await replicate(delayed_value(1))  # type: ignore[call-overload]
        with pytest.raises(ValueError, match="takes a URL such as"):
            await replicate(delayed_value(1), to="scratch")

"""Operators on values that are there need no executor, no loop and no worker."""

from __future__ import annotations

import asyncio

import pytest

from grainlike import Cores, Executor, delayed, delayed_value, gather, info, start
from grainlike.graph import Node, node_behind

pytestmark = pytest.mark.anyio


@delayed
async def three() -> int:
    return 3


async def test_ready_operators_are_applied_where_no_executor_is_open():
    before = _tasks()
    value_ = delayed_value(2) + 1
    assert await value_ == 3
    assert await gather(value_ * 2, [delayed_value([1, 2])[0]], 7) == [6, [1], 7]
    assert info(value_).state == "succeeded"
    assert _tasks() == before  # no implicit executor was opened


def _tasks() -> set[asyncio.Task[object]]:
    try:
        return asyncio.all_tasks()
    except RuntimeError:  # on trio there are no implicit ones
        return set()


async def test_what_an_executor_has_finished_is_ready_after_it():
    async with Executor(local=None):
        done_ = start(three())
        assert await done_ == 3
    assert await (done_ + 1) == 4


async def test_a_chain_of_ready_operators_is_a_loop():
    total_ = delayed_value(0)
    for _ in range(20_000):
        total_ = total_ + 1
    assert await total_ == 20_000


async def test_errors_of_ready_operators_are_those_of_their_placeholders():
    wrong_ = delayed_value(1) / 0
    for r_ in (gather(wrong_, 2), wrong_, wrong_ + 1):
        with pytest.raises(ZeroDivisionError):
            await r_
    assert info(wrong_).state == "failed"


def test_ready_operators_may_be_started_outside_of_any_loop():
    r_ = start(delayed_value(2) + 1)
    assert info(r_).state == "succeeded"


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_an_operator_on_a_call_needs_one(anyio_backend):
    assert anyio_backend == "trio"
    for r_ in (three() + 1, delayed_value(2) + (three @ Cores(1))(), gather(delayed_value(2), three())):
        with pytest.raises(RuntimeError, match="no executor is open"):
            await r_
        assert info(r_).state == "lazy"


async def test_an_open_executor_applies_them_itself():
    async with Executor(local=None) as executor:
        r_ = delayed_value(2) + 1
        node: Node = node_behind(r_)
        assert await r_ == 3
        assert node.owner is executor


@delayed
def large(number: int) -> bytes:
    return bytes([number]) * 300_000


async def test_the_error_of_an_operator_names_the_calls_that_gave_its_values():
    async with Executor(local=Cores(1)):
        for operation, words in (
            (lambda: (large @ Cores(1))(3) + "x", "operator +, in this program, on the value of large (job {job})"),
            (lambda: (large @ Cores(1))(3)[10**9], "an index, in this program, on the value of large (job {job})"),
            (lambda: three() + "x", "operator +, in this program, on the value of three"),
        ):
            wrong_ = operation()
            (made_,) = wrong_._node.deps
            with pytest.raises((TypeError, IndexError)) as told:
                await wrong_
            job = 0 if made_.record is None else made_.record.job
            assert told.value.__notes__ == ["grainlike: " + words.format(job=job)]
            with pytest.raises((TypeError, IndexError)) as again:
                await wrong_
            assert again.value.__notes__ == told.value.__notes__


async def test_an_error_that_takes_no_notes_is_raised_as_it_is():
    class Odd(Exception):
        def __init__(self) -> None:
            self.__notes__ = 5

    class Bad:
        def __add__(self, other: object) -> object:
            raise Odd

    async with Executor(local=None):
        with pytest.raises(Odd):
            await (delayed(Bad)() + 1)

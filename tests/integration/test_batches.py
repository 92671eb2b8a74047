"""Calls that are alike are made, sent, run and settled by the batch: nobody notices, whatever one of them does."""

import asyncio
import os
import time
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from limits import LIMIT_S

from grainlike import GVAR, Cores, Executor, cancel, delayed, gather, info, start
from grainlike.errors import JobCancelledError, SerializationError

pytestmark = pytest.mark.anyio

MANY = 60
KNOWN = 20
"""After so many calls a function is known to be tiny, and its jobs share leases."""

seen: ContextVar[int] = ContextVar("seen", default=-1)


def refuse() -> None:
    raise LookupError("it is not for here")


class Unloadable:
    """Can be dumped, and not loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return refuse, ()


@delayed
async def some(x: int) -> Any:
    before = seen.get()
    seen.set(x)
    assert before == -1, "a context of its own"
    if x == 7:
        return Unloadable()
    if x == 11:
        raise ValueError("eleven")
    return [x] if x % 2 else x


async def test_one_of_a_batch_that_fails_or_has_no_readable_value_is_the_only_one():
    job = some @ Cores(1)
    async with Executor(local=Cores(1)):
        await gather(job(2 * x) for x in range(100, 100 + KNOWN))
        made = [start(job(x)) for x in range(MANY)]
        for x, value_ in enumerate(made):
            if x in (7, 11):
                with pytest.raises(SerializationError if x == 7 else ValueError):
                    await value_
            else:
                assert await value_ == ([x] if x % 2 else x)
        assert [info(value_).state for value_ in made].count("failed") == 2


@delayed
async def told(*args: int, more: int = 0) -> tuple[tuple[int, ...], int, int | None]:
    return args, more, GVAR.job.id if GVAR.job is not None else None


async def test_each_of_a_batch_has_its_own_arguments_and_number_in_the_order_of_calls():
    job = told @ Cores(1)
    async with Executor(local=Cores(1)):
        alike = await gather(job(x, x) for x in range(MANY))
        mixed = await gather(job(x, more=x) if x % 3 else job(x) for x in range(MANY))
    assert [args for args, _, _ in alike] == [(x, x) for x in range(MANY)]
    assert [(args, more) for args, more, _ in mixed] == [((x,), x if x % 3 else 0) for x in range(MANY)]
    numbers = [number for _, _, number in alike + mixed]
    assert numbers == list(range(1, 2 * MANY + 1))


async def test_the_last_of_a_batch_is_wanted_no_more_when_the_first_has_run():
    job = some @ Cores(1)
    async with Executor(local=Cores(1)):
        await gather(job(2 * x) for x in range(100, 100 + KNOWN))
        made = [start(job(2 * x)) for x in range(100, 100 + MANY)]
        cancel(made[-1])
        assert await gather(made[:-1]) == [2 * x for x in range(100, 99 + MANY)]
        with pytest.raises(JobCancelledError):
            await made[-1]


rebuilt: list[int] = []
neighbours: list[Any] = []


def rebuild(x: int) -> int:
    rebuilt.append(x)
    if x == 30:
        for neighbour_ in neighbours[31:33]:
            cancel(neighbour_)
    if x == 40:
        raise LookupError("it is not for here")
    return x


class Watched:
    """Is `x` once it is rebuilt, which is noted; 30 cancels others then, and 40 cannot be."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuild, (self.x,)


@delayed
async def watched(x: int) -> Any:
    return Watched(x)


async def test_what_rebuilds_a_value_may_cancel_others_of_its_batch_and_is_run_once():
    job = watched @ Cores(1)
    async with Executor(local=Cores(1)) as executor:
        await gather(job(100 + x) for x in range(KNOWN))
        rebuilt.clear()
        neighbours[:] = [start(job(x)) for x in range(MANY)]
        for x, value_ in enumerate(neighbours):
            if x in (31, 32, 40):
                with pytest.raises(SerializationError if x == 40 else JobCancelledError):
                    await value_
            else:
                assert await value_ == x
        assert max(map(rebuilt.count, set(rebuilt) - {40})) == 1
        totals = executor.report()
        assert (totals.succeeded, totals.failed, totals.cancelled) == (KNOWN + MANY - 3, 1, 2)
        neighbours.clear()
        assert await job(7) == 7


async def test_what_rebuilds_a_value_may_cancel_calls_that_the_head_assigns_as_that_came():
    async with Executor(local=Cores(1)) as executor:
        for at in range(1, 5):
            made = [(watched @ Cores(1))(30 if x == 0 else x) for x in range(6)]
            neighbours[:] = [None] * 31 + made[at : at + 2]
            ended = await gather(made, return_exceptions=True)
            cancelled = [x for x, value in enumerate(ended) if type(value) is JobCancelledError]
            assert cancelled == [at, at + 1]
            assert [value for x, value in enumerate(ended) if x not in cancelled] == [
                30,
                *(x for x in range(1, 6) if x not in cancelled),
            ]
        totals = executor.report()
        assert (totals.succeeded, totals.failed, totals.cancelled) == (16, 0, 8)
        neighbours.clear()


calls: list[Any] = []


class Cancelling:
    """Cancels some of `calls` when it is packed."""

    def __init__(self, *which: int) -> None:
        self.which = which

    def __reduce__(self) -> tuple[Any, ...]:
        for number in self.which:
            cancel(calls[number])
        return int, ()


def closing_over(held: Any) -> Any:
    @delayed
    async def function(x: Any) -> Any:
        return held, x

    return function @ Cores(1)


@pytest.mark.parametrize("where", ["function", "arguments"])
async def test_what_a_call_is_packed_by_may_cancel_it_and_others_of_its_batch(where):
    held = Cancelling(0, 1, 3)
    async with Executor(local=Cores(1), on_failure="continue") as executor:
        if where == "function":
            job = closing_over(held)
            calls[:] = [job(x) for x in range(5)]
        else:
            job = closing_over(0)
            calls[:] = [job(x) for x in (0, 1, Cancelling(0), Cancelling(1, 3), 4)]
        start(gather(calls))  # so they are sent together
        outcomes: list[Any] = []
        for call_ in calls:
            try:
                outcomes.append(await call_)
            except JobCancelledError:
                outcomes.append("cancelled")
        middle = 2 if where == "function" else 0
        assert outcomes == ["cancelled", "cancelled", (0, middle), "cancelled", (0, 4)]
        totals = executor.report()
        assert (totals.succeeded, totals.failed, totals.cancelled) == (2, 0, 3)
        calls.clear()


class Raising:
    def __reduce__(self) -> tuple[Any, ...]:
        raise asyncio.CancelledError("no")


async def test_a_function_that_raises_anything_when_it_is_packed_costs_others_of_its_batch_nothing():
    bad, good = closing_over(Raising()), some @ Cores(1)
    async with Executor(local=Cores(1), on_failure="continue"):
        made = [bad(1), bad(2), good(2), bad(3), good(4)]
        start(gather(made))  # so they are sent together
        with anyio.fail_after(LIMIT_S):
            for value_ in (made[0], made[1], made[3]):
                with pytest.raises(SerializationError, match="closure variable 'held'"):
                    await value_
            assert [await made[2], await made[4]] == [2, 4]


@delayed
def pid(_: int) -> int:
    return os.getpid()


def be_held_up() -> None:
    """Have this process held up whenever it has told of its last outcomes, as a busy machine may do."""
    from grainlike_worker.runner.process import _runner

    flush = _runner.ProcessRunner._flush

    def slow(runner: Any, lease: Any) -> None:
        flush(runner, lease)
        time.sleep(0.05)

    _runner.ProcessRunner._flush = slow  # type: ignore[method-assign]


async def test_a_process_that_is_held_up_between_two_batches_goes_on_with_the_next():
    job = pid @ Cores(1)
    async with Executor(local=Cores(1)):
        await gather(job(x) for x in range(100))
        await (delayed(be_held_up) @ Cores(1))()
        pids = await gather(job(x) for x in range(40))
        for many in (20, 3, 20, 3):
            pids += await gather(job(x) for x in range(many))
        assert len(set(pids)) == 1

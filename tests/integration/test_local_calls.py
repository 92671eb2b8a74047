"""Calls without resources keep what `timeout=` and `retries=` promise, as jobs do."""

from __future__ import annotations

import threading

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import Executor, JobCancelledError, JobTimeoutError, cancel, delayed, gather, start
from grainlike.graph import node_behind

pytestmark = pytest.mark.anyio


async def test_a_coroutine_past_its_timeout_is_cancelled_and_its_finally_runs():
    ended = []

    @delayed(timeout=0.05)
    async def endless():
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(True)

    async with Executor(local=None):
        with pytest.raises(JobTimeoutError, match=r"endless ran past its timeout of 0\.05 s"):
            await endless()
    assert ended == [True]


async def test_a_thread_past_its_timeout_is_answered_for_at_once_and_waited_for_at_the_end():
    release, begun, left = threading.Event(), [], []

    @delayed(timeout=0.05)
    def stuck():
        begun.append(True)
        release.wait(LIMIT_S)
        left.append(True)

    async with Executor(local=None):
        while not begun:  # on a busy machine the time may be over before there is a thread
            with pytest.raises(JobTimeoutError):
                await stuck()
        assert not left
        release.set()
    assert left == begun


@pytest.mark.parametrize("retries", [0, 2, 3])
async def test_a_failing_call_is_tried_again_as_often_as_was_said(retries):
    tries = []

    @delayed(retries=retries)
    async def flaky():
        tries.append(True)
        if len(tries) < 4:
            raise OSError("not yet")
        return len(tries)

    async with Executor(local=None):
        if retries == 3:
            assert await flaky() == 4
        else:
            with pytest.raises(OSError, match="not yet"):
                await flaky()
    assert len(tries) == retries + 1


async def test_each_attempt_has_the_whole_timeout():
    tries = []

    @delayed(retries=1, timeout=0.2)
    async def slow_once():
        tries.append(True)
        if len(tries) == 1:
            await anyio.sleep_forever()
        return "done"

    async with Executor(local=None):
        assert await slow_once() == "done"


async def test_calls_start_in_the_order_of_their_graph():
    begun = []

    @delayed
    async def call(n):
        begun.append(n)
        await anyio.lowlevel.checkpoint()

    async with Executor(local=None):
        for _ in range(10):  # trio shuffles tasks by a toss of a coin
            await gather(call(n) for n in range(50))
            assert begun == list(range(50))
            begun.clear()
            calls = [delayed(int)() for _ in range(30)]
            await gather(calls)
            times = [node_behind(r_).record.began for r_ in calls]
            assert times == sorted(times)


async def test_calls_that_have_not_begun_end_with_those_that_have():
    begun = []

    @delayed
    async def call(n):
        begun.append(n)
        cancel(all_)
        await anyio.sleep_forever()

    async with Executor(local=None):
        all_ = start(gather(call(n) for n in range(50)))
        with pytest.raises(JobCancelledError):
            await all_
        assert await delayed(anyio.lowlevel.checkpoint)() is None
    assert begun == [0]

"""Calls without resources keep what `timeout=` and `retries=` promise, as jobs do."""

from __future__ import annotations

import threading

import anyio
import pytest

from grainlike import Executor, JobTimeoutError, delayed

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
        release.wait(30)
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

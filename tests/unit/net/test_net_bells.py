"""A bell is an event for one who waits, on every loop."""

import anyio
import pytest
from limits import LIMIT_S

from grainlike.eventloop import new_wakeup

pytestmark = pytest.mark.anyio


async def test_who_waits_goes_on_when_it_is_set_and_not_before() -> None:
    bell = new_wakeup()()
    trace: list[str] = []

    async def wait() -> None:
        await bell.wait()
        trace.append("gone on")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        trace.append("set")
        bell.set()
        bell.set()
    assert trace == ["set", "gone on"]


async def test_nobody_waits_for_what_is_set() -> None:
    bell = new_wakeup()()
    bell.set()
    with anyio.fail_after(LIMIT_S):
        await bell.wait()


async def test_to_set_it_for_one_who_has_given_up_is_no_error() -> None:
    bell = new_wakeup()()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await bell.wait()
    assert scope.cancelled_caught
    bell.set()

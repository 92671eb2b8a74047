"""Cancellation of asyncio tasks that is repeated until it takes effect."""

import asyncio
import logging
import re

import pytest
from limits import LIMIT_S

from grainlike.eventloop import RepeatedCancellation, _cancellation, held_up

pytestmark = pytest.mark.asyncio


@pytest.fixture(autouse=True)
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_cancellation, "GRACE_S", 0.01)
    monkeypatch.setattr(_cancellation, "EVERY_S", 0.01)


async def _swallow(times: int, begun: asyncio.Event) -> None:
    begun.set()
    for _ in range(times):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue
    await asyncio.Event().wait()


async def test_a_task_that_swallows_cancellations_is_cancelled_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(_swallow(3, begun))
    await begun.wait()
    with caplog.at_level(logging.WARNING, "grainlike"):
        cancellation = RepeatedCancellation(task, "f (job 7)")
        assert __file__ in held_up()["f (job 7)"]
        await asyncio.wait([task], timeout=LIMIT_S)
        cancellation.settled()
    assert task.cancelled()
    assert "f (job 7)" not in held_up()
    (said,) = caplog.messages
    assert "f (job 7) was cancelled" in said
    assert re.search(rf"{re.escape(__file__)}:\d+ in _swallow", said)
    assert "in wait (awaited" in said


async def test_a_task_group_passes_on_what_its_tasks_swallowed_before() -> None:
    begun = asyncio.Event()

    async def parent() -> None:
        async with asyncio.TaskGroup() as group, asyncio.TaskGroup() as inner:
            inner.create_task(_swallow(2, begun))
            group.create_task(_swallow(1, begun))

    task = asyncio.create_task(parent())
    await begun.wait()
    cancellation = RepeatedCancellation(task, "parent")
    await asyncio.wait([task], timeout=LIMIT_S)
    cancellation.settled()
    assert task.cancelled()


async def test_every_cancellation_says_the_reason() -> None:
    """To the task at first and again, and to those of a group of its, which are cancelled themselves only later."""
    begun = asyncio.Event()
    heard: dict[str, list[tuple[object, ...]]] = {"parent": [], "child": []}

    async def stubborn(name: str, times: int) -> None:
        begun.set()
        for _ in range(times):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as error:
                heard[name].append(error.args)

    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(stubborn("child", 2))
            await stubborn("parent", 2)

    task = asyncio.create_task(parent())
    await begun.wait()
    cancellation = RepeatedCancellation(task, "parent", reason="walltime")
    await asyncio.wait([task], timeout=LIMIT_S)
    cancellation.settled()
    assert heard["parent"] == [("walltime",), ("walltime",)]
    assert heard["child"][-1] == ("walltime",)


async def test_a_cancellation_without_a_reason_is_a_plain_one() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    cancellation = RepeatedCancellation(task, "f")
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    cancellation.settled()
    assert caught.value.args == ()


async def test_what_has_settled_is_left_alone() -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(_swallow(1, begun))
    await begun.wait()
    RepeatedCancellation(task, "f").settled()
    other = asyncio.create_task(_swallow(5, begun))
    await asyncio.sleep(0)
    cancellation = RepeatedCancellation(other, "g")
    await asyncio.wait([other])  # which takes as many graces
    cancellation.settled()
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])


async def test_the_place_is_found_through_awaited_tasks_and_async_generators() -> None:
    begun = asyncio.Event()

    async def items():  # type: ignore[no-untyped-def]
        yield 1
        await asyncio.create_task(_swallow(0, begun))

    async def reader() -> None:
        async for _ in items():
            pass

    task = asyncio.create_task(reader())
    await begun.wait()
    assert "in _swallow" in _cancellation.place_of(task.get_coro())
    task.cancel()
    await asyncio.wait([task])

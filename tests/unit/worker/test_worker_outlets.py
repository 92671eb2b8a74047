"""Streams in the runner of coroutines, driven by frames over a memory link, on both event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from memory_links import all_wait

from grainlike.context import GVAR
from grainlike.net import Link, memory_pair
from grainlike.payload import Payload, dump_arguments, dump_function, load_error, load_value
from grainlike.wire import (
    WINDOW_BYTES,
    WINDOW_ITEMS,
    Code,
    Completed,
    Credit,
    Define,
    Frame,
    FunctionSpec,
    Items,
    Run,
    Setup,
    Stop,
    unpack_parcels,
)
from grainlike_worker.runner.common._functions import Many
from grainlike_worker.runner.loop._runner import serve_shared

pytestmark = pytest.mark.anyio

said: list[Any] = []
"""What generators did; they run in this very process."""


class Reader:
    """The daemon's side, in little: starts streams, takes what comes, gives credit when told to."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.items: dict[int, list[Any]] = {}
        self.ends: dict[int, tuple[Code, Any]] = {}

    def start(self, job: int, fn: Callable[..., Any], *args: object) -> None:
        blob = dump_function(fn)
        self.link.post(Define([FunctionSpec(job, blob.digest, fn.__name__, True, None)], []), [blob.data])
        data = [dump_arguments(args, {}, what="f").data]
        self.link.post(Run(job, "cores=[3]", [job], [1], [job], [None], data, []))
        self.items[job] = []

    def credit(self, job: int, items: int, size: int = 0) -> None:
        self.link.post(Credit(job, 1, items, size))

    def on_frames(self, frames: list[Frame]) -> None:
        for message, buffers in frames:
            if isinstance(message, Items):
                assert message.job not in self.ends, "an item after the end"
                for data, views in unpack_parcels(message.data, message.counts, buffers):
                    self.items[message.job].append(load_value(Payload(data, tuple(views))))
            elif isinstance(message, Completed):
                (job,), (code,) = message.jobs, message.codes
                ((data, views),) = unpack_parcels(message.data, message.counts, buffers)
                load = load_error if code == Code.FAILED else load_value
                self.ends[job] = (Code(code), load(Payload(data, tuple(views))) if data else None)


@asynccontextmanager
async def a_runner() -> AsyncIterator[Reader]:
    said.clear()
    near, far = memory_pair()
    reader = Reader(near)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_shared, far)
        tasks.start_soon(near.run, reader.on_frames)
        near.post(Setup("node-1", []))
        yield reader
        near.close()


async def count(n: int) -> AsyncIterator[int]:
    try:
        for i in range(n):
            said.append(i)
            yield i
    finally:
        await anyio.lowlevel.checkpoint()
        said.append("closed")


async def large() -> AsyncIterator[bytearray]:
    while True:
        said.append("made")
        yield bytearray(WINDOW_BYTES // 2)


async def mixed() -> AsyncIterator[object]:
    try:
        yield 1
        yield (i for i in range(2))
    finally:
        said.append("closed")


async def waits() -> AsyncIterator[int]:
    try:
        yield 0
        await anyio.sleep_forever()
    finally:
        said.append(GVAR.job.id if GVAR.job else None)


async def stubborn() -> AsyncIterator[int]:
    yield 0
    try:
        await anyio.sleep_forever()
    except BaseException:  # noqa: BLE001 - the cancellation of either loop
        said.append("goes on")
    try:
        yield 1
        said.append("goes on and on")
    finally:
        said.append("closed")


async def fails() -> AsyncIterator[int]:
    yield 1
    yield 2
    raise KeyError("third")


async def test_a_generator_takes_no_step_for_which_there_is_no_room() -> None:
    async with a_runner() as reader:
        reader.start(1, count, 1000)
        await all_wait(reader.link)
        assert reader.items[1] == said == list(range(WINDOW_ITEMS))
        reader.credit(1, 3)
        await all_wait(reader.link)
        assert reader.items[1] == said == list(range(WINDOW_ITEMS + 3))
        assert not reader.ends
        reader.credit(1, 10_000)
        await all_wait(reader.link)
    assert (reader.items[1], reader.ends[1]) == (list(range(1000)), (Code.SUCCEEDED, None))


async def test_large_items_close_the_window_by_their_size() -> None:
    async with a_runner() as reader:
        reader.start(1, large)
        await all_wait(reader.link)
        assert len(said) == 2
        reader.credit(1, 1, WINDOW_BYTES // 2)
        await all_wait(reader.link)
        assert [len(item) for item in reader.items[1]] == [WINDOW_BYTES // 2] * len(said)
        assert len(said) == 3


async def test_one_that_nobody_reads_does_not_hold_up_another() -> None:
    async with a_runner() as reader:
        reader.start(1, count, 1000)
        reader.start(2, count, 10)
        await all_wait(reader.link)
        assert (len(reader.items[1]), reader.ends) == (WINDOW_ITEMS, {2: (Code.SUCCEEDED, None)})
        reader.credit(77, 5)  # a stream that has ended, or never was


async def test_an_error_comes_after_the_items_before_it() -> None:
    async with a_runner() as reader:
        reader.start(1, fails)
        await all_wait(reader.link)
    code, error = reader.ends[1]
    assert (reader.items[1], code, repr(error)) == ([1, 2], Code.FAILED, "KeyError('third')")


async def test_an_item_that_cannot_travel_ends_it_and_closes_the_generator() -> None:
    async with a_runner() as reader:
        reader.start(1, mixed)
        await all_wait(reader.link)
    code, error = reader.ends[1]
    assert (reader.items[1], code, said) == ([1], Code.FAILED, ["closed"])
    assert "the value of mixed" in str(error)


@pytest.mark.parametrize("waits_for", ["credit", "something"])
async def test_a_stop_closes_the_generator_wherever_it_waits(waits_for: str) -> None:
    async with a_runner() as reader:
        reader.start(1, count if waits_for == "credit" else waits, *[1000] * (waits_for == "credit"))
        await all_wait(reader.link)
        reader.link.post(Stop([1]))
        await all_wait(reader.link)
        assert reader.ends[1][0] == Code.CANCELLED
    assert said[-1] == ("closed" if waits_for == "credit" else 1)


async def test_a_generator_that_ignores_its_cancellation_is_closed_at_its_next_yield() -> None:
    async with a_runner() as reader:
        reader.start(1, stubborn)
        await all_wait(reader.link)
        reader.link.post(Stop([1]))
        await all_wait(reader.link)
        assert set(reader.ends) == {1}
    assert said == ["goes on", "closed"]


def calls(*arguments: object) -> list[bytes]:
    return [bytes(dump_arguments((argument,), {}, what="f").data) for argument in arguments]


async def test_many_calls_give_values_up_to_the_first_failure() -> None:
    many = Many(lambda x: 12 // x, "the value of f")
    values, failure = many(calls(1, 2, 0, 3))
    assert [load_value(Payload(data, tuple(buffers))) for data, buffers in values] == [12, 6]
    assert failure is not None
    error = load_error(Payload(failure[0], tuple(failure[1])))
    assert isinstance(error, ZeroDivisionError)
    assert Many(str, "s")(calls(1))[1] is None


async def test_each_of_many_calls_has_a_context_of_its_own() -> None:
    from contextvars import ContextVar

    mark: ContextVar[int] = ContextVar("mark", default=0)

    def marked(x: int) -> int:
        before = mark.get()
        mark.set(x)
        return before

    values, _ = Many(marked, "m")(calls(1, 2, 3))
    assert [load_value(Payload(data, ())) for data, _ in values] == [0, 0, 0]


async def test_a_value_that_cannot_travel_is_the_failure_of_its_own_call() -> None:
    values, failure = Many(lambda x: x or (i for i in ()), "the value of f")(calls(1, 0, 2))
    assert len(values) == 1
    assert failure is not None
    assert "the value of f" in str(load_error(Payload(failure[0], tuple(failure[1]))))

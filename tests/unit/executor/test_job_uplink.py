"""Awaits inside a job, on the job's side of its connection to the head."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from grainlike.graph import RunsIn
from grainlike.nested._uplink import JobUplink
from grainlike.wire import Awaits, GoesOn


class Remote:
    """A call that the head has."""

    finished = False
    place = RunsIn.REMOTE
    record = object()


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # of the task that is left behind
    yield loop
    loop.close()


def test_a_job_whose_loop_was_closed_under_a_wait_for_cores_ends_all_the_same(loop: asyncio.AbstractEventLoop) -> None:
    # As a signal does whose handler raises, where it comes again while the loop of `result(r_)` is closed.
    said: list[Any] = []
    closed: list[bool] = []
    stand_in: Any = SimpleNamespace(id=1, attempt=1, post=said.append)

    def close() -> None:
        closed.append(True)
        arrived.set()

    uplink = JobUplink(stand_in, stand_in, stand_in, stand_in, lambda: None, lambda _: None, close)
    arrived, remote = asyncio.Event(), Remote()
    calls: Any = lambda: [remote]  # noqa: E731
    waits = [loop.create_task(uplink.wait(arrived, calls, lambda: None))]
    loop.run_until_complete(asyncio.sleep(0))
    arrived.set()
    loop.run_until_complete(asyncio.sleep(0))
    arrived.clear()
    waits.append(loop.create_task(uplink.wait(arrived, calls, lambda: None)))
    loop.run_until_complete(asyncio.sleep(0))
    assert [type(message) for message in said] == [Awaits, GoesOn]
    loop.close()
    uplink.close()
    assert closed

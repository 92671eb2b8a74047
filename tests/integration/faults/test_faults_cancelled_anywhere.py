"""Cancellation at each step of what users do, on both backends: nothing hangs, and every slot is free again.

A scenario is run again and again; the first time it is cancelled when it waits for the first time, then when it waits
for the second time, and so on, until it comes to its end before that. So it is with turns of the event loop: in each,
the jobs, streams and connections that it has set going are a little further.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from limits import LIMIT_S

from grainlike import (
    Cores,
    Dag,
    Executor,
    JobCancelledError,
    ResourcePool,
    amap,
    as_completed,
    cancel,
    connect,
    delayed,
    gather,
    info,
    run_process,
    start,
)

pytestmark = pytest.mark.anyio

Scenario = Callable[[Executor], Coroutine[Any, Any, None]]
Way = Callable[[Executor, Scenario, int], Coroutine[Any, Any, bool]]

MOST = 60
"""More moments are not tried: a scenario that long waits for a process or a socket by then. Where a process is started,
and killed, each time, only every twentieth is.
"""


@delayed
def plain(value: int) -> int:
    return value


@delayed
async def brief(value: int) -> int:
    await anyio.lowlevel.checkpoint()
    return value


@delayed
async def several(values: int) -> AsyncIterator[int]:
    for value in range(values):
        await anyio.lowlevel.checkpoint()
        yield value


@delayed
async def nesting(value: int) -> int:
    return await (brief @ Cores(1))(value) + 1


@delayed
async def endless() -> None:
    await anyio.sleep_forever()


@delayed
async def rude(value: int) -> int:
    raise ValueError(value)


@types.coroutine
def stepped(made: Coroutine[Any, Any, None], at: int, stop: Callable[[], None]) -> Generator[Any, Any, int]:
    """Run it, call `stop` when it waits for the time number `at`, and return how often it has waited."""
    step: Callable[[], Any] = lambda: made.send(None)  # noqa: E731
    for number in count(1):
        try:
            waits_for = step()
        except StopIteration:
            return number - 1
        if number == at:
            stop()
        try:
            value = yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is theirs
            step = lambda error=error: made.throw(error)  # noqa: E731
        else:
            step = lambda value=value: made.send(value)  # noqa: E731
    raise AssertionError("unreachable")


async def one_coroutine(ex: Executor) -> None:
    assert await (brief @ Cores(1))(3) == 3


async def one_plain_function(ex: Executor) -> None:
    assert await (plain @ Cores(1))(3) == 3


async def a_graph(ex: Executor) -> None:
    made = (brief @ Cores(1))((brief @ Cores(1))(1) + (brief @ Cores(1))(2))
    assert await made == 3


async def a_gather(ex: Executor) -> None:
    assert await gather([(brief @ Cores(1))(i) for i in range(5)]) == [0, 1, 2, 3, 4]


async def started_and_awaited(ex: Executor) -> None:
    job = start((brief @ Cores(1))(1))
    await anyio.lowlevel.checkpoint()
    assert await job == 1


async def given_up(ex: Executor) -> None:
    job = start((brief @ Cores(2))(1))
    await anyio.lowlevel.checkpoint()
    cancel(job)
    with suppress(JobCancelledError):
        await job


async def timed_out(ex: Executor) -> None:
    with anyio.move_on_after(0.005):
        await (endless @ Cores(2))()


async def as_they_come(ex: Executor) -> None:
    jobs = [(brief @ Cores(1))(i) for i in range(3)]
    assert {await job async for job in as_completed(jobs)} == {0, 1, 2}


async def mapped(ex: Executor) -> None:
    assert [value async for value in amap(brief @ Cores(1), range(4), in_flight=2)] == [0, 1, 2, 3]


async def a_stream(ex: Executor) -> None:
    assert [value async for value in (several @ Cores(1))(3)] == [0, 1, 2]


async def jobs_of_jobs(ex: Executor) -> None:
    assert await (nesting @ Cores(1))(1) == 2


async def a_failure(ex: Executor) -> None:
    with pytest.raises(ValueError, match="7"):
        await (rude @ Cores(1))(7)


async def a_local_call(ex: Executor) -> None:
    assert await brief(1) == 1


async def a_task_group(ex: Executor) -> None:
    async def user(i: int) -> None:
        assert await (brief @ Cores(1))(i) == i

    async with anyio.create_task_group() as tasks:
        for i in range(3):
            tasks.start_soon(user, i)


async def a_program(ex: Executor) -> None:
    @delayed
    async def listing() -> int:
        return (await run_process(["true"])).returncode

    assert await (listing @ Cores(1))() == 0


async def an_explanation(ex: Executor) -> None:
    job = start((brief @ Cores(1))(1))
    await ex.explain(job)
    assert info(job).state
    await job


async def an_open_door(ex: Executor) -> None:
    async with Executor(local=Cores(1), listen="tcp://127.0.0.1:0"):
        assert await (brief @ Cores(1))(1) == 1


async def a_client(ex: Executor) -> None:
    async with connect(ex.address):
        assert await gather([(brief @ Cores(1))(i) for i in range(2)]) == [0, 1]


async def a_named_graph(ex: Executor) -> None:
    dag = Dag()
    dag.add("a", brief @ Cores(1), 1)
    assert (await dag.run())["a"].value == 1


async def a_pool(ex: Executor) -> None:
    pool = ResourcePool(Cores(2))
    try:
        async with pool.hold(Cores(2)), anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 0)
    finally:
        assert pool.available == pool.capacities


async def opened_and_closed(ex: Executor) -> None:
    async with Executor(local=Cores(1)):
        assert await (brief @ Cores(1))(1) == 1


async def a_worker_that_is_there(ex: Executor) -> None:
    await ex.wait_for_workers(1)
    assert await (brief @ Cores(2))(1) == 1


SCENARIOS = [
    one_coroutine,
    one_plain_function,
    a_graph,
    a_gather,
    started_and_awaited,
    given_up,
    timed_out,
    as_they_come,
    mapped,
    a_stream,
    jobs_of_jobs,
    a_failure,
    a_local_call,
    a_task_group,
    a_program,
    an_explanation,
    an_open_door,
    a_client,
    a_named_graph,
    a_pool,
    opened_and_closed,
    a_worker_that_is_there,
]


async def by_step(ex: Executor, scenario: Scenario, at: int) -> bool:
    """Cancel it when it waits for the time number `at`; whether it has come to its end before."""
    steps = 0
    with anyio.CancelScope() as scope:
        steps = await stepped(scenario(ex), at, scope.cancel)
    return not scope.cancelled_caught and steps < at


async def by_turn(ex: Executor, scenario: Scenario, at: int) -> bool:
    """Cancel it after so many turns of the loop, wherever all that it has set going is by then."""
    done = False
    async with anyio.create_task_group() as tasks:

        async def run() -> None:
            nonlocal done
            await scenario(ex)
            done = True
            tasks.cancel_scope.cancel()

        tasks.start_soon(run)
        for _ in range(at):
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    return done


@pytest.mark.parametrize("way", [by_step, by_turn], ids=lambda way: way.__name__)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_cancelled_at_any_moment_it_leaves_nothing(
    scenario: Scenario, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with Executor(local=Cores(2), listen="tcp://127.0.0.1:0") as ex:
        for at in range(1, MOST, 20 if scenario is one_plain_function else 1):
            with anyio.fail_after(LIMIT_S):
                done = await way(ex, scenario, at)
                # It takes both cores, and they come when all that was cancelled has ended.
                assert await (brief @ Cores(2))(at) == at
            if done:
                break
        assert at > 1
        assert [worker.running for worker in ex.workers()] == [0]

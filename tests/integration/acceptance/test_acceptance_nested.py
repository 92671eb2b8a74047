"""Jobs that await jobs, with resources and without, from inside a worker."""

import os

import anyio
import pytest
from limits import LIMIT_S
from nested_jobs import (
    act,
    catches,
    each_alone,
    fib,
    gives_up_waiting,
    group,
    in_turn,
    isolated_fib,
    keeps,
    leaves_a_task,
    maps,
    maybe_nests,
    moves,
    plain_fib,
    through_a_local_call,
    told_numbers,
    waits_for,
)
from stagehands import Stage
from waiting import until

from grainlike import Cores, Executor, JobCancelledError, UnsatisfiableError, cancel, delayed, gather, info, start
from grainlike.scheduler import _deadlock_watch

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("level", "n"), [(Cores(4), 12), (Cores(8), 9)])
async def test_a_recursion_needs_no_more_slots_than_one_level_does(executor: Executor, level, n):
    with anyio.fail_after(LIMIT_S):
        assert await (fib @ level)(n, level) == {12: 144, 9: 34}[n]


@pytest.mark.parametrize("function", [isolated_fib, plain_fib])
async def test_jobs_in_processes_of_their_own_await_too(executor: Executor, function):
    assert await (function @ Cores(4))(2, Cores(4)) == 1


@pytest.mark.parametrize("isolate", [False, True])
async def test_a_job_is_told_the_numbers_of_its_own_jobs(executor: Executor, isolate):
    parent_ = (delayed(told_numbers, isolate=isolate) @ Cores(1))(Cores(1))
    for seen, told in await parent_:
        assert seen == told > info(parent_).job > 0


async def _move(stage: Stage, cores: int, *, isolate: bool) -> set[int]:
    fills_ = start((act @ Cores(cores))(stage.path, "fills"))
    await stage.wait_for("fills")
    moves_ = start((delayed(moves, isolate=isolate) @ Cores(cores))(stage.path, cores))
    await stage.wait_for("stays", "fills")
    await stage.cue("fills")
    filled = await fills_
    await stage.wait_for("stays", "ends")
    await stage.cue("ends")
    await stage.wait_for("stays", "moved")
    # The job may be quicker to say so than its worker, who tells the head alone.
    await until(lambda: info(moves_).allocation.cores == filled)
    await stage.cue("moved")
    before, after, in_a_task, affinity = await moves_
    assert set(before).isdisjoint(after)
    assert after == in_a_task == filled
    await stage.wait_gone("stays")
    return affinity


async def test_a_job_may_go_on_on_other_cores_and_sees_them(executor: Executor, stage: Stage):
    await _move(stage, 4, isolate=False)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is only one core to be pinned to")
async def test_its_process_moves_with_it(anyio_backend: object, stage: Stage):
    async with Executor(local=Cores([0, 1])):
        assert await _move(stage, 1, isolate=True) == {0}


async def test_an_error_comes_through_as_its_own_type(executor: Executor):
    said, notes, job, state, worker, attempt, used = await (catches @ Cores(8))()
    name = executor.workers()[0].name
    assert (said, state, worker, attempt, used) == ("down there", "failed", name, 1, True)
    assert job > 1
    assert notes == [f"grainlike: job {job}, on worker {name}, slots cores=[0,1,2,3,4,5,6,7], attempt 1 of fails"]


async def test_cancelling_a_job_cancels_what_it_awaits(executor: Executor, stage: Stage):
    r_ = start((waits_for @ Cores(8))(stage.path, "below"))
    await stage.wait_for("below")
    assert cancel(r_)
    await stage.wait_gone("below")
    with pytest.raises(JobCancelledError):
        await r_


async def test_a_job_that_gives_up_waiting_goes_on_with_its_cores(executor: Executor, stage: Stage):
    r_ = start((gives_up_waiting @ Cores(8))(stage.path))
    await stage.wait_for("takes its cores", "gives up")
    await stage.cue("gives up")

    async def waits() -> bool:
        return (await executor.explain(r_)).reason == "cores"

    await until(waits)  # nor is one that waits for its cores
    await stage.cue("takes its cores")
    await stage.wait_for("goes on")
    await stage.cue("goes on")
    assert await r_ == (1, tuple(range(8)))


async def test_what_a_job_leaves_behind_is_told_of_its_end(executor: Executor, stage: Stage, anyio_backend_name: str):
    if anyio_backend_name == "trio" and executor.address is None:  # no task outlives its job there; so none can start
        with pytest.raises(RuntimeError, match="no running event loop"):
            await (leaves_a_task @ Cores(8))(stage.path)
        return
    await (leaves_a_task @ Cores(8))(stage.path)
    await stage.wait_for("told")
    await stage.cue("told")


async def test_many_tasks_of_a_job_await_at_once(executor: Executor):
    assert await (each_alone @ Cores(8))(20) == [n + n % 2 for n in range(20)]
    assert await (in_turn @ Cores(8))() == 2


async def test_a_job_maps_over_a_source_on_the_cores_that_it_lends(executor: Executor):
    with anyio.fail_after(LIMIT_S):
        assert await (maps @ Cores(8))(40) == [1, 0] * 20


async def test_many_groups_side_by_side(executor: Executor):
    assert await gather((group @ Cores(4))(n) for n in range(50)) == [1] * 50


async def test_calls_without_resources_in_a_job_await_jobs_too(executor: Executor):
    assert await (through_a_local_call @ Cores(4))(4) == 6


async def test_a_call_that_travels_with_others_may_await_jobs(executor: Executor):
    quick = maybe_nests @ Cores(8)
    for _ in range(3):  # the first ones make it known as quick
        chain_ = quick(0)
        for _ in range(12):
            chain_ = quick(chain_)
        assert await chain_ == 13
    chain_ = quick(100)
    for _ in range(12):
        chain_ = quick(chain_)
    assert await chain_ == 113


async def test_two_that_keep_what_the_other_needs_are_told(executor: Executor, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_deadlock_watch, "STUCK_S", 0.2)
    assert await (keeps @ Cores(4))(1) == 1
    with pytest.raises(UnsatisfiableError, match=r"keeps \(job \d+\) holds cores=4 of \w+ and waits for keeps"):
        await (keeps @ Cores(4))(2)


async def test_a_job_that_awaits_is_explained(executor: Executor, stage: Stage):
    r_ = start((waits_for @ Cores(4))(stage.path, "below"))
    await stage.wait_for("below")
    said = await executor.explain(r_)
    assert (said.state, said.reason, len(said.holders)) == ("leased", "jobs", 1)
    assert "waits for its own jobs" in str(said)
    stranger_ = start((act @ Cores(8))(stage.path, "stranger"))
    await until(lambda: info(stranger_).state == "pending")  # a job that waits is no event
    await stage.cue("below")
    await r_
    await stage.wait_for("stranger")
    await stage.cue("stranger")
    await stranger_

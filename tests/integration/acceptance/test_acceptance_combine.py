"""G18, the older front end: wait-groups, subtasks, `exec1` and `run_combine`, on each kind of worker."""

import os

import anyio
import pytest
from stagehands import Stage, appear

from grainlike import GVAR, Cores, Executor, Resource
from grainlike.combine import exec1, open_waitgroup

pytestmark = pytest.mark.anyio


async def double(x):
    return 2 * x


def cores_of(x):
    return x, len(GVAR.res.cores)


async def test_g18_a_waitgroup_runs_jobs_side_by_side_and_gives_their_results_in_order(
    executor: Executor, stage: Stage
):
    path = stage.path

    async def actor(name, value):
        await appear(path, name)
        return value

    async def cue_from_the_last():
        await stage.wait_for("a", "b", "c")
        for name in "cba":
            await stage.cue(name)

    async with anyio.create_task_group() as tasks, open_waitgroup() as wg:
        tasks.start_soon(cue_from_the_last)
        for number, name in enumerate("abc"):
            wg.submit(Cores(2), actor, name, value=number)
    assert wg.results == [0, 1, 2]


async def test_g18_without_a_request_a_job_runs_in_this_program(executor: Executor):
    async with open_waitgroup() as wg:
        wg.submit(None, os.getpid)
        wg.submit(Cores(1), cores_of, "x")
    assert wg.results == [os.getpid(), ("x", 1)]


async def test_g18_blocks_are_parallel_inside_and_sequential_outside(executor: Executor):
    log = []

    async def frame(i):
        for j in range(2):
            async with open_waitgroup() as wg:
                wg.submit(Cores(1), double, 10 * i + j)
                wg.submit(Cores(1), double, 100 + 10 * i + j)
            log.append((i, j))
            last = wg.results
        return last

    async with open_waitgroup() as wg:
        for i in range(3):
            wg.start_subtask(frame, i)
    assert wg.results == [[2 * (10 * i + 1), 2 * (100 + 10 * i + 1)] for i in range(3)]
    assert [j for _, j in sorted(log)] == [0, 1] * 3


async def test_g18_subtasks_may_add_to_the_group_that_waits_for_them(executor: Executor):
    async with open_waitgroup() as wg:

        async def grow(n):
            wg.submit(Cores(1), double, n)
            if n:
                wg.start_subtask(grow, n - 1)
            return n

        wg.start_subtask(grow, 3)
    assert sorted(wg.results) == sorted([3, 2, 1, 0, 6, 4, 2, 0])


async def test_g18_exec1_runs_one_job(executor: Executor):
    assert await exec1(Cores(3), cores_of, x="x") == ("x", 3)
    assert await exec1(None, os.getpid) == os.getpid()


class OddError(Exception):
    pass


async def fails():
    raise OddError("as itself")


@pytest.mark.parametrize("way", ["job", "subtask", "body"])
async def test_g18_an_error_comes_out_as_itself_and_ends_the_rest(executor: Executor, stage: Stage, way):
    path = stage.path

    async def program():
        async with open_waitgroup() as wg:
            wg.submit(Resource("foo", 7), appear, path, "endless")
            await stage.wait_for("endless")
            if way == "job":
                wg.submit(Cores(1), fails)
                await anyio.sleep_forever()  # the error interrupts the body
            elif way == "subtask":
                wg.start_subtask(fails)
            else:
                await fails()

    with pytest.raises(OddError, match="as itself"):
        await program()
    # All of foo is free again, so the endless job has ended.
    assert await exec1(Resource("foo", 7), double, 4) == 8


async def test_g18_a_group_that_failed_has_no_results_and_takes_no_more(executor: Executor):
    groups = []

    async def program():
        async with open_waitgroup() as wg:
            groups.append(wg)
            wg.submit(Cores(1), double, 1)
            wg.submit(Cores(1), fails)

    with pytest.raises(OddError, match="as itself"):
        await program()
    with pytest.raises(RuntimeError, match="without an error"):
        _ = groups[0].results
    with pytest.raises(RuntimeError, match="inside the block"):
        groups[0].submit(Cores(1), double, 1)
    with pytest.raises(RuntimeError, match="inside the block"):
        groups[0].start_subtask(double, 1)


async def test_g18_a_group_of_errors_of_the_users_own_is_left_whole(executor: Executor):
    with pytest.raises(ExceptionGroup, match="mine") as raised:
        async with open_waitgroup():
            raise ExceptionGroup("mine", [OddError(1), OddError(2)])
    assert [type(error) for error in raised.value.exceptions] == [OddError, OddError]


async def test_g18_cancelling_the_block_ends_its_jobs(executor: Executor, stage: Stage):
    path = stage.path
    with anyio.CancelScope() as scope:
        async with open_waitgroup() as wg:
            wg.submit(Resource("foo", 7), appear, path, "endless")
            wg.start_subtask(anyio.sleep_forever)
            await stage.wait_for("endless")
            scope.cancel()
    assert scope.cancelled_caught
    assert await exec1(Resource("foo", 7), double, 4) == 8

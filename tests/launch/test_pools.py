"""Pools of workers on a real Slurm: how many blocks they have, how long, and that nothing is left."""

import asyncio
import os

import pytest
from limits import LIMIT_S
from slurm_pools import ended, opened, pool_row, slurm_pool, until_counted, until_up, where
from waiting import until, until_called, until_files
from weather import Weather, port, way_through

from grainlike import Cores, Nodes, Token, WallTime, cancel, connect, delayed, gather, info, run_process, start
from grainlike.head.fleet import FleetDriver

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]


@pytest.fixture
def usual_trial(monkeypatch, often_listed):
    """Jobs of a new function are tried on one worker, as usual."""
    monkeypatch.setattr("grainlike.scheduler._scale_hint.TRIAL_S", 10.0)


@pytest.fixture
def slow_trial(monkeypatch, often_listed):
    """Jobs of a new function are tried on one worker however long it takes to start, and short ones however long all
    of them take.
    """
    for name in ("scheduler._scale_hint.TRIAL_S", "scheduler._scale_hint.LONG_S", "head.fleet._driver.WITHIN_S"):
        monkeypatch.setattr(f"grainlike.{name}", LIMIT_S)


# --- up and down -----------------------------------------------------------------------------------------------------


async def test_three_workers_are_three_blocks_and_nothing_is_left_when_they_are_taken_down(slurm, submitted):
    asked = slurm_pool("cores=2 memory=500Mi token=cpu", min=3, max=3)
    async with opened() as executor:
        pool = await executor.up(asked, name="cpu")
        rows = await until_up(executor, 3)
        assert [row.label for row in rows] == ["cpu-1", "cpu-2", "cpu-3"]
        assert sorted(row.native for row in rows) == sorted(number for number, _ in submitted.all())
        for worker in executor.workers():
            assert worker.resources.units == {**asked.offer.units}
        assert {worker.name for worker in executor.workers()} == {"cpu-1.0", "cpu-2.0", "cpu-3.0"}
        assert await (where @ Cores(2))() in [row.native for row in rows]
        await pool.down()
        assert executor.pools() == []
        assert submitted.in_queue() == []
        assert [(row.label, row.reason) for row in ended(executor)] == [
            (f"cpu-{number}", "the pool is taken down") for number in (1, 2, 3)
        ]
        assert executor.workers() == []


async def test_an_executor_that_closes_leaves_nothing_in_the_queue(slurm, submitted):
    async with opened(slurm_pool(max=4)) as executor:
        native = await (where @ Cores(1))()
        assert [row.native for row in await until_up(executor, 1)] == [native]
        assert submitted.in_queue() != []
    assert submitted.in_queue() == []


async def test_ten_jobs_have_two_blocks_at_most_which_end_when_they_are_idle(slurm, submitted, gate):
    async with opened(slurm_pool(max=2, idle=1)) as executor:
        jobs = [start(gate.job(number)) for number in range(10)]
        await until_up(executor, 2)
        await until_counted()
        await gate.until_in(2)
        gate.open()
        natives = [await job for job in jobs]
        assert sorted(set(natives)) == sorted(number for number, _ in submitted.all())
        assert len(set(natives)) == 2
        await until(lambda: not executor.blocks())
        assert submitted.in_queue() == []
        assert {row.reason for row in ended(executor)} == {"idle for 1 s"}


async def test_a_block_of_three_nodes_runs_a_gang_and_outlives_one_worker(slurm, submitted):
    async with opened(slurm_pool(nodes=3, min=3, max=3, idle="0:05:00")) as executor:
        (row,) = await until_up(executor, 3)
        assert [number for number, _ in submitted.all()] == [row.native]

        @delayed
        async def over_all():
            done = await run_process(["srun", "-N3", "sh", "-c", "echo $SLURMD_NODENAME"])
            return sorted(done.stdout.decode().split())

        assert len(set(await (over_all @ (Nodes(3, each=Cores(1))))())) == 3
        os.kill(executor.workers()[0].pid, 9)
        await until_up(executor, 2)
        assert await (where @ Cores(1))() == row.native
        assert len(submitted.all()) == 1


async def test_who_is_cancelled_before_the_answer_leaves_a_pool_that_goes_down(slurm, submitted, instead, tmp_path):
    instead.of("sbatch", f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exec "$REAL" "$@"')
    async with opened() as executor:
        asks = asyncio.create_task(executor.up(slurm_pool(min=1), name="cpu"))
        await until(lambda: instead.calls("sbatch"))
        asks.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asks
        (tmp_path / "go").touch()
        await until(lambda: not executor.pools())
        assert len(submitted.all()) == 1
        assert submitted.in_queue() == []


async def test_a_link_that_breaks_before_the_answer_takes_no_pool_down(
    slurm, submitted, instead, tmp_path, monkeypatch
):
    instead.of("sbatch", f'while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exec "$REAL" "$@"')
    up, given_up = FleetDriver.up, asyncio.Event()

    async def ups(*asked, **more):
        try:
            return await up(*asked, **more)
        except asyncio.CancelledError:
            given_up.set()
            raise

    monkeypatch.setattr(FleetDriver, "up", ups)
    async with opened() as executor, Weather(port(executor)) as weather:
        async with connect(way_through(weather, executor, tmp_path, "client")) as program:
            asks = asyncio.create_task(program.up(slurm_pool(min=1), name="cpu"))
            await until(lambda: instead.calls("sbatch"))
            weather.reset()
            await given_up.wait()  # what had asked went with its link; it is asked again over the next
            (tmp_path / "go").touch()
            await asks
            assert [row.label for row in await until_up(program, 1)] == ["cpu-1"]
        assert len(submitted.all()) == 1


async def test_a_pool_of_a_head_elsewhere_stays_when_its_program_leaves(slurm, submitted):
    async with opened() as executor:
        async with connect() as program:
            pool = await program.up(slurm_pool(min=1), name="cpu")
            native = await (where @ Cores(1))()
            assert [row.native for row in await until_up(program, 1)] == [native]
            await pool.scale(2)
            await until_up(program, 2)
        assert [row.label for row in executor.blocks()] == ["cpu-1", "cpu-2"]
        async with connect() as program:
            await program.up(slurm_pool(max=2), name="cpu")
            assert (program.pools()[0].min, program.pools()[0].max) == (0, 2)
            assert len(program.blocks()) == 2
        await executor._service.fleet().down("cpu", now=True)
        assert submitted.in_queue() == []
        assert len(submitted.all()) == 2


@pytest.mark.usefixtures("slow_trial")
async def test_ten_thousand_short_jobs_of_a_new_function_start_one_block(slurm, submitted):

    @delayed
    async def brief(number):
        await asyncio.sleep(0.001)
        return number

    async with opened(slurm_pool(max=2), limit_s=4 * LIMIT_S):  # half a minute of work on two quiet cores
        values = await gather(*((brief @ Cores(1))(number) for number in range(10_000)))
        assert sum(values) == 10_000 * 9_999 // 2
        assert len(submitted.all()) == 1


@pytest.mark.usefixtures("usual_trial")
async def test_long_jobs_of_a_new_function_get_their_blocks(slurm, submitted, gate):
    async with opened(slurm_pool(max=3)) as executor:
        jobs = [start(gate.job(number)) for number in range(3)]
        await until_up(executor, 3)
        await gate.until_in(3)
        gate.open()
        assert len({await job for job in jobs}) == 3


# --- limits of time and money ----------------------------------------------------------------------------------------


async def test_a_job_that_runs_into_the_end_of_its_block_cleans_up_and_runs_in_the_next(slurm, submitted, tmp_path):
    files = tmp_path / "files"
    files.mkdir()

    @delayed
    async def careful():
        number = len(list(files.glob("begun-*")))
        (files / f"begun-{number}").touch()
        try:
            await asyncio.sleep(3600 if number == 0 else 0)
        except asyncio.CancelledError as error:
            (files / "told").write_text(str(error))
            raise
        finally:
            (files / f"cleaned-{number}").touch()
        return os.environ["SLURM_JOB_ID"]

    async with opened(slurm_pool(walltime="2:00:00", margin="0:30:00")) as executor:
        r_ = start((careful @ Cores(1))())
        await until_files(files, (files / "begun-0").exists)
        await until(lambda: 6000 < (executor.blocks()[0].left_s or 0) <= 7200)
        first = (await until_up(executor, 1))[0].native
        slurm.say("scontrol", "update", f"JobId={first}", "TimeLimit=30")  # with the margin, none of it is left
        await until_files(files, (files / "cleaned-0").exists)
        assert "walltime" in (files / "told").read_text()
        second = await r_
        assert second != first
        assert await asyncio.to_thread(slurm.end_of, first) == "COMPLETED 0:0"
        assert len(submitted.all()) == 2
        assert (info(r_).attempt, executor.report().failed) == (2, 0)


async def test_a_job_for_which_no_block_lasts_long_enough_has_none_submitted(slurm, submitted):
    async with opened(slurm_pool(walltime="0:04:00")) as executor:
        r_ = start((where @ (Cores(1) & WallTime("0:05:00")))())
        await (where @ (Cores(1) & WallTime(5)))()
        assert info(r_).state == "pending"
        assert pool_row(executor).wanted == 0
        assert len(submitted.all()) == 1, "for the short one"
        cancel(r_)


async def test_a_budget_for_one_block_is_for_one_block(slurm, submitted, gate):
    asked = slurm_pool(walltime="0:20:00", budget=0.5, max=4)
    async with opened(asked) as executor:
        jobs = [start(gate.job(number)) for number in range(4)]
        (row,) = await until_up(executor, 1)
        await until(lambda: "core-hours are spent" in pool_row(executor).paused)
        await until(lambda: pool_row(executor).wanted == 3)
        gate.open()
        assert {await job for job in jobs} == {row.native}
        assert submitted.all() == [(row.native, "RUNNING")]


async def test_a_block_that_cannot_start_says_why_and_leaves_the_queue_with_its_pool(slurm, submitted):
    slurm.say("scontrol", "update", "PartitionName=minute", "State=DOWN")
    try:
        async with opened() as executor:
            pool = await executor.up(slurm_pool(queue="minute", walltime=60, max=1), name="cpu")
            r_ = start((where @ Cores(1))())
            await until(lambda: executor.blocks() and executor.blocks()[0].reason == "PartitionDown")
            assert executor.blocks()[0].state == "pending"
            assert "PartitionDown" in str(await executor.explain(r_))
            await pool.down()
            assert executor.blocks() == []
            assert submitted.in_queue() == []
            cancel(r_)
    finally:
        slurm.say("scontrol", "update", "PartitionName=minute", "State=UP")


async def test_another_time_limit_is_followed(slurm, submitted):
    long, short = (where @ (Cores(1) & WallTime("0:30:00")))(), (where @ (Cores(1) & WallTime("0:04:00")))()
    async with opened(slurm_pool(min=1)) as executor:
        (row,) = await until_up(executor, 1)
        await until(lambda: 240 < (executor.blocks()[0].left_s or 0) <= 300)
        r_ = start(long)
        slurm.say("scontrol", "update", f"JobId={row.native}", "TimeLimit=60")
        await until(lambda: executor.blocks()[0].left_s > 3000)
        assert await r_ == row.native, "there is time for it now"
        slurm.say("scontrol", "update", f"JobId={row.native}", "TimeLimit=4")
        await until_called(FleetDriver, "_tell_time_left", lambda: executor.blocks()[0].left_s <= 240)
        r_ = start(short)
        assert await (where @ Cores(1))() == row.native
        assert info(r_).state == "pending", "not all of it is left"
        cancel(r_)
        assert len(submitted.all()) == 1


async def test_a_gang_gets_its_workers_from_blocks_of_one_node_and_none_leaves_meanwhile(slurm, submitted):
    @delayed
    async def over_all():
        return "ran"

    async with opened(slurm_pool(max=4, idle=1)) as executor:
        assert await (over_all @ Nodes(4, each=Cores(1)))() == "ran"
        assert len(submitted.all()) == 4
        await until(lambda: executor.blocks() == [])
        assert {row.reason for row in ended(executor)} == {"idle for 1 s"}


async def test_of_two_pools_each_starts_blocks_for_its_own_jobs_alone(slurm, submitted):
    pools = [slurm_pool("cores=1"), slurm_pool("cores=1 token=big")]
    async with opened(pools) as executor:
        await (where @ (Cores(1) & Token("big")))()
        assert [row.pool for row in executor.blocks()] == ["slurm2"]
        await (where @ Cores(1))()  # either could run it, and one is there
        assert [row.pool for row in executor.blocks()] == ["slurm2"]
        assert len(submitted.all()) == 1

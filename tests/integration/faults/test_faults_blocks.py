"""Workers of blocks that have ended: they are shown out, end with success, and their jobs run elsewhere."""

import asyncio

import pytest
from limits import LIMIT_S
from weather import Weather, port, way_through

from grainlike import Cores, Executor, delayed, info, start

LISTEN = "tcp://127.0.0.1:0"
WORDS = "block cpu-1 has ended: it is taken in no more"

pytestmark = pytest.mark.asyncio


def ends(executor, label):
    """Have the head refuse this block from now on."""
    executor._service._service.admit_block = {label: WORDS}.get


async def test_a_worker_of_a_block_that_has_ended_says_so_and_exits_with_success(start_worker, monkeypatch):
    monkeypatch.setenv("GRAINLIKE_BLOCK", "cpu-1")
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        ends(executor, "cpu-1")
        code, said = await start_worker(executor.address, more=("--log-level", "error", "--wait")).exit()
        assert (code, said) == (0, f"grainlike worker: {WORDS}\n")
        assert executor.workers() == []


async def test_a_head_that_nobody_asked_to_choose_takes_workers_of_any_block(start_worker, monkeypatch):
    monkeypatch.setenv("GRAINLIKE_BLOCK", "cpu-1")
    async with asyncio.timeout(LIMIT_S), Executor(listen=LISTEN) as executor:
        start_worker(executor.address)
        await executor.wait_for_workers(1)
        assert [worker.block for worker in executor.workers()] == ["cpu-1"]


async def test_a_worker_that_dials_anew_is_shown_out_too_and_its_job_runs_elsewhere(
    gates, start_worker, tmp_path, monkeypatch
):
    async with (
        asyncio.timeout(LIMIT_S),
        gates() as gate,
        Executor(listen=LISTEN) as executor,
        Weather(port(executor)) as weather,
    ):
        visit = gate.visit

        @delayed
        def job():
            visit("job")
            return "done"

        monkeypatch.setenv("GRAINLIKE_BLOCK", "cpu-1")
        first = start_worker(way_through(weather, executor, tmp_path), more=("--log-level", "error"))
        r_ = start((job @ Cores(1))())
        await gate.arrival()
        ends(executor, "cpu-1")
        weather.reset()
        assert await first.exit() == (0, f"grainlike worker: {WORDS}\n")
        monkeypatch.setenv("GRAINLIKE_BLOCK", "cpu-2")
        start_worker(executor.address, name="last")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).worker == "last"

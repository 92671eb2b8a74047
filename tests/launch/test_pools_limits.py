"""Pools at limits that a real Slurm keeps for its users, by slurmdbd."""

import pytest
from slurm_here import temporary_slurm
from slurm_limits import SlurmWithLimits, missing
from slurm_pools import Submitted, opened, pool_row, slurm_pool, until_up
from waiting import until

from grainlike import LaunchError, start

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("private_state", "often_listed")]


@pytest.fixture(scope="module")
def started():
    """Two nodes, and a user who may have limits."""
    if missing():
        names = ", ".join(missing())
        pytest.fail(f"{names} not installed: apt-get install slurmdbd mariadb-server-core", pytrace=False)
    with temporary_slurm(SlurmWithLimits, nodes=2) as slurm:
        yield slurm


@pytest.fixture
def limited(started, monkeypatch):
    """That Slurm, which commands find, with no limit at first."""
    monkeypatch.setenv("SLURM_CONF", started.environment["SLURM_CONF"])
    monkeypatch.setattr("grainlike.fleet._endings.HOLD_S", 0.1)
    started.limit(MaxSubmitJobs=-1, MaxJobs=-1)
    return started


async def test_at_a_limit_of_submissions_a_pool_waits_says_so_and_goes_on_when_there_is_room(limited, gate):
    submitted = Submitted(limited)
    limited.limit(MaxSubmitJobs=1)
    async with opened(slurm_pool(max=2, account="p17")) as executor:
        jobs = [start(gate.job(number)) for number in range(2)]
        (first,) = await until_up(executor, 1)
        await until(lambda: "AssocMaxSubmitJobLimit" in pool_row(executor).why)
        assert pool_row(executor).paused == ""
        assert submitted.in_queue() == [first.native]
        limited.limit(MaxSubmitJobs=-1)
        rows = await until_up(executor, 2)
        assert [number for number, _ in submitted.all()] == [row.native for row in rows]
        await gate.until_in(2)
        gate.open()
        assert {await job for job in jobs} == {row.native for row in rows}
    assert submitted.in_queue() == []


async def test_a_block_that_a_limit_keeps_in_the_queue_says_which_and_starts_when_there_is_room(limited, gate):
    submitted = Submitted(limited)
    limited.limit(MaxJobs=1)
    async with opened(slurm_pool(max=2, account="p17")) as executor:
        jobs = [start(gate.job(number)) for number in range(2)]
        await until(lambda: [row.reason for row in executor.blocks()] == ["", "AssocMaxJobsLimit"])
        assert [row.state for row in executor.blocks()] == ["up", "pending"]
        limited.limit(MaxJobs=-1)
        await until_up(executor, 2)
        await gate.until_in(2)
        gate.open()
        assert len({await job for job in jobs}) == 2
    assert len(submitted.all()) == 2
    assert submitted.in_queue() == []


async def test_an_account_that_is_none_is_told_before_a_job_waits(limited):
    async with opened() as executor:
        with pytest.raises(LaunchError, match="Invalid account"):
            await executor.up(slurm_pool(account="nobody"), name="cpu")
        assert "Invalid account" in pool_row(executor).paused

"""`gather(..., return_exceptions=True)`: a failed input is its exception, as `asyncio.gather` has it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from plain_calls import half

from grainlike import (
    Cores,
    Dag,
    Executor,
    JobCancelledError,
    Partition,
    ThreadBackend,
    UnsatisfiableError,
    cancel,
    delayed,
    gather,
    info,
    start,
)

pytestmark = pytest.mark.anyio


@delayed
async def told(outcomes: Any) -> list[str]:
    return [str(outcome) for outcome in outcomes]


def words(outcomes: Any) -> list[str]:
    return [str(outcome) for outcome in outcomes]


small = half @ Cores(1)


@pytest.fixture(scope="module")
def anyio_backend():
    """One loop, for one executor for all tests of this file but those that say otherwise."""
    return "asyncio"


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_local_and_remote_failures_are_in_the_places_of_values():
    async with Executor(local=Cores([0])):
        one, two, three, four = await gather(small(2), small(-1), half(-2), half(4), return_exceptions=True)
    assert (one, four) == (1.0, 2.0)
    assert (type(two), str(two)) == (ValueError, "-1 is negative")
    assert (type(three), str(three)) == (ValueError, "-2 is negative")


async def test_it_stands_inside_others_and_they_stand_in_it():
    async with Executor(local=Cores([0])):
        inner_ = gather([small(-1), small(2)], return_exceptions=True)
        plain_ = gather(small(-3), small(6))
        outer = await gather(inner_, plain_, [small(-5), 7], return_exceptions=True)
    assert words(outer[0]) == ["-1 is negative", "1.0"]
    assert str(outer[1]) == "-3 is negative"
    assert words(outer[2]) == ["-5 is negative", "7"]


async def test_a_job_is_given_the_exceptions():
    async with Executor(local=Cores([0])):
        outcomes_ = gather(small(-1), small(2), return_exceptions=True)
        assert await (told @ Cores(1))(outcomes_) == ["-1 is negative", "1.0"]
        assert await told(outcomes_) == ["-1 is negative", "1.0"]
        assert str(await outcomes_[0]) == "-1 is negative"


async def test_a_cancelled_input_is_its_error_and_the_others_go_on():
    async with Executor(local=Cores([0])):
        never_ = delayed(anyio.sleep_forever)()
        unstarted_ = small(2)
        cancel(unstarted_)
        all_ = start(gather(never_, unstarted_, small(8), return_exceptions=True))
        cancel(never_)
        first, second, third = await all_
    assert isinstance(first, JobCancelledError)
    assert isinstance(second, JobCancelledError)
    assert third == 4.0


async def test_inputs_that_had_finished_and_whatever_is_ready_are_taken_as_they_are():
    async with Executor(local=Cores([0])):
        bad_ = small(-1)
        with pytest.raises(ValueError, match="-1 is negative"):
            await bad_
        assert words(await gather(bad_, 5, return_exceptions=True)) == ["-1 is negative", "5"]
        assert await gather((), return_exceptions=True) == []


async def test_cancelling_the_gather_cancels_its_inputs():
    async with Executor(local=None):
        never_ = delayed(anyio.sleep_forever)()
        all_ = start(gather(never_, half(-1), return_exceptions=True))
        cancel(all_)
        assert (info(all_).state, info(never_).state) == ("cancelled", "cancelled")


async def test_what_no_worker_could_run_is_an_exception_as_well():
    async with Executor(local=Cores([0])):
        first, second = await gather((half @ Cores(5000))(1), small(2), return_exceptions=True)
    assert isinstance(first, UnsatisfiableError)
    assert second == 1.0


async def test_leaving_the_block_cancels_it():
    async with Executor(local=None):
        all_ = start(gather(delayed(anyio.sleep_forever)(), half(-1), return_exceptions=True))
    assert info(all_).state == "cancelled"


async def test_inside_a_job():
    @delayed
    async def outer() -> list[str]:
        return words(await gather(small(-1), small(4), half(-2), return_exceptions=True))

    async with Executor(local=Cores([0])):
        assert await (outer @ Cores(1))() == ["-1 is negative", "2.0", "-2 is negative"]


async def test_on_an_engine_of_another_kind():
    async with Executor(backend=ThreadBackend(1)):
        outcomes_ = gather((half @ Cores(1))(-1), (half @ Cores(1))(2), return_exceptions=True)
        assert await (told @ Cores(1))(outcomes_) == ["-1 is negative", "1.0"]


@pytest.mark.parametrize("partition", [None, Partition(k=2, strategy="level_based"), Partition(k=1)])
async def test_in_a_named_graph_the_job_behind_it_runs(partition: Partition | None):
    dag = Dag()
    bad_ = dag.add("bad", half, -1, request=Cores(1))
    good_ = dag.add("good", half, 2, request=Cores(1))
    dag.add("told", words, gather(bad_, good_, return_exceptions=True), request=Cores(1))
    dag.add("broken", max, gather(bad_, good_, return_exceptions=True), request=Cores(1))
    dag.add("never", words, gather(bad_, good_), request=Cores(1))
    async with Executor(local=Cores([0])):
        report = await dag.run(partition=partition, on_failure="continue")
    assert {name: job.status for name, job in report.items()} == {
        "bad": "failed",
        "good": "succeeded",
        "told": "succeeded",
        "broken": "failed",
        "never": "skipped",
    }
    assert await dag["told"] == ["-1 is negative", "1.0"]
    assert isinstance(report["broken"].error, TypeError)

"""Operators on large values: applied in the one job that needs them, and else in the program."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from far import far_workers, far_workers_of_client, head_of, lose, records
from operator_calls import column, halves, show
from value_calls import LARGE, make, size_of
from waiting import until

from grainlike import Cores, Executor, JobCancelledError, cancel, delayed, gather, info, replicate, start, wait
from grainlike.wire import Totals

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=[far_workers, far_workers_of_client], ids=["embedded", "client"])
def far(request):
    """Far workers of a program that has a head, or uses one elsewhere."""
    return request.param


def ended(totals: Totals) -> tuple[int, int, int]:
    """Return how many jobs have a value, have failed, and were skipped or cancelled."""
    return totals.succeeded, totals.failed + totals.timed_out, totals.skipped + totals.cancelled


def kept(executor: Executor) -> int:
    """Return how many values are at workers."""
    return sum(bool(value.replicas) for value in records(executor).values())


async def test_what_a_job_needs_of_a_large_value_is_made_there(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        a_, b_ = (column @ Cores(1))(LARGE // 8), (make @ Cores(1))(LARGE)
        job = show @ Cores(1)
        told = [
            *(job(a_[1]), job(a_[1:3, 0] + 10), job(1 - a_[0]), job(a_.shape)),
            *(job(np.mean(a_[:2])), job(a_.sum(axis=0)[0] * 2), job([b_[0], {"k": b_[1]}]), job(abs(a_)[2][1])),
        ]
        assert await gather(told) == [
            *("[2. 3.]", "[12. 14.]", "[1. 0.]", f"({LARGE // 16}, 2)"),
            *("1.5", str(2 * float(np.arange(LARGE // 8)[::2].sum())), "[0, {'k': 0}]", "5.0"),
        ]
        assert executor.report().fetched < LARGE // 10


async def test_parts_of_several_values_are_values_of_their_own(far, start_worker):
    async with far(start_worker, "n1", "n2") as (executor, workers):
        parts = list((halves @ Cores(1))(LARGE))
        left_, right_ = parts
        twice_ = (size_of @ Cores(1))(right_, right_[1:])
        assert await gather((size_of @ Cores(1))(left_), twice_) == [LARGE, 2 * LARGE - 1]
        report = executor.report()
        assert report.fetched == 0
        whole = info(left_).where
        assert [LARGE < info(part_).size < LARGE + 1000 for part_ in parts] == [True, True]
        gc.collect()
        await until(lambda: kept(executor) == 2)  # of the whole only the lineage is left
        await replicate(right_, 2)
        assert (info(left_).where, info(right_).where) == (whole, ("n1", "n2"))
        assert executor.report().moved <= LARGE + 1000
        del left_, parts
        gc.collect()
        await until(lambda: kept(executor) == 1)
        await lose(executor, workers, "n1")
        assert await (size_of @ Cores(1))(right_) == LARGE
        assert await right_ == b"r" * LARGE  # it is fetched for the program, too


async def test_a_part_that_is_lost_is_taken_again_of_a_value_that_is_made_again(start_worker):
    async with far_workers(start_worker, "n1") as (executor, workers):
        left_, _ = (halves @ Cores(1))(LARGE)
        assert await (size_of @ Cores(1))(left_) == LARGE
        await lose(executor, workers, "n1")
        start_worker(executor.address, name="n2")
        assert await left_ == b"l" * LARGE
        assert (executor.report().recomputed, info(left_).recomputed) == (1, 1)  # the part is no call of the program


async def test_parts_that_no_job_needs_are_taken_in_the_program(start_worker):
    async with far_workers(start_worker, "n1") as (executor, _):
        left_, right_ = (halves @ Cores(1))(LARGE)
        assert (await left_)[:1] + (await right_)[:1] == b"lr"
        assert executor.report().succeeded == 1


async def test_fewer_parts_than_were_promised_are_an_error_of_the_job_that_needs_one(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        first_, second_, _ = (delayed(halves.function.callable, nout=3) @ Cores(1))(LARGE)
        with pytest.raises(ValueError, match="nout=3 was promised, but there are 2 values"):
            await (size_of @ Cores(1))(first_)
        assert ended(executor.report()) == (1, 1, 0)
        with pytest.raises(ValueError, match="nout=3 was promised"):
            await (size_of @ Cores(1))([second_, 1 + (size_of @ Cores(1))(second_)])
        assert ended(executor.report()) == (
            1,
            3,
            0,
        )  # each that needs the part; the part itself is no job of the user's
        failed = await executor.history(outcomes=("failed",))
        assert [job.name for job in failed] == ["part"] * 2


async def test_parts_of_values_are_no_jobs_of_the_report(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        left_, right_ = (halves @ Cores(1))(LARGE)
        assert await gather((size_of @ Cores(1))(left_), (size_of @ Cores(1))(right_)) == [LARGE, LARGE]
        assert ended(executor.report()) == ended(head_of(executor).totals()) == (3, 0, 0)
        assert [job.name for job in await executor.history()].count("part") == 2


async def test_an_operators_error_is_the_jobs_and_that_of_who_awaits_it(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        part_ = a_[LARGE]
        with pytest.raises(IndexError, match="index out of range"):
            await (size_of @ Cores(1))(part_)
        assert executor.report().fetched == 0
        for _ in range(2):
            with pytest.raises(IndexError, match="index out of range"):
                await part_
        assert info(part_).state == "failed"
        with pytest.raises(IndexError, match="index out of range"):
            await (size_of @ Cores(1))(part_)


async def test_what_several_need_or_the_program_itself_is_applied_once_in_the_program(start_worker):
    async with far_workers(start_worker, "n1") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        part_ = a_[:10]
        assert await gather((size_of @ Cores(1))(part_), (size_of @ Cores(1))(part_)) == [10, 10]
        assert executor.report().fetched > LARGE
        assert await (delayed(len)(a_[1:]) + 1) == LARGE


async def test_an_operator_that_was_left_to_a_job_is_there_for_others_later(far, start_worker):
    async with far(start_worker, "n1") as (executor, _):
        a_ = (make @ Cores(1))(LARGE)
        part_ = a_[:10]
        assert await (size_of @ Cores(1))(part_) == 10
        assert await (size_of @ Cores(1))(part_, part_[1:]) == 19
        assert executor.report().fetched == 0
        assert await (part_ + b"x") == bytes(10) + b"x"
        assert await part_ == bytes(10)
        assert set(await wait(part_)) == {part_}
        assert await (size_of @ Cores(1))(part_) == 10


async def test_a_job_that_is_cancelled_leaves_its_operator_as_it_was(start_worker):
    async with far_workers(start_worker, "n1"):
        a_ = (make @ Cores(1))(LARGE)
        await wait(a_)
        part_ = a_[:10]
        waits_ = start((size_of @ Cores(4))(part_))
        cancel(waits_)
        with pytest.raises(JobCancelledError):
            await waits_
        assert await part_ == bytes(10)

"""Chains of quick calls travel together, and nobody can tell but by the clock."""

import os
from asyncio import to_thread
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from chain_calls import (
    after_pipe,
    allow,
    append_to,
    die_if,
    divide,
    divide_later,
    double,
    grow,
    grow_later,
    grow_soon,
    job_and_cores,
    number_of,
    plus_one,
    plus_one_later,
    size_of,
    unreadable,
)
from waiting import until

from grainlike import (
    Cores,
    Executor,
    JobCancelledError,
    Memory,
    SerializationError,
    WorkerLostError,
    cancel,
    delayed,
    gather,
    info,
    start,
)
from grainlike.engine import _engine
from grainlike.head._head import Head
from grainlike.scheduler import HeadScheduler, JobsSubmitted
from grainlike_worker.runner.common import _chain

pytestmark = pytest.mark.asyncio

LARGE = 1_000_000


@pytest_asyncio.fixture
async def executor(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Executor]:
    """An executor whose chains go on however busy the machine is."""
    monkeypatch.setattr(_chain, "LONG_S", 3600.0)  # those of coroutines run in this process
    async with Executor(local=Cores(1)) as opened:
        await (delayed(allow) @ Cores(1))(3600.0)
        yield opened


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs the scheduler was told of, batch by batch."""
    told: list[int] = []
    tell = Head._tell

    def telling(head: Head, event: object) -> None:
        if isinstance(event, JobsSubmitted):
            told.append(len(event.jobs))
        tell(head, event)  # type: ignore[arg-type]

    monkeypatch.setattr(Head, "_tell", telling)
    return told


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Functions are known to be quick, and what is ready starts in one slice, however busy the machine is."""
    monkeypatch.setattr(_engine, "_SLICE_S", 3600.0)
    paces = {"seconds": 1e-5}
    monkeypatch.setattr(HeadScheduler, "pace", lambda scheduler, fn: paces["seconds"])
    return paces


def remove_replicas(executor: Executor) -> None:
    for peer in executor._service.head.peers.values():
        for replica in Path(peer.hello.replicas).glob("v*"):
            replica.unlink()


@pytest.mark.parametrize("function", [plus_one, plus_one_later])
async def test_a_chain_of_quick_calls_is_few_jobs_with_every_value_its_own(executor, jobs, pace, function) -> None:
    step = delayed(function) @ Cores(1)
    made = [step(0)]
    for _ in range(299):
        made.append(step(made[-1]))
    assert await made[-1] == 300
    assert sum(jobs) < 100
    assert [info(r_).state for r_ in made] == ["succeeded"] * 300
    assert await gather(made[:5]) == [1, 2, 3, 4, 5]
    told = info(made[150])
    assert told.worker == "local"
    assert told.allocation is not None
    assert told.allocation.cores
    assert told.usage is not None
    assert told.began is not None
    assert info(made[151]).began >= told.began  # type: ignore[operator]


async def test_chains_that_begin_alike_at_the_same_time_are_few_jobs(executor, jobs, pace) -> None:
    step = delayed(plus_one) @ Cores(1)
    ends = []
    for first in range(10):
        value = step(first)
        for _ in range(9):
            value = step(value)
        ends.append(value)
    assert await gather(ends) == list(range(10, 20))
    assert sum(jobs) == 10


async def test_functions_that_are_not_known_to_be_quick_travel_alone(executor, jobs) -> None:
    step = delayed(plus_one) @ Cores(1)
    value = step(0)
    for _ in range(5):
        value = step(value)
    assert await value == 6
    assert sum(jobs) == 6


async def test_each_link_is_a_job_with_a_context_of_its_own(executor, jobs, pace) -> None:
    look = delayed(job_and_cores) @ Cores(1)
    value = look([])
    for _ in range(19):
        value = look(value)
    seen = await value
    assert jobs == [1]
    assert len({job for job, _, _ in seen}) == 20
    assert {mark for _, mark, _ in seen} == {0}
    assert {cores for _, _, cores in seen} == {seen[0][2]}


async def test_only_what_stands_behind_a_failing_link_fails(executor, jobs, pace) -> None:
    step, fraction = delayed(plus_one) @ Cores(1), delayed(divide) @ Cores(1)
    before = step(step(1))
    broken = fraction(before, 0)
    after = step(broken)
    with pytest.raises(ZeroDivisionError) as caught:
        await after
    assert any("attempt 1" in note for note in caught.value.__notes__)
    assert await before == 3
    assert info(broken).state == "failed"
    assert [info(r_).state for r_ in (before, after)] == ["succeeded", "failed"]


async def test_links_round_one_whose_value_cannot_be_read_here_have_theirs(executor, jobs, pace) -> None:
    step, wrap, unwrap = (delayed(function) @ Cores(1) for function in (plus_one, unreadable, number_of))
    before = step(step(1))
    broken = wrap(before)
    after = step(unwrap(broken))
    jobs.clear()
    assert await after == 4
    assert jobs == [1]
    assert await before == 3
    with pytest.raises(SerializationError, match="3 is from elsewhere"):
        await broken
    *ended, _ = await executor.history()  # that of the fixture ended first
    assert [job.name for job in ended] == ["plus_one", "number_of", "unreadable", "plus_one", "plus_one"]
    assert [job.outcome for job in ended] == ["succeeded", "succeeded", "failed", "succeeded", "succeeded"]
    assert [job.job for job in ended] == list(range(ended[0].job, ended[0].job - 5, -1))
    assert {(job.slots, job.attempts, job.request) for job in ended} == {("cores=[0]", 1, "cores=1")}
    assert executor.report().succeeded == 5  # with that of the fixture


async def test_the_link_that_kills_its_process_is_the_one_to_blame(executor, jobs, pace) -> None:
    step = delayed(die_if) @ Cores(1)
    made = [step(0, 5)]
    for _ in range(9):
        made.append(step(made[-1], 5))
    with pytest.raises(WorkerLostError, match="exit code 7"):
        await made[-1]
    assert await gather(made[:5]) == [1, 2, 3, 4, 5]
    assert info(made[5]).state == "failed"
    assert info(made[5]).attempt == 3


async def test_what_a_link_does_to_its_argument_stays_its_own_affair(executor, jobs, pace) -> None:
    grow = delayed(append_to) @ Cores(1)
    first = grow([], 1)
    second = grow(first, 2)
    assert await second == [1, 2]
    assert await first == [1]


@pytest.mark.parametrize("function", [grow, grow_soon, grow_later])
async def test_no_large_value_of_a_chain_comes_to_the_program(executor, jobs, pace, function) -> None:
    made = [(delayed(function) @ Cores(1))(b"", LARGE)]
    for _ in range(4):
        made.append((delayed(function) @ Cores(1))(made[-1], 1))
    assert await (delayed(size_of) @ Cores(1))(made[-1]) == LARGE + 4
    assert [info(r_).where for r_ in made] == [("local",)] * 5
    assert [info(r_).size - LARGE in range(1_000) for r_ in made] == [True] * 5
    assert (executor.report().sent < LARGE, executor.report().fetched) == (True, 0)
    assert len(await made[0]) == LARGE


async def test_a_function_that_has_given_a_large_value_is_in_no_chain_any_more(executor, jobs, pace) -> None:
    larger, size = delayed(grow) @ Cores(1), delayed(size_of) @ Cores(1)
    first_ = larger(larger(b"", 1), LARGE)
    assert await size(larger(first_, 1)) == LARGE + 2
    assert info(first_).where == ()  # it was known for small values, and came with those of its chain
    later_ = larger((delayed(double) @ Cores(1))(b"12"), LARGE)
    assert await size(later_) == LARGE + 4
    assert info(later_).where == ("local",)


async def test_a_large_value_of_a_chain_is_made_again_by_its_own_call_alone(executor, jobs, pace) -> None:
    larger, size = delayed(grow) @ Cores(1), delayed(size_of) @ Cores(1)
    value_ = larger(b"", LARGE)
    assert await size(larger(value_, 1)) == LARGE + 1
    remove_replicas(executor)
    before = executor.report().succeeded
    assert await size(value_) == LARGE
    assert (info(value_).recomputed, info(value_).where) == (1, ("local",))
    assert executor.report().succeeded == before + 1


@pytest.mark.parametrize(("code", "argument"), [(100_000, 0), (40_000, 40_000), (0, 65_000)])
async def test_a_large_value_is_made_again_though_its_function_and_arguments_are_large(
    executor, jobs, pace, code, argument
) -> None:
    held = bytes(code)

    def made_of(data: bytes, by: int) -> bytes:
        return data[: len(held)] + bytes(by)

    larger, size = delayed(made_of) @ Cores(1), delayed(size_of) @ Cores(1)
    value_ = larger(bytes(argument), LARGE)
    expected = LARGE + min(code, argument)
    assert await size(larger(value_, 1)) == code + 1
    remove_replicas(executor)
    assert await size(value_) == expected
    assert info(value_).recomputed == 1


async def test_arrays_are_rebuilt_on_memory_of_their_own(executor, jobs, pace) -> None:
    twice = delayed(double) @ Cores(1)
    first = twice(np.ones(1000))
    third = twice(twice(first))
    assert (await third).sum() == 8000
    assert (await first).sum() == 2000
    # The first one's own argument travels apart from the stream, so it goes alone; the others are one job.
    large = twice(np.ones(10_000))
    assert (await twice(twice(large))).sum() == 80_000


async def test_a_coroutine_that_waits_ends_the_chain_behind_it(executor, jobs, pace) -> None:
    import asyncio

    async def nap(x: int, naps: bool) -> int:
        if naps:
            await asyncio.sleep(0)
        return x + 1

    step = delayed(nap) @ Cores(1)
    assert await step(step(step(0, False), True), False) == 3
    assert jobs == [1, 1]


async def test_a_cancelled_link_takes_only_those_behind_it(executor, jobs, pace) -> None:
    step = delayed(plus_one) @ Cores(1)
    made = [step(0)]
    for _ in range(9):
        made.append(step(made[-1]))
    start(made[4])
    start(made[9])
    cancel(made[5])
    assert await made[4] == 5
    with pytest.raises(JobCancelledError):
        await made[9]


async def test_links_that_are_cancelled_while_the_chain_runs_are_counted_and_kept_once(
    executor, jobs, pace, tmp_path
) -> None:
    step, opened = delayed(plus_one) @ Cores(1), tmp_path / "opened"
    os.mkfifo(opened)
    made = [(delayed(after_pipe) @ Cores(1))(0, str(opened))]
    for _ in range(4):
        made.append(step(made[-1]))
    start(made[4])
    start(made[2])
    await until(lambda: info(made[0]).state == "running")
    cancel(made[3])
    await to_thread(opened.write_bytes, b"")
    assert await made[2] == 2
    with pytest.raises(JobCancelledError):
        await made[4]
    *ended, _ = await executor.history()  # that of the fixture ended first
    assert {job.job: job.outcome for job in ended} == {
        2: "succeeded", 3: "succeeded", 4: "succeeded", 5: "cancelled", 6: "cancelled"
    }  # fmt: skip
    totals = executor.report()
    assert (totals.succeeded, totals.failed, totals.cancelled + totals.skipped) == (1 + 3, 0, 2)


async def test_a_link_whose_argument_cannot_travel_fails_with_its_own_words(executor, jobs, pace) -> None:
    from grainlike import SerializationError

    step, add = delayed(plus_one) @ Cores(1), delayed(divide) @ Cores(1)
    good = step(0)
    with pytest.raises(SerializationError, match="argument 1 of divide"):
        await add(good, (n for n in ()))
    assert await good == 1


async def test_calls_that_ask_for_something_else_go_their_own_way(jobs, pace) -> None:
    step = delayed(plus_one)
    one, other = step @ Cores(1), step @ (Cores(1) & Memory("1M"))
    async with Executor(local=Cores(1) & Memory("1M")):
        assert await other(one(0)) == 2
    assert jobs == [1, 1]


async def test_a_chain_that_turns_out_long_gives_back_what_it_has_not_begun(executor, jobs, pace) -> None:
    def spin(x: int, seconds: float) -> int:
        import time

        allow(0.01 if seconds else 3600.0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass
        return x + 1

    step = delayed(spin) @ Cores(1)
    assert await step(step(step(step(0, 0.02), 0.0), 0.0), 0.0) == 4
    assert jobs == [1, 1]


async def test_a_chain_is_no_longer_than_the_work_expected_of_it_allows(executor, jobs, pace) -> None:
    pace["seconds"] = 0.001
    step = delayed(plus_one) @ Cores(1)
    assert await step(step(step(step(step(step(0)))))) == 6
    assert len(jobs) >= 2  # 2 ms: one to begin with, and two behind it


async def test_a_call_that_waits_for_two_others_is_no_link(executor, jobs, pace) -> None:
    step, fraction = delayed(plus_one) @ Cores(1), delayed(divide) @ Cores(1)
    assert await fraction(step(11), step(step(2))) == 3
    assert jobs == [2, 1]


async def test_a_link_with_a_large_argument_of_its_own_travels_alone(executor, jobs, pace) -> None:
    def added(x: float, a: np.ndarray) -> float:
        return float(x + a.sum())

    add = delayed(added) @ Cores(1)
    assert await add(add(0.0, np.ones(3)), np.ones(10_000)) == 10_003
    assert jobs == [1, 1]


async def test_a_value_inside_a_container_is_there_before_the_container_is_made(executor, jobs, pace) -> None:
    total = delayed(sum) @ Cores(1)
    assert await total([total([1, 2]), 3]) == 6
    assert jobs == [1, 1]


@pytest.mark.parametrize("function", [divide, divide_later])
async def test_the_log_of_a_link_that_raised_ends_with_its_traceback(executor, jobs, pace, function) -> None:
    step, last = delayed(plus_one) @ Cores(1), delayed(function) @ Cores(1)
    if function is divide_later:
        step = delayed(plus_one_later) @ Cores(1)
    await step(0)
    jobs.clear()
    bad_ = last(step(step(step(0))), 0)
    with pytest.raises(ZeroDivisionError):
        await step(bad_)
    assert sum(jobs) < 4
    found = [(line.stream, str(line)) async for line in executor.logs(bad_)]
    assert {stream for stream, _ in found} == {"traceback"}
    assert found[-1][1].startswith("ZeroDivisionError: ")
    assert any(line.endswith(f"in {function.__name__}") for _, line in found)

"""`ResourcePool` as a quota: reserve and relinquish, usage callbacks, several programs."""

from collections import Counter
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked

from grainlike import ResourceError, ResourcePool, ResourceSpecError
from grainlike.resources import Request


class Usage:
    """A usage callback that the test drives: it counts its calls, and waits at a gate while there is one."""

    def __init__(self, **amounts: Any) -> None:
        self.amounts: Any = amounts
        self.calls = 0
        self.gate: anyio.Event | None = None

    async def __call__(self) -> Any:
        self.calls += 1
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.amounts, Exception):
            raise self.amounts
        return self.amounts


# --- reserve and relinquish -------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_p4_reserve_takes_all_or_nothing_and_names_the_limit() -> None:
    pool = ResourcePool({"cpu": 4, "memory": 100, "zero": 0})
    assert await pool.reserve({"cpu": 3, "memory": 100}) is None
    assert await pool.reserve({"cpu": 1, "memory": 1}) == "memory"
    assert await pool.reserve({"cpu": 2, "memory": 1}) == "cpu"
    assert await pool.reserve({"cpu": 1, "licence": 1}) == "licence"
    assert await pool.reserve({"cpu": 1, "zero": 1}) == "zero"
    assert await pool.reserve({"cpu": 99}) == "cpu"
    assert pool.allocated == {"cpu": 3, "memory": 100, "zero": 0}
    assert await pool.reserve({"cpu": 1}) is None


@pytest.mark.anyio
async def test_p2_relinquish_gives_back_in_any_portions_and_never_more() -> None:
    pool = ResourcePool({"cpu": 4, "memory": 10})
    await pool.reserve({"cpu": 3})
    await pool.reserve({"cpu": "500m", "memory": 1})
    await pool.relinquish({"cpu": "3250m"})
    assert pool.allocated == {"cpu": Request({"cpu": "250m"})["cpu"], "memory": 1}
    requests: list[dict[str, Any]] = [{"cpu": 1}, {"cpu": "250m", "memory": 2}, {"licence": 1}]
    for request in requests:
        with pytest.raises(ResourceError, match=r"less (cpu|memory|licence) is reserved"):
            await pool.relinquish(request)
    assert pool.allocated["memory"] == 1
    await pool.relinquish({"cpu": "250m", "memory": 1})
    assert pool.available == {"cpu": 4, "memory": 10}


@pytest.mark.anyio
async def test_what_was_acquired_is_not_relinquished() -> None:
    pool = ResourcePool({"cpu": 4})
    held = pool.try_acquire({"cpu": 2})
    with pytest.raises(ResourceError):
        await pool.relinquish({"cpu": 1})
    assert held is not None
    pool.release(held)
    assert pool.available == {"cpu": 4}


@pytest.mark.anyio
async def test_p4_acquired_and_reserved_never_exceed_the_quota_together() -> None:
    pool = ResourcePool({"cpu": 4})
    assert pool.try_acquire({"cpu": 2})
    assert await pool.reserve({"cpu": 2}) is None
    assert pool.try_acquire({"cpu": 1}) is None
    async with anyio.create_task_group() as tasks:
        served = anyio.Event()

        async def wait() -> None:
            assert await pool.acquire({"cpu": 1})
            served.set()

        tasks.start_soon(wait)
        await wait_all_tasks_blocked()
        assert not served.is_set()
        await pool.relinquish({"cpu": 1})
        await served.wait()
    assert pool.allocated == {"cpu": 4}


@pytest.mark.anyio
async def test_p4_many_programs_never_have_more_than_the_quota_in_flight() -> None:
    pool = ResourcePool({"launches": 3, "cpu": 4})
    flight: Counter[str] = Counter()
    worst: Counter[str] = Counter()
    refused = 0

    async def program(number: int) -> None:
        nonlocal refused
        request = {"launches": 1, "cpu": 1 + number % 3}
        for _ in range(20):
            while (limit := await pool.reserve(request)) is not None:
                assert limit in request
                refused += 1
            flight.update(request)
            for name in request:
                worst[name] = max(worst[name], flight[name])
            await anyio.lowlevel.checkpoint()
            flight.subtract(request)
            await pool.relinquish(request)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(program, number)
    assert worst == {"launches": 3, "cpu": 4}
    assert refused > 0
    assert pool.allocated == {"launches": 0, "cpu": 0}


@pytest.mark.anyio
async def test_p4_a_cancelled_reserve_takes_nothing() -> None:
    pool = ResourcePool({"cpu": 4})
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pool.reserve({"cpu": 1})
    assert scope.cancelled_caught
    assert pool.allocated == {"cpu": 0}


@pytest.mark.anyio
async def test_r5_relinquish_gives_back_in_a_cancelled_task_too() -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage(cpu=2)
    assert await pool.reserve({"cpu": 4}) is None
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pool.relinquish({"cpu": 3})
    assert pool.allocated == {"cpu": 1}
    pool.register(usage)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await pool.relinquish({"cpu": 1})
    assert await pool.reserve({"cpu": 2}) is None
    assert (usage.calls, pool.allocated) == (1, {"cpu": 4})


# --- usage callbacks --------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_p5_the_first_use_sums_all_callbacks_and_flush_forces_a_recount() -> None:
    pool = ResourcePool({"cpu": 10, "memory": 100})
    one, two = Usage(cpu=2, memory=0), Usage(cpu="1500m", other=7)
    pool.register(one)
    pool.register(two)
    assert (one.calls, two.calls) == (0, 0)
    assert await pool.reserve({"cpu": 7}) == "cpu"
    assert await pool.reserve({"cpu": "6500m"}) is None
    assert (one.calls, two.calls) == (1, 1)
    assert pool.available == {"cpu": 0, "memory": 100}
    one.amounts = {"cpu": 1}
    two.amounts = Request({"memory": 60})
    assert await pool.reserve({"cpu": 1}) == "cpu"
    pool.flush()
    assert (one.calls, two.calls) == (1, 1)
    assert await pool.reserve({"cpu": 9, "memory": 40}) is None
    assert (one.calls, two.calls) == (2, 2)
    await pool.flush()
    assert (one.calls, two.calls) == (3, 3)
    assert pool.allocated == {"cpu": 1, "memory": 60}


@pytest.mark.anyio
async def test_p5_a_callback_that_comes_later_is_summed_by_the_next_use() -> None:
    pool = ResourcePool({"cpu": 4})
    first, second = Usage(cpu=1), Usage(cpu=2)
    pool.register(first)
    assert await pool.reserve({"cpu": 3}) is None
    pool.register(second)
    assert await pool.reserve({"cpu": 2}) == "cpu"
    assert (first.calls, second.calls) == (2, 1)
    assert pool.allocated == {"cpu": 3}


@pytest.mark.anyio
async def test_p5_many_first_uses_ask_once_and_none_decides_before_the_answer() -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage(cpu=3)
    usage.gate = anyio.Event()
    pool.register(usage)
    answers: list[str | None] = []
    held: list[Any] = []

    async def reserve() -> None:
        answers.append(await pool.reserve({"cpu": 1}))

    async def acquire() -> None:
        held.append(await pool.acquire({"cpu": 1}, timeout=60))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(reserve)
        await wait_all_tasks_blocked()
        tasks.start_soon(acquire)
        await wait_all_tasks_blocked()
        assert (answers, held) == ([], [])
        usage.gate.set()
        await wait_all_tasks_blocked()
        assert sorted(answers, key=str) == [None, "cpu", "cpu"]
        assert held == []
        tasks.cancel_scope.cancel()
    assert usage.calls == 1
    assert pool.allocated == {"cpu": 4}


@pytest.mark.anyio
async def test_p5_a_flush_during_a_count_makes_another() -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage(cpu=4)
    usage.gate = anyio.Event()
    pool.register(usage)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.reserve, {"cpu": 1})
        await wait_all_tasks_blocked()
        pool.flush()
        usage.gate.set()
        await wait_all_tasks_blocked()
        usage.amounts = {"cpu": 0}
        assert await pool.reserve({"cpu": 4}) is None
    assert usage.calls == 2


@pytest.mark.anyio
async def test_p5_a_recount_serves_those_who_wait() -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage(cpu=4)
    pool.register(usage)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.acquire, {"cpu": 2})
        await wait_all_tasks_blocked()
        assert pool.allocated == {"cpu": 4}
        usage.amounts = {"cpu": 1}
        await pool.flush()
    assert pool.allocated == {"cpu": 3}
    assert [s.event for s in pool.timeline.snapshots] == ["count", "count", "acquire"]


@pytest.mark.anyio
async def test_p5_usage_above_the_capacity_leaves_nothing_and_less_than_nothing_is_never_shown() -> None:
    pool = ResourcePool({"cpu": 4})
    pool.register(Usage(cpu=6))
    await pool.flush()
    assert (pool.allocated, pool.available) == ({"cpu": 6}, {"cpu": 0})
    assert pool.timeline.peak_utilization() == {"cpu": 1.0}
    assert pool.try_acquire({"cpu": "1n"}) is None
    assert await pool.acquire({"cpu": 1}, timeout=0.001) is None


@pytest.mark.anyio
async def test_p5_what_was_acquired_counts_on_top_of_what_callbacks_say() -> None:
    pool = ResourcePool({"cpu": 4})
    pool.register(Usage(cpu=1))
    held = await pool.acquire({"cpu": 2})
    await pool.flush()
    assert pool.allocated == {"cpu": 3}
    assert held is not None
    pool.release(held)
    assert pool.allocated == {"cpu": 1}


@pytest.mark.anyio
async def test_p5_try_acquire_before_the_first_count_says_what_to_do() -> None:
    pool = ResourcePool({"cpu": 4})
    pool.register(Usage(cpu=4))
    with pytest.raises(ResourceError, match="flush"):
        pool.try_acquire({"cpu": 1})
    await pool.flush()
    assert pool.try_acquire({"cpu": 1}) is None


@pytest.mark.anyio
async def test_p5_flush_without_callbacks_forgets_nothing() -> None:
    pool = ResourcePool({"cpu": 4})
    await pool.reserve({"cpu": 4})
    await pool.flush()
    assert await pool.reserve({"cpu": 1}) == "cpu"


@pytest.mark.anyio
async def test_p5_what_is_given_back_while_a_recount_is_due_is_not_taken_off_twice() -> None:
    pool = ResourcePool({"launches": 2})
    usage = Usage(launches=0)
    pool.register(usage)
    assert await pool.reserve({"launches": 1}) is None
    usage.amounts = {"launches": 1}  # only another program's is left: ours has ended
    pool.flush()
    await pool.relinquish({"launches": 1})
    assert pool.allocated == {"launches": 1}


@pytest.mark.anyio
async def test_p5_what_is_given_back_during_a_count_is_counted_anew() -> None:
    pool = ResourcePool({"launches": 2})
    usage = Usage(launches=1)
    pool.register(usage)
    await pool.flush()
    usage.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.reserve, {"launches": 1})
        pool.flush()
        await wait_all_tasks_blocked()
        assert usage.calls == 2
        tasks.start_soon(pool.relinquish, {"launches": 1})
        await wait_all_tasks_blocked()
        usage.gate.set()
    assert usage.calls == 3


@pytest.mark.parametrize("bad", [None, [("cpu", 1)], {"cpu": -1}, {"cpu": "x"}, OSError("no answer")])
@pytest.mark.anyio
async def test_r5_an_error_in_a_callback_takes_nothing_and_is_tried_again(bad: Any) -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage()
    usage.amounts = bad
    pool.register(Usage(cpu=1))
    pool.register(usage)
    error = OSError if isinstance(bad, OSError) else ResourceSpecError
    for attempt in (pool.reserve, pool.acquire, pool.relinquish):
        with pytest.raises(error):
            await attempt({"cpu": 1})
    with pytest.raises(error):
        await pool.flush()
    assert pool.allocated == {"cpu": 0}
    usage.amounts = {"cpu": 1}
    assert await pool.acquire({"cpu": 2})
    assert pool.allocated == {"cpu": 4}


@pytest.mark.anyio
async def test_r5_cancelled_during_a_count_it_takes_nothing_and_others_count() -> None:
    pool = ResourcePool({"cpu": 4})
    usage = Usage(cpu=1)
    usage.gate = anyio.Event()
    pool.register(usage)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pool.acquire, {"cpu": 1})
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    usage.gate = None
    assert await pool.reserve({"cpu": 3}) is None
    assert usage.calls == 2


# --- several programs -------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_p6_a_pool_shared_by_several_programs_limits_their_sum() -> None:
    pool = ResourcePool({"gpu": 3})
    running: Counter[str] = Counter()
    most = 0

    async def task(program: str) -> None:
        nonlocal most
        async with pool.hold({"gpu": 1}, name=program):
            running[program] += 1
            most = max(most, running.total())
            await anyio.lowlevel.checkpoint()
            running[program] -= 1

    async def program(name: str) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(task, name)

    async with anyio.create_task_group() as programs:
        for name in ("a", "b", "c"):
            programs.start_soon(program, name)
    assert most == 3
    assert Counter(s.name for s in pool.timeline.snapshots if s.event == "acquire") == {"a": 10, "b": 10, "c": 10}
    assert pool.available == {"gpu": 3}


@pytest.mark.anyio
async def test_p6_a_quota_of_one_admits_exactly_one() -> None:
    pool = ResourcePool({"launches": 1})
    launched: list[str] = []

    async def program(name: str) -> None:
        if await pool.reserve({"launches": 1}) is None:
            launched.append(name)

    async with anyio.create_task_group() as tasks:
        for name in "abcdefgh":
            tasks.start_soon(program, name)
    assert len(launched) == 1
    await pool.relinquish({"launches": 1})
    async with anyio.create_task_group() as tasks:
        for name in "abcdefgh":
            tasks.start_soon(program, name)
    assert len(launched) == 2

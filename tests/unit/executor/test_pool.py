"""`ResourcePool`: exact records, waiting, quotas, and the timeline, on both event loops."""

import asyncio
import copy
import pickle
from decimal import Decimal
from typing import Any

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from limits import LIMIT_S

from grainlike import (
    Allocation,
    Cores,
    GPUs,
    Memory,
    Node,
    Resource,
    ResourceError,
    ResourcePool,
    ResourceSpecError,
    UnsatisfiableError,
)
from grainlike.resources import EMPTY


class Waiting:
    """`acquire` in a task, looked at from outside."""

    def __init__(self, pool: ResourcePool, request: Any, **options: Any) -> None:
        self.pool, self.request, self.options = pool, request, options
        self.scope = anyio.CancelScope()
        self.allocation: Allocation | None = None
        self.ended = False

    async def run(self) -> None:
        with self.scope:
            self.allocation = await self.pool.acquire(self.request, **self.options)
        self.ended = True


async def begin(tasks: anyio.abc.TaskGroup, pool: ResourcePool, request: Any, **options: Any) -> Waiting:
    waiting = Waiting(pool, request, **options)
    tasks.start_soon(waiting.run)
    await wait_all_tasks_blocked()
    return waiting


# --- what there is ----------------------------------------------------------------------------------------------------


def test_r2_capacities_available_and_allocated_are_plain_mappings_over_all_names() -> None:
    pool = ResourcePool({"gpu": 4, "cpu": 16, "memory": 32000, "licence": 0})
    everything = {"gpu": 4, "cpu": 16, "memory": 32000, "licence": 0}
    nothing = dict.fromkeys(everything, 0)
    assert (pool.capacities, pool.available, pool.allocated) == (everything, everything, nothing)
    allocation = pool.try_acquire({"gpu": 1, "cpu": 4})
    assert allocation is not None
    assert pool.allocated == {"gpu": 1, "cpu": 4, "memory": 0, "licence": 0}
    assert pool.available == {"gpu": 3, "cpu": 12, "memory": 32000, "licence": 0}
    pool.release(allocation)
    assert (pool.capacities, pool.available, pool.allocated) == (everything, everything, nothing)
    assert {type(mapping) for mapping in (pool.capacities, pool.available, pool.allocated)} == {dict}


def test_r2_the_mappings_are_copies() -> None:
    pool = ResourcePool({"gpu": 4})
    for mapping in (pool.capacities, pool.available, pool.allocated):
        mapping["gpu"] = 99
    assert (pool.capacities, pool.available, pool.allocated) == ({"gpu": 4}, {"gpu": 4}, {"gpu": 0})


def test_r2_amounts_are_exact_after_many_fractions() -> None:
    pool = ResourcePool({"cpu": 1, "memory": "1Ki"})
    allocations = [pool.try_acquire({"cpu": 0.1, "memory": 100}) for _ in range(10)]
    assert pool.available == {"cpu": 0, "memory": 24}
    assert pool.try_acquire({"cpu": "1n"}) is None
    for allocation in allocations[:3]:
        assert allocation is not None
        pool.release(allocation)
    assert pool.allocated == {"cpu": Decimal("0.7"), "memory": 700}


@pytest.mark.parametrize(
    ("capacities", "cores", "gpus"),
    [
        (Node([6, 7, 9], "8Gi") & GPUs([1, 3]), (6, 7, 9), (1, 3)),
        (Node(3, "8Gi") & GPUs(2), (0, 1, 2), (0, 1)),
        ({"cores": 3, "memory": "8Gi", "gpus": 2}, (0, 1, 2), (0, 1)),
    ],
)
def test_r4_requests_allocations_and_mappings_are_capacities_alike(
    capacities: Any, cores: tuple[int, ...], gpus: tuple[int, ...]
) -> None:
    pool = ResourcePool(capacities)
    assert pool.capacities == {"cores": 3, "memory": 2**33, "gpus": 2}
    allocation = pool.try_acquire(pool.capacities)
    assert isinstance(allocation, Allocation)
    assert (allocation.cores, allocation.gpus, allocation.memory) == (cores, gpus, 2**33)


def test_r4_shorthands_are_the_names_in_every_mapping() -> None:
    pool = ResourcePool({"cores": 4, "gpus": 2, "memory": 1000})
    allocation = pool.try_acquire(Cores(1) & GPUs(0.5) & Memory(100))
    assert allocation is not None
    assert pool.allocated == {"cores": 1, "gpus": Decimal("0.5"), "memory": 100}
    assert pool.can_satisfy({"cores": 4, "gpus": 2, "memory": 1000})
    assert (Cores(3) & GPUs(1)).fits(pool.available)
    assert not Cores(4).fits(pool.available)


@pytest.mark.parametrize(
    "capacities",
    [
        {"gpu": -1},
        {"gpu": "many"},
        {"gpu": True},
        {"a b": 1},
        {"a b": 0},
        {"token": 1},
        {"token": 0},
        {"memory": 0.5},
        {"gpus": 1.5},
        "cores=4",
        4,
    ],
)
def test_capacities_that_are_none_are_refused(capacities: Any) -> None:
    with pytest.raises(ResourceSpecError):
        ResourcePool(capacities)


def test_r3_can_satisfy_looks_at_total_capacity() -> None:
    pool = ResourcePool({"gpu": 4, "none": 0})
    assert pool.try_acquire({"gpu": 4})
    assert pool.can_satisfy({"gpu": 4})
    assert pool.can_satisfy(Resource("gpu", 1))
    assert pool.can_satisfy({})
    assert not pool.can_satisfy({"gpu": "4.000000001"})
    assert not pool.can_satisfy({"gpu": 1, "other": 1})
    assert not pool.can_satisfy({"none": 1})


def test_the_pool_shows_itself() -> None:
    pool = ResourcePool({"gpu": 4, "cpu": 2})
    pool.try_acquire({"gpu": 1})
    assert repr(pool) == "<ResourcePool cpu=0/2 gpu=1/4>"


# --- taking and giving back -------------------------------------------------------------------------------------------


def test_r3_try_acquire_never_blocks() -> None:
    pool = ResourcePool({"gpu": 2})
    first = pool.try_acquire({"gpu": 2})
    assert first
    assert pool.try_acquire({"gpu": 1}) is None
    assert pool.allocated == {"gpu": 2}
    pool.release(first)
    assert pool.try_acquire({"gpu": 1})


def test_an_allocation_is_true_even_where_nothing_was_asked_for() -> None:
    pool = ResourcePool({"gpu": 1})
    for request in ({}, EMPTY, {"gpu": 1}):
        allocation = pool.try_acquire(request)
        assert allocation
        pool.release(allocation)


def test_devices_are_whole_or_shared() -> None:
    pool = ResourcePool(GPUs(2))
    halves = [pool.try_acquire(GPUs(0.5)) for _ in range(3)]
    assert [half.gpus for half in halves if half] == [(0,), (0,), (1,)]
    assert pool.try_acquire(GPUs(1)) is None
    assert halves[0] is not None
    pool.release(halves[0])
    assert pool.available == {"gpus": 1}
    assert pool.try_acquire(GPUs(1)) is None  # half of each


def test_r5_a_second_release_is_an_error_and_changes_nothing() -> None:
    pool = ResourcePool({"gpu": 2})
    first, second = pool.try_acquire({"gpu": 1}), pool.try_acquire({"gpu": 1})
    assert first is not None
    assert second is not None
    pool.release(first)
    with pytest.raises(ResourceError, match="released before"):
        pool.release(first)
    assert pool.allocated == {"gpu": 1}
    assert [s.event for s in pool.timeline.snapshots] == ["acquire", "acquire", "release"]


def test_r5_what_is_not_from_this_pool_is_refused() -> None:
    pool, other = ResourcePool(Cores(2)), ResourcePool(Cores(2))
    mine, foreign = pool.try_acquire(Cores(2)), other.try_acquire(Cores(2))
    assert mine is not None
    assert foreign is not None
    strangers: list[Any] = [
        foreign,
        Cores([0, 1]),
        copy.copy(mine),
        pickle.loads(pickle.dumps(mine)),
        None,
        {"cores": 2},
    ]
    for stranger in strangers:
        with pytest.raises(ResourceError, match="cannot be released"):
            pool.release(stranger)
    assert (pool.allocated, other.allocated) == ({"cores": 2}, {"cores": 2})
    pool.release(mine)


def test_an_allocation_equals_and_travels_by_value() -> None:
    allocation = ResourcePool(Node([6, 7], "8Gi")).try_acquire(Node(2, "1Gi"))
    assert allocation == Node([6, 7], "1Gi")
    assert pickle.loads(pickle.dumps(allocation)) == Node([6, 7], "1Gi")


@pytest.mark.parametrize("bad", [{"gpu": 0}, {"gpu": -1}, {"gpu": "x"}, "gpu=1", 1, None, Cores([0])])
@pytest.mark.anyio
async def test_a_malformed_request_is_refused_everywhere(bad: Any) -> None:
    pool = ResourcePool({"gpu": 1, "cores": 1})
    for refuse in (pool.can_satisfy, pool.try_acquire, pool.hold):
        with pytest.raises(ResourceSpecError):
            refuse(bad)
    for wait in (pool.acquire, pool.reserve, pool.relinquish):
        with pytest.raises(ResourceSpecError):
            await wait(bad)
    assert pool.allocated == {"gpu": 0, "cores": 0}


@pytest.mark.anyio
async def test_a_request_above_capacity_is_refused_at_once_and_names_what_lacks() -> None:
    pool = ResourcePool({"gpu": 4, "cpu": "1500m", "zero": 0})
    request = {"gpu": 5, "cpu": 1, "foo": 1, "zero": 1}
    message = r"too little foo \(asked 1, the pool has none\), gpu \(asked 5, the pool has 4\), zero \(asked 1, .* 0\)$"
    with pytest.raises(UnsatisfiableError, match=message):
        pool.try_acquire(request)
    with pytest.raises(UnsatisfiableError, match=message), anyio.fail_after(LIMIT_S):
        await pool.acquire(request)
    with pytest.raises(UnsatisfiableError, match=message), anyio.fail_after(LIMIT_S):
        async with pool.hold(request):
            pytest.fail("the block must not begin")
    assert pool.timeline.snapshots == []


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_r3_acquire_waits_without_a_timeout_and_gives_up_at_the_deadline_with_one() -> None:
    pool = ResourcePool({"gpu": 1})
    first = await pool.acquire({"gpu": 1})
    assert first
    async with anyio.create_task_group() as tasks:
        patient = await begin(tasks, pool, {"gpu": 1})
        for timeout in (-1, 0, 0.002):
            assert await pool.acquire({"gpu": 1}, timeout=timeout) is None
        assert not patient.ended
        pool.release(first)
    assert patient.allocation
    assert pool.allocated == {"gpu": 1}


@pytest.mark.anyio
async def test_r3_a_timeout_of_zero_takes_what_is_free() -> None:
    pool = ResourcePool({"gpu": 1})
    assert await pool.acquire({"gpu": 1}, timeout=0)
    assert await pool.acquire({"gpu": 1}, 0) is None


@pytest.mark.anyio
async def test_waiters_are_served_in_the_order_of_arrival() -> None:
    pool = ResourcePool({"gpu": 1})
    last = pool.try_acquire({"gpu": 1})
    async with anyio.create_task_group() as tasks:
        waiters = [await begin(tasks, pool, {"gpu": 1 - tenth / 10}) for tenth in (0, 1, 0, 2, 0)]
        for served, waiting in enumerate(waiters):
            assert last is not None
            pool.release(last)
            await wait_all_tasks_blocked()
            assert [w.ended for w in waiters] == [index <= served for index in range(5)]
            last = waiting.allocation
    assert all(w.allocation for w in waiters)


@pytest.mark.anyio
async def test_one_release_serves_all_that_fit() -> None:
    pool = ResourcePool({"gpu": 4})
    everything = pool.try_acquire({"gpu": 4})
    assert everything is not None
    async with anyio.create_task_group() as tasks:
        waiters = [await begin(tasks, pool, {"gpu": 1}) for _ in range(6)]
        pool.release(everything)
        await wait_all_tasks_blocked()
        assert [w.ended for w in waiters] == [True] * 4 + [False] * 2
        for w in waiters[:2]:
            assert w.allocation is not None
            pool.release(w.allocation)


@pytest.mark.anyio
async def test_r5_a_cancelled_wait_leaks_nothing_and_frees_the_line() -> None:
    pool = ResourcePool({"gpu": 4})
    three = pool.try_acquire({"gpu": 3})
    assert three is not None
    async with anyio.create_task_group() as tasks:
        wide = await begin(tasks, pool, {"gpu": 4})
        wide.scope.cancel()
        await wait_all_tasks_blocked()
        assert wide.ended
        assert wide.allocation is None
        assert pool.allocated == {"gpu": 3}
        pool.release(three)
    assert pool.available == {"gpu": 4}
    assert [s.event for s in pool.timeline.snapshots] == ["acquire", "release"]


@pytest.mark.anyio
async def test_r5_cancelled_in_the_moment_of_the_grant_nothing_is_lost() -> None:
    pool = ResourcePool({"gpu": 1})
    held = pool.try_acquire({"gpu": 1})
    assert held is not None
    async with anyio.create_task_group() as tasks:
        unlucky = await begin(tasks, pool, {"gpu": 1})
        lucky = await begin(tasks, pool, {"gpu": 1})
        pool.release(held)  # granted, but its task has had no turn yet
        unlucky.scope.cancel()
        await wait_all_tasks_blocked()
        if unlucky.allocation is not None:  # whether a granted wait still notices is the event loop's choice
            pool.release(unlucky.allocation)
    assert lucky.allocation is not None
    pool.release(lucky.allocation)
    assert pool.available == {"gpu": 1}


@pytest.mark.asyncio
async def test_r5_a_native_cancellation_in_the_moment_of_the_grant_gives_it_to_the_next() -> None:
    pool = ResourcePool({"gpu": 1})
    held = pool.try_acquire({"gpu": 1})
    assert held is not None
    unlucky, lucky = (asyncio.create_task(pool.acquire({"gpu": 1}, name=name)) for name in ("unlucky", "lucky"))
    await wait_all_tasks_blocked()
    pool.release(held)
    unlucky.cancel()
    with pytest.raises(asyncio.CancelledError):
        await unlucky
    assert await lucky
    assert [(s.event, s.name) for s in pool.timeline.snapshots[2:]] == [
        ("acquire", "unlucky"),
        ("release", "unlucky"),
        ("acquire", "lucky"),
    ]


@pytest.mark.asyncio
async def test_r5_a_native_cancellation_in_the_first_turn_gives_back_what_was_granted() -> None:
    pool = ResourcePool({"gpu": 1})
    task = asyncio.create_task(pool.acquire({"gpu": 1}))
    await asyncio.sleep(0)
    assert pool.allocated == {"gpu": 1}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.allocated == {"gpu": 0}


@pytest.mark.anyio
async def test_every_wait_gives_others_a_turn() -> None:
    pool = ResourcePool({"gpu": 1})
    fairness = 0

    async def spin() -> None:
        nonlocal fairness
        while True:
            async with pool.hold({"gpu": 1}):
                fairness += 1
            if await pool.reserve({"gpu": 1}) is None:
                await pool.relinquish({"gpu": 1})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(spin)
        while fairness < 3:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    assert pool.allocated == {"gpu": 0}


@pytest.mark.anyio
async def test_r5_slots_return_after_success_failure_and_cancellation_of_a_block() -> None:
    pool = ResourcePool(Cores(2))
    async with pool.hold(Cores(2), name="good") as allocation:
        assert allocation.cores == (0, 1)
        assert pool.available == {"cores": 0}
    assert pool.available == {"cores": 2}
    with pytest.raises(KeyError):
        async with pool.hold(Cores(1)):
            raise KeyError
    assert pool.available == {"cores": 2}
    with anyio.CancelScope() as scope:
        async with pool.hold(Cores(1)):
            scope.cancel()
            await anyio.sleep_forever()
    assert pool.available == {"cores": 2}
    assert pool.timeline.snapshots[0].name == "good"


@pytest.mark.anyio
async def test_a_block_waits_its_turn_and_may_be_cancelled_before_it() -> None:
    pool = ResourcePool({"gpu": 1})
    begun = []

    async def block() -> None:
        async with pool.hold({"gpu": 1}):
            begun.append(True)

    held = pool.try_acquire({"gpu": 1})
    assert held is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(block)
        await wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert begun == []
    pool.release(held)
    assert pool.available == {"gpu": 1}


def test_a_pool_may_be_made_and_used_before_the_loop() -> None:
    pool = ResourcePool({"gpu": 1})
    held = pool.try_acquire({"gpu": 1})
    assert held is not None

    async def main() -> bool:
        async with anyio.create_task_group() as tasks:
            waiting = await begin(tasks, pool, {"gpu": 1})
            pool.release(held)
        return bool(waiting.allocation)

    assert anyio.run(main)


# --- timeline ---------------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_r6_snapshots_in_order_with_name_allocated_and_available() -> None:
    pool = ResourcePool({"gpu": 2, "cpu": 4})
    train = await pool.acquire({"gpu": 2}, name="train")
    assert train is not None
    pool.try_acquire({"cpu": 1}, name="load")
    async with anyio.create_task_group() as tasks:
        await begin(tasks, pool, {"gpu": 1}, name="test")
        pool.release(train)
    await pool.reserve({"cpu": 3}, name="quota")
    await pool.relinquish({"cpu": 2}, name="quota")
    assert [(s.event, s.name, s.allocated, s.available) for s in pool.timeline.snapshots] == [
        ("acquire", "train", {"gpu": 2, "cpu": 0}, {"gpu": 0, "cpu": 4}),
        ("acquire", "load", {"gpu": 2, "cpu": 1}, {"gpu": 0, "cpu": 3}),
        ("release", "train", {"gpu": 0, "cpu": 1}, {"gpu": 2, "cpu": 3}),
        ("acquire", "test", {"gpu": 1, "cpu": 1}, {"gpu": 1, "cpu": 3}),
        ("reserve", "quota", {"gpu": 1, "cpu": 4}, {"gpu": 1, "cpu": 0}),
        ("relinquish", "quota", {"gpu": 1, "cpu": 2}, {"gpu": 1, "cpu": 2}),
    ]
    times = [s.timestamp for s in pool.timeline.snapshots]
    assert times == sorted(times)
    assert times[0] > 1.6e9


def test_r6_one_release_that_serves_several_shows_each_step() -> None:
    pool = ResourcePool({"gpu": 2})
    two = pool.try_acquire({"gpu": 2})
    assert two is not None

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for name in "ab":
                await begin(tasks, pool, {"gpu": 1}, name=name)
            pool.release(two)

    anyio.run(main)
    assert [(s.event, s.name, s.allocated["gpu"]) for s in pool.timeline.snapshots] == [
        ("acquire", "", 2),
        ("release", "", 0),
        ("acquire", "a", 1),
        ("acquire", "b", 2),
    ]


def test_r6_recorded_by_hand() -> None:
    pool = ResourcePool({"gpu": 2})
    pool.try_acquire({"gpu": 1})
    snapshot = pool.timeline.record()
    assert (snapshot.event, snapshot.name) == ("record", "")
    assert (snapshot.allocated, snapshot.available) == ({"gpu": 1}, {"gpu": 1})
    pool.timeline.record("checkpoint", "epoch 3")
    assert [(s.event, s.name) for s in pool.timeline.snapshots[1:]] == [("record", ""), ("checkpoint", "epoch 3")]


def test_r6_peak_utilization_is_a_fraction_of_capacity() -> None:
    pool = ResourcePool({"gpu": 4, "cpu": 8, "idle": 2, "zero": 0})
    assert pool.timeline.peak_utilization() == {"gpu": 0.0, "cpu": 0.0, "idle": 0.0, "zero": 0.0}
    first = pool.try_acquire({"gpu": 3, "cpu": 1})
    assert first is not None
    pool.release(first)
    pool.try_acquire({"gpu": 1, "cpu": 2})
    assert pool.timeline.peak_utilization() == {"gpu": 0.75, "cpu": 0.25, "idle": 0.0, "zero": 0.0}


def test_r6_a_long_life_keeps_the_last_snapshots_and_all_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grainlike.pool._timeline.KEPT", 3)
    pool = ResourcePool({"gpu": 2})
    both = pool.try_acquire({"gpu": 2})
    assert both is not None
    pool.release(both)
    for step in range(3):
        pool.timeline.record("step", str(step))
    assert [s.name for s in pool.timeline.snapshots] == ["0", "1", "2"]
    assert pool.timeline.peak_utilization() == {"gpu": 1.0}

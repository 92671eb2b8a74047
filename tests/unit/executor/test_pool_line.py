"""The fair rule of a pool: what passes whom, how often, and what is kept back for whom."""

from collections import deque
from typing import Any

import anyio
import pytest
from counting import calls_of

from grainlike import Allocation, Request, ResourcePool
from grainlike.pool._queue import PASSES, QueuedRequest, WaitQueue
from grainlike.resources import Grant, offer_of


class Bell:
    """Nobody listens."""

    def set(self) -> None:
        pytest.fail("the line rings no bell")


class Desk:
    """A line whose waiters are looked at by hand."""

    def __init__(self, **capacity: Any) -> None:
        self.line = WaitQueue(offer_of(Request(capacity), own_cores=()))

    def join(self, **amounts: Any) -> QueuedRequest:
        return self.line.join(Request(amounts), "", Bell())

    def take(self, **amounts: Any) -> Grant | None:
        return self.line.take(Request(amounts))

    def give(self, held: QueuedRequest | Grant | None) -> list[QueuedRequest]:
        grant = held.grant if isinstance(held, QueuedRequest) else held
        assert grant is not None
        self.line.give(grant)
        return list(self.line.serve())

    def leave(self, ticket: QueuedRequest) -> list[QueuedRequest]:
        self.line.leave(ticket)
        return list(self.line.serve())


def stream(desk: Desk, held: QueuedRequest, limit: int = 1000, **amounts: Any) -> tuple[int, QueuedRequest]:
    """Let requests come one after another, each before the one that is held is given back; count those that pass."""
    for passed in range(limit):
        following = desk.join(**amounts)
        if following.grant is None:
            desk.leave(following)
            return passed, held
        desk.give(held)
        held = following
    return limit, held


def test_what_fits_does_not_wait_behind_what_does_not() -> None:
    desk = Desk(gpu=4)
    desk.join(gpu=2)
    wide = desk.join(gpu=4)
    assert wide.grant is None
    assert desk.join(gpu=2).grant
    assert wide.passed == 1


@pytest.mark.parametrize("wide", [{"gpu": 4}, {"gpu": 4, "cpu": 1}, {"gpu": 3, "cpu": 4}])
def test_no_stream_of_small_requests_keeps_a_wide_one_waiting_for_ever(wide: dict[str, int]) -> None:
    desk = Desk(gpu=4, cpu=4)
    small = desk.join(gpu=2)
    waiting = desk.join(**wide)
    passed, small = stream(desk, small, gpu=2)
    assert passed == PASSES
    assert desk.take(gpu=2) is None
    assert desk.line.count(Request({"gpu": 2})) == "gpu"
    assert desk.give(small) == [waiting]
    assert waiting.grant


def test_try_acquire_and_reserve_count_as_passing_too() -> None:
    desk = Desk(gpu=4)
    held = desk.take(gpu=1)
    wide = desk.join(gpu=4)
    for _ in range(PASSES // 2):
        desk.give(desk.take(gpu=1))
        assert desk.line.count(Request({"gpu": 1})) is None
        assert desk.line.discount(Request({"gpu": 1})) is None
    assert wide.passed == PASSES
    assert desk.take(gpu=1) is None
    assert desk.give(held) == [wide]


def test_what_is_kept_is_only_what_was_asked_for() -> None:
    desk = Desk(gpu=2, cpu=8, other=1)
    held = desk.join(gpu=2, cpu=1)
    waiting = desk.join(gpu=1, cpu=3)
    waiting.passed = PASSES
    assert desk.take(other=1)
    assert desk.take(cpu=5) is None
    assert desk.take(cpu=4)
    assert desk.take(cpu=1) is None
    assert desk.give(held) == [waiting]


def test_requests_for_unrelated_resources_are_in_front_side_by_side() -> None:
    desk = Desk(gpu=1, cpu=4)
    desk.join(gpu=1)
    gpu = desk.join(gpu=1)
    small = desk.join(cpu=2)
    wide = desk.join(cpu=4)
    behind = desk.join(cpu=4, gpu=1)
    passed, small = stream(desk, small, cpu=2)
    assert passed == PASSES
    assert (gpu.passed, behind.passed) == (0, 0)
    assert desk.give(small) == [wide]


def test_only_the_oldest_of_those_that_share_something_has_it_kept() -> None:
    desk = Desk(gpu=1, cpu=8)
    desk.join(gpu=1)
    first = desk.join(gpu=1, cpu=2)
    others = [desk.join(gpu=1, cpu=3) for _ in range(20)]
    first.passed = PASSES
    assert desk.take(cpu=7) is None
    assert desk.take(cpu=6)
    assert {ticket.passed for ticket in others} == {0}


def test_the_next_comes_to_the_front_with_a_count_of_its_own() -> None:
    desk = Desk(gpu=4)
    small = desk.join(gpu=2)
    first, second = desk.join(gpu=4), desk.join(gpu=3)
    passed, small = stream(desk, small, gpu=2)
    assert (passed, first.passed, second.passed) == (PASSES, PASSES, 0)
    newcomer = desk.join(gpu=1)
    assert desk.give(small) == [first]
    assert desk.give(first) == [second, newcomer]
    assert second.passed == 0


def test_who_leaves_lets_others_have_what_was_kept() -> None:
    desk = Desk(gpu=4)
    desk.join(gpu=2)
    wide = desk.join(gpu=4)
    wide.passed = PASSES
    small = desk.join(gpu=2)
    assert small.grant is None
    assert desk.leave(wide) == [small]


def test_alike_requests_are_served_in_order_and_may_leave_from_the_middle() -> None:
    desk = Desk(gpu=1)
    held = desk.join(gpu=1)
    waiting = [desk.join(gpu=1) for _ in range(5)]
    assert desk.leave(waiting.pop(2)) == []
    for ticket in waiting:
        assert desk.give(held) == [ticket]
        held = ticket


def test_older_ones_come_first_among_different_requests() -> None:
    desk = Desk(gpu=4)
    held = desk.join(gpu=4)
    tickets = [desk.join(gpu=amount) for amount in (3, 1, 3, 1, 2)]
    assert desk.give(held) == [tickets[0], tickets[1]]
    assert desk.give(tickets[0]) == [tickets[2]]
    assert desk.give(tickets[2]) == [tickets[3], tickets[4]]


def test_shares_of_a_device_never_break_the_one_that_is_waited_for() -> None:
    desk = Desk(gpus=3)
    halves = [desk.join(gpus=0.5) for _ in range(6)]
    whole = desk.join(gpus=1)
    for half in (halves[0], halves[2], halves[4]):
        assert desk.give(half) == []
    whole.passed = PASSES
    assert desk.take(gpus=0.5) is None  # half of each device is free, but a half taken now may be the wrong one
    assert desk.give(halves[3]) == [whole]
    assert desk.take(gpus=0.5)


def test_a_release_does_not_look_at_every_waiter() -> None:
    def serve(waiters: int) -> None:
        desk = Desk(gpu=1)
        held = desk.join(gpu=1)
        waiting = deque(desk.join(gpu=1) for _ in range(waiters))
        while waiting:
            assert desk.give(held) == [waiting[0]]
            held = waiting.popleft()

    few, many = calls_of(lambda: serve(500)), calls_of(lambda: serve(2_000))
    assert few < many < 4.4 * few


@pytest.mark.anyio
async def test_the_bound_holds_for_a_pool_under_a_stream_of_small_tasks() -> None:
    pool = ResourcePool({"gpu": 4})
    order: list[str] = []

    async def small(release: anyio.Event) -> None:
        async with pool.hold({"gpu": 2}):
            order.append("small")
            await release.wait()

    async def wide() -> None:
        async with pool.hold({"gpu": 4}):
            order.append("wide")

    gates = [anyio.Event() for _ in range(PASSES + 4)]
    async with anyio.create_task_group() as tasks:
        for before, gate in zip([None, *gates], gates, strict=False):
            tasks.start_soon(small, gate)
            await anyio.wait_all_tasks_blocked()
            if before is None:
                tasks.start_soon(wide)
                await anyio.wait_all_tasks_blocked()
            else:
                before.set()
        await anyio.wait_all_tasks_blocked()
        gates[-1].set()
    assert order == ["small"] * (1 + PASSES) + ["wide"] + ["small"] * 3


def test_an_allocation_of_the_line_is_the_ledgers() -> None:
    ticket = Desk(cores=2).join(cores=2)
    assert ticket.grant is not None
    assert ticket.grant.allocation == Allocation(ids={"cores": [0, 1]})

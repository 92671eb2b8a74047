"""A worker that has had no jobs for a while ends by itself, and never before."""

from __future__ import annotations

import anyio
import pytest
import trio.testing

from grainlike_worker.daemon._stops import IdleTimer


@pytest.mark.parametrize(
    ("looks", "ends"),
    [
        ([(0.0, True)], 60.0),
        ([(100.0, True)], 160.0),
        ([(100.0, False), (200.0, True)], 260.0),
        ([(0.0, True), (30.0, False), (100.0, True)], 160.0),
        ([(0.0, True), (59.0, False), (59.5, True), (100.0, False), (500.0, True)], 560.0),
        ([(0.0, True), (10.0, True), (20.0, True)], 60.0),
        ([(0.0, True), (10.0, False), (10.0, True)], 70.0),
    ],
)
def test_the_time_counts_from_when_it_has_joined_or_the_last_job_has_ended(
    looks: list[tuple[float, bool]], ends: float
) -> None:
    expired: list[float] = []

    async def main() -> None:
        timer = IdleTimer(60.0, lambda: expired.append(trio.current_time() - began), trio.current_time)
        began = trio.current_time()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timer.run)
            for at, idle in looks:
                await anyio.sleep(began + at - trio.current_time())
                timer.look(idle=idle)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert expired == [pytest.approx(ends)]


def test_a_worker_that_is_busy_does_not_end() -> None:
    expired: list[bool] = []

    async def main() -> None:
        timer = IdleTimer(60.0, lambda: expired.append(True), trio.current_time)
        with anyio.move_on_after(10_000):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(timer.run)
                timer.look(idle=False)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert expired == []

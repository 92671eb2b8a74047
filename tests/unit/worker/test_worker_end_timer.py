"""A worker leaves a margin before its batch job ends, whenever that is by the last word."""

from __future__ import annotations

import anyio
import pytest
import trio.testing

from grainlike_worker.daemon._probe import grace_before_end
from grainlike_worker.daemon._stops import EndTimer


@pytest.mark.parametrize(
    ("left_s", "words", "ends"),
    [
        (60.0, [], 60.0),
        (60.0, [(30.0, 100.0)], 130.0),
        (60.0, [(30.0, 5.0)], 35.0),
        (60.0, [(30.0, 100.0), (90.0, 0.0)], 90.0),
        (None, [(30.0, 5.0)], 35.0),
        (60.0, [(30.0, -5.0)], 30.0),
    ],
)
def test_the_last_word_counts(left_s: float | None, words: list[tuple[float, float]], ends: float) -> None:
    expired: list[float] = []

    async def main() -> None:
        began = trio.current_time()
        timer = EndTimer(left_s, 1.0, lambda: expired.append(trio.current_time() - began))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(timer.run)
            for at, left in words:
                await anyio.sleep(began + at - trio.current_time())
                assert not timer.over
                timer.tell(left, 7.0)
                assert timer.left_s == max(0.0, left)
                assert timer.grace_s == 7.0
        assert timer.over

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert expired == [pytest.approx(ends)]


def test_a_worker_without_an_end_does_not_end() -> None:
    expired: list[bool] = []

    async def main() -> None:
        timer = EndTimer(None, 0.0, lambda: expired.append(True))
        assert timer.left_s is None
        with anyio.move_on_after(10**6):
            await timer.run()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert expired == []


@pytest.mark.parametrize(("left_s", "grace_s"), [(3540, 30), (240, 30), (48, 6), (4, 0.5)])
def test_jobs_have_half_of_the_margin(left_s: float, grace_s: float) -> None:
    assert grace_before_end(left_s) == pytest.approx(grace_s)

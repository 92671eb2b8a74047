"""An idle loop takes a turn when a signal comes."""

import asyncio
import signal

import pytest
from limits import LIMIT_S

from grainlike.eventloop import here
from grainlike.executor._interrupts import woken_by_signals


def wakeup_fd() -> int:
    fd = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(fd)
    return fd


async def _scheduled_by_a_handler() -> None:
    """Wait for what the handler of an alarm schedules: it does not wake the loop itself."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    before = signal.signal(signal.SIGALRM, lambda *_: loop.call_soon(came.set))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        async with asyncio.timeout(LIMIT_S):
            await came.wait()
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.asyncio
async def test_what_a_handler_schedules_is_done_at_once() -> None:
    loop_id = here()
    assert loop_id is not None
    assert wakeup_fd() == -1
    with woken_by_signals(loop_id):
        await _scheduled_by_a_handler()
    assert wakeup_fd() == -1


@pytest.mark.asyncio
async def test_one_inside_another_leaves_it_alone() -> None:
    loop_id = here()
    assert loop_id is not None
    with woken_by_signals(loop_id):
        outer = wakeup_fd()
        with woken_by_signals(loop_id):
            assert wakeup_fd() == outer
            await _scheduled_by_a_handler()
        assert wakeup_fd() == outer != -1
    assert wakeup_fd() == -1

"""A silence is believed, and a late alarm rings, only once all that was due in the loop has run."""

import time

import anyio
import anyio.lowlevel
import pytest

from grainlike.eventloop import Alarm, stays


@pytest.mark.anyio
async def test_what_was_due_while_the_loop_was_blocked_is_heard_before_a_silence_is_believed():
    """A heartbeat passes some tasks until it is heard, and all of them woke in the turn of the one who asks."""
    heard = []

    async def beat(tasks_on_the_way):
        await anyio.lowlevel.checkpoint()
        if tasks_on_the_way:
            tasks.start_soon(beat, tasks_on_the_way - 1)
        else:
            heard.append(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat, 6)
        assert not await stays(lambda: not heard)
        assert await stays(lambda: bool(heard))


@pytest.mark.anyio
async def test_an_alarm_that_is_late_rings_when_what_has_come_is_heard():
    """A job's time may be up in the turn in which its end is read."""
    heard = []
    rung = anyio.Event()

    async def come(tasks_on_the_way):
        await anyio.lowlevel.checkpoint()
        if tasks_on_the_way:
            tasks.start_soon(come, tasks_on_the_way - 1)
        else:
            heard.append("outcome")

    def ring():
        heard.append("ring")
        rung.set()

    alarm = Alarm(ring)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(alarm.run)
        await anyio.wait_all_tasks_blocked()
        alarm.set(time.monotonic() - 1.0)  # the loop was blocked for a second
        tasks.start_soon(come, 6)
        await rung.wait()
        tasks.cancel_scope.cancel()
    assert heard == ["outcome", "ring"]

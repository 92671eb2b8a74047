"""A silence is believed only once all that was due in the loop has run."""

import anyio
import anyio.lowlevel
import pytest

from grainlike.eventloop import stays


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

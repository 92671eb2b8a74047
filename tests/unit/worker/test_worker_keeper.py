"""The daemon's side of its keeper: what a birth comes to when the keeper dies over it."""

import asyncio
import os
import signal
import sys

import pytest

from grainlike_worker._keeper import Keeper

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(sys.platform != "linux", reason="there are keepers on Linux only"),
]


async def test_a_birth_over_which_the_keeper_dies_is_told_of_and_not_waited_for_when_another_has_taken_its_place() -> (
    None
):
    keeper = Keeper()
    try:
        keeper.start()
        first = keeper._process
        assert first is not None
        os.kill(first.pid, signal.SIGSTOP)
        birth = asyncio.create_task(keeper.bear(["--own"], dict(os.environ), {}))
        await asyncio.sleep(0)  # it has asked, and waits for the answer
        first.kill()
        keeper.start()  # as another birth would, before the loop turns
        assert keeper._process is not first
        with pytest.raises(OSError, match="their keeper ended: killed by SIGKILL"):
            await asyncio.wait_for(birth, 20)
    finally:
        await keeper.aclose()

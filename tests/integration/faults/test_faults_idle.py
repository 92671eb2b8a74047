"""Workers that end by themselves when there is nothing to do."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, delayed

pytestmark = pytest.mark.asyncio

ONCE_IT_HAD_A_JOB = """
import grainlike_worker.__main__ as program

class IdleTimer(program.IdleTimer):
    busy = -1  # it connects

    def look(self, *, idle):
        self.busy += not idle
        super().look(idle=idle and self.busy > 0)

program.IdleTimer = IdleTimer
"""
"""Code of a worker whose time without a job begins with the end of its first: its head may take longer to send that."""


async def test_an_idle_worker_ends_and_nothing_is_lost(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        first = start_worker(executor.address, name="n1", more=("--idle", "1"), first=ONCE_IT_HAD_A_JOB)
        assert await (delayed(abs) @ Cores(1))(-1) == 1
        assert await anyio.to_thread.run_sync(first.process.wait, LIMIT_S) == 0
        last_ = (delayed(abs) @ Cores(1))(-2)
        start_worker(executor.address, name="n2")
        assert await last_ == 2
        assert [worker.name for worker in executor.workers()] == ["n2"]


async def test_a_worker_that_waits_for_a_head_that_never_comes_ends(start_worker):
    worker = start_worker("tcp://127.0.0.1:1", insecure=True, more=("--wait", "--idle", "0.1"))
    assert await anyio.to_thread.run_sync(worker.process.wait, LIMIT_S) == 0


@pytest.mark.parametrize("idle", ["soon", "-1", "0", ""])
async def test_what_is_no_time_is_refused(start_worker, idle):
    worker = start_worker("tcp://127.0.0.1:1", more=(f"--idle={idle}",))
    assert await anyio.to_thread.run_sync(worker.process.wait, LIMIT_S) == 2

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
    def __init__(self, seconds, expired):
        super().__init__(seconds, expired)
        self._idle = self._had_a_job = False

    def look(self, *, idle):
        self._had_a_job |= not idle
        super().look(idle=idle and self._had_a_job)

program.IdleTimer = IdleTimer
"""
"""Code of a worker whose time without a job begins with the end of its first: to connect may take it longer."""


async def test_an_idle_worker_ends_and_nothing_is_lost(start_worker):
    async with asyncio.timeout(LIMIT_S), Executor(listen="tcp://127.0.0.1:0") as executor:
        first = start_worker(executor.address, name="n1", more=("--idle", "1"), first=ONCE_IT_HAD_A_JOB)
        assert await (delayed(abs) @ Cores(1))(-1) == 1
        assert await anyio.to_thread.run_sync(first.process.wait, LIMIT_S) == 0
        last_ = (delayed(abs) @ Cores(1))(-2)
        start_worker(executor.address, name="n2")
        assert await last_ == 2
        assert [worker.name for worker in executor.workers()] == ["n2"]


@pytest.mark.parametrize("idle", ["soon", "-1", "0", ""])
async def test_what_is_no_time_is_refused(start_worker, idle):
    worker = start_worker("tcp://127.0.0.1:1", more=(f"--idle={idle}",))
    assert await anyio.to_thread.run_sync(worker.process.wait, LIMIT_S) == 2

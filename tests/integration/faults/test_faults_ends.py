"""Ends of workers: what runs at the end is cancelled, runs elsewhere, and counts neither as failed nor as lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, delayed, info, start

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


async def test_a_job_that_runs_into_the_end_cleans_up_and_runs_elsewhere(gates, start_worker):
    """The head tells the worker that its time is over; its grace is its own, and it has no retries to spend."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(listen=LISTEN) as executor:
        visit, leave = gate.visit, farewell.visit
        farewell.open = True

        @delayed(retries=0)
        def job():
            try:
                visit("job")
            finally:
                leave("job")
            return "done"

        first = start_worker(executor.address, name="n1")
        r_ = start((job @ Cores(1))())
        await gate.arrival()
        (number,) = executor._service.head.peers
        executor._service.head.tell_time_left(number, 0.0, LIMIT_S)
        assert await anyio.to_thread.run_sync(first.process.wait, LIMIT_S) == 0
        await farewell.arrival()
        start_worker(executor.address, name="n2")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2

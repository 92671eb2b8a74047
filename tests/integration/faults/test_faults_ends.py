"""Ends of workers: what runs at the end is cancelled, runs elsewhere, and counts neither as failed nor as lost."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from limits import LIMIT_S

from grainlike import Cores, Executor, Retry, delayed, info, start

LISTEN = "tcp://127.0.0.1:0"

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("kind", ["plain", "coroutine", "isolated"])
async def test_a_job_that_runs_into_the_end_cleans_up_and_runs_elsewhere(kind, gates, start_worker):
    """The head tells the worker that its time is over; the job sees that, has a grace of its own, and runs elsewhere
    without retries.
    """
    async with asyncio.timeout(LIMIT_S), gates() as gate, gates() as farewell, Executor(listen=LISTEN) as executor:
        visit, leave = gate.visit, farewell.visit
        farewell.open = True

        def plain():
            try:
                visit("job")
            except SystemExit as end:
                leave("job", *getattr(end, "__notes__", ()))
                raise
            return "done"

        async def coroutine():
            try:
                await asyncio.to_thread(visit, "job")
            except asyncio.CancelledError as error:
                leave("job", *error.args)
                raise
            return "done"

        first = start_worker(executor.address, name="n1")
        job = delayed(retries=0, isolate=kind == "isolated")(plain if kind == "plain" else coroutine)
        r_ = start((job @ Cores(1))())
        await gate.arrival()
        (number,) = executor._service.head.peers
        executor._service.head.tell_time_left(number, 0.0, LIMIT_S)
        assert await anyio.to_thread.run_sync(first.process.wait, LIMIT_S) == 0
        assert (await farewell.arrival()).rest == ["walltime"]
        start_worker(executor.address, name="n2")
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 2


@pytest.mark.parametrize("grace_s", [LIMIT_S, 0.1], ids=["in time", "killed"])
async def test_ends_of_workers_use_up_no_attempts(grace_s, gates, start_worker):
    """More of them than losses are forgiven, on workers of one name; no exception is tried again."""
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit, stubborn = gate.visit, grace_s < LIMIT_S

        @delayed(retries=Retry(0, losses=1))
        def job():
            import signal

            try:
                visit("job")
            except SystemExit:
                while stubborn:
                    signal.pause()
                raise
            return "done"

        r_ = start((job @ Cores(1))())
        for _ in range(3):
            worker = start_worker(executor.address)
            await gate.arrival()
            (number,) = executor._service.head.peers
            executor._service.head.tell_time_left(number, 0.0, grace_s)
            assert await anyio.to_thread.run_sync(worker.process.wait, LIMIT_S) == 0
        start_worker(executor.address)
        await gate.arrival()
        gate.release_all()
        assert await r_ == "done"
        assert info(r_).attempt == 4

"""One head with a hundred workers and fifty thousand jobs in its queue: what it holds, and that all are answered."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from grainlike_bench.bench_load import Head, Other
from limits import LIMIT_S
from waiting import until

from grainlike.client._connection import call
from grainlike.wire import AskReport, AskWorkers, ReportIs, WorkersAre

WORKERS = 100
JOBS = 50_000
MOST_BYTES = 2048
"""What the head's process may grow by for each job that waits."""


@pytest.mark.asyncio
async def test_a_long_queue_fits_in_memory_and_a_hundred_workers_answer_all_of_it(tmp_path: Path) -> None:
    head = Head(tmp_path, journal=False)
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        await head.start()
        stack.callback(head.kill)

        def process(module: str, *arguments: object) -> Other:
            other = Other(module, *arguments)
            stack.callback(other.end)
            return other

        caller = await stack.enter_async_context(call(head.access("client")))
        before = head.memory
        client = process("_load_client", head.access("client"), "short", JOBS)

        async def queued() -> bool:
            return (await caller.ask(AskReport(0), ReportIs)).unended == JOBS

        await until(queued)  # a head answers, and tells nobody of itself
        grown = (head.memory - before) / JOBS
        light = process("_light_workers", head.access("worker"), WORKERS)
        await light.says("joined")
        assert len((await caller.ask(AskWorkers(0), WorkersAre)).workers) == WORKERS
        light.told("seconds 0")
        assert (await client.says("done")).endswith(f" of {JOBS}")
        report = await caller.ask(AskReport(0), ReportIs)
        print(
            f"{JOBS} jobs on {WORKERS} workers: {grown:.0f} bytes of the head's memory for each that waited; {report}"
        )
        assert report.unended == 0
        assert grown <= MOST_BYTES

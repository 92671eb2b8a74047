"""A job whose process stands still: the worker sees it, its log tells once, and `explain` and `jobs` say so."""

import asyncio
import logging
import os
import re
import signal

import pytest
from limits import LIMIT_S
from waiting import logged

from grainlike import Cores, Executor, delayed, start
from grainlike.client import call
from grainlike.head.server import _accept
from grainlike.wire import AskJob, AskJobs, JobIs, JobsAre

LISTEN = "tcp://127.0.0.1:0"
STOPPED = r"Its process, {pid}, is stopped \(SIGSTOP\), for \d+ s so far; `kill -CONT {pid}` lets it go on\.$"


@pytest.fixture(autouse=True)
def quick(monkeypatch, caplog):
    """Heartbeats, at which a worker looks, come many times a second."""
    monkeypatch.setattr(_accept, "HEARTBEAT_S", 0.05)
    caplog.set_level(logging.INFO, "grainlike")


@pytest.mark.asyncio
async def test_it_is_told_of_while_it_is_stopped(start_worker, gates, caplog):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        worker = start_worker(executor.address, name="n1")
        r_ = start((delayed(gate.visit) @ Cores(1))("it"))
        visitor = await gate.arrival()
        before = await executor.explain(r_)
        assert (before.halted, str(before)) == ("", "Job 1 runs on n1, attempt 1.")
        os.kill(visitor.pid, signal.SIGSTOP)
        (told,) = await logged(caplog, "does not go on")
        assert told == f"job 1 does not go on: its process, {visitor.pid} on worker n1, is stopped (SIGSTOP)"
        now = await executor.explain(r_)
        assert (now.state, now.reason) == ("leased", "")
        assert re.fullmatch(r"Job 1 runs on n1, attempt 1\. " + STOPPED.format(pid=visitor.pid), str(now))
        async with call(executor.address) as caller:
            answer = await caller.ask(AskJob(0, 1), JobIs)
            assert answer.words.endswith(answer.halted)
            assert answer.halted.endswith("lets it go on.")
            (row,) = (await caller.ask(AskJobs(0, 10), JobsAre)).jobs
            assert (row.state, row.halted) == ("running", "stopped (SIGSTOP)")
        os.kill(visitor.pid, signal.SIGCONT)
        await logged(caplog, f"process {visitor.pid} on worker n1 is not halted any more")
        assert await executor.explain(r_) == before
        visitor.release()
        await r_
    _, said = await worker.exit()
    assert said.count(f"process {visitor.pid}, which runs job 1, is stopped (SIGSTOP)") == 1


@pytest.mark.asyncio
async def test_all_coroutines_of_a_stopped_process_are(start_worker, gates, caplog):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(listen=LISTEN) as executor:
        visit = gate.visit

        @delayed
        async def wait():
            await asyncio.to_thread(visit, "it")

        start_worker(executor.address, name="n1")
        both = [start((wait @ Cores(1))()) for _ in range(2)]
        visitors = [await gate.arrival() for _ in both]
        (pid,) = {visitor.pid for visitor in visitors}
        os.kill(pid, signal.SIGSTOP)
        await logged(caplog, "job 1, 2 does not go on")
        for r_ in both:
            assert re.search(STOPPED.format(pid=pid), str(await executor.explain(r_)))
        os.kill(pid, signal.SIGCONT)
        gate.release_all()
        for r_ in both:
            await r_


@pytest.mark.asyncio
async def test_its_next_attempt_is_not(gates, caplog):
    async with asyncio.timeout(LIMIT_S), gates() as gate, Executor(local=Cores(1)) as executor:
        first_ = start((delayed(gate.visit) @ Cores(1))("it"))
        visitor = await gate.arrival()
        os.kill(visitor.pid, signal.SIGSTOP)
        await logged(caplog, "does not go on")
        os.kill(visitor.pid, signal.SIGKILL)
        second = await gate.arrival()  # its next attempt
        await logged(caplog, f"process {visitor.pid} on worker local is not halted any more")
        assert (await executor.explain(first_)).halted == ""
        second.release()
        await first_
